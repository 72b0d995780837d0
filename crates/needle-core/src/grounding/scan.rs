//! A text as characters with the few questions that the rules ask of it.
//!
//! The rules are small patterns with look-behind and look-ahead, which the `regex` crate lacks; scanning by hand costs no
//! dependency. Positions are character indices, and every question about a position past the end answers no.

/// The zeros of the digits in everyday use: Latin, Arabic, Persian, Devanagari, Bengali, full width.
const ZEROS: [char; 6] = ['0', '\u{660}', '\u{6f0}', '\u{966}', '\u{9e6}', '\u{ff10}'];

/// The characters of a text.
pub(super) struct Scan(Vec<char>);

impl Scan {
    pub(super) fn new(text: &str) -> Self {
        Self(text.chars().collect())
    }

    pub(super) fn lower_case(text: &str) -> Self {
        Self(text.to_lowercase().chars().collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn at(&self, at: usize) -> Option<char> {
        self.0.get(at).copied()
    }

    pub(super) fn before(&self, at: usize) -> Option<char> {
        self.at(at.checked_sub(1)?)
    }

    /// Whether a word (letters, digits, underscore) begins here.
    pub(super) fn begins_word(&self, at: usize) -> bool {
        self.at(at).is_some_and(is_word) && !self.before(at).is_some_and(is_word)
    }

    /// Whether no word goes on here.
    pub(super) fn ends_word(&self, at: usize) -> bool {
        !self.at(at).is_some_and(is_word)
    }

    /// The end of the run of characters that satisfy `rule`; `at` itself where there is none.
    pub(super) fn skip(&self, at: usize, rule: impl Fn(char) -> bool) -> usize {
        at + self.0.iter().skip(at).take_while(|c| rule(**c)).count()
    }

    pub(super) fn spaces(&self, at: usize) -> usize {
        self.skip(at, char::is_whitespace)
    }

    /// The end of at least one space.
    pub(super) fn some_spaces(&self, at: usize) -> Option<usize> {
        Some(self.spaces(at)).filter(|end| *end > at)
    }

    /// The end of the run of digits that starts here; `at` itself where there is none.
    pub(super) fn digits(&self, at: usize) -> usize {
        self.skip(at, |c| digit(c).is_some())
    }

    pub(super) fn is_digit(&self, at: usize) -> bool {
        self.at(at).and_then(digit).is_some()
    }

    /// The end of `word` where the text goes on with it.
    pub(super) fn word(&self, at: usize, word: &str) -> Option<usize> {
        let end = at + word.chars().count();
        (word.chars().eq(self.0.get(at..end)?.iter().copied())).then_some(end)
    }

    /// The end of `shape`, where `0` stands for any digit and all else for itself: `0000-00-00`.
    pub(super) fn shape(&self, at: usize, shape: &str) -> Option<usize> {
        let end = at + shape.chars().count();
        let found = self.0.get(at..end)?;
        let fits = |(form, c): (char, &char)| if form == '0' { digit(*c).is_some() } else { form == *c };
        shape.chars().zip(found).all(fits).then_some(end)
    }

    /// The characters of a stretch, digits of every script as Latin ones.
    pub(super) fn latin(&self, from: usize, to: usize) -> String {
        let latin = |c: &char| digit(*c).and_then(|value| char::from_digit(value, 10)).unwrap_or(*c);
        self.0.get(from..to).unwrap_or_default().iter().map(latin).collect()
    }
}

impl From<Vec<char>> for Scan {
    fn from(chars: Vec<char>) -> Self {
        Self(chars)
    }
}

/// Letters, digits and underscore.
pub(super) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The value of a decimal digit.
fn digit(c: char) -> Option<u32> {
    ZEROS
        .iter()
        .find_map(|zero| (c as u32).checked_sub(*zero as u32).filter(|value| *value < 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_past_the_end_answer_no() {
        let text = Scan::new("ab");
        assert_eq!(text.word(1, "bc"), None);
        assert_eq!(text.shape(9, "0"), None);
        assert_eq!(text.digits(9), 9);
        assert_eq!(text.before(0), None);
        assert!(!text.begins_word(2));
        assert!(text.ends_word(2));
    }

    #[test]
    fn digits_of_other_scripts_count() {
        let text = Scan::new("２０２６-٠٣-۰۵");
        assert_eq!(text.shape(0, "0000-00-00"), Some(10));
        assert_eq!(text.latin(0, 10), "2026-03-05");
        assert_eq!(digit('५'), Some(5));
        assert_eq!(digit('/'), None);
        assert_eq!(digit(':'), None);
    }
}
