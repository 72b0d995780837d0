//! Texts cut into the stretches inside which pieces may be learnt, each counted once.
//!
//! A stretch is a space sign with what follows it, and ends where letters meet other signs. A digit is a stretch of its own,
//! so is the space in front of one. Markers are cut out.

use std::collections::HashMap;

use super::super::SPACE_SIGN;

/// The stretches of a corpus.
pub(super) struct Words<'a> {
    markers: &'a [String],
    counts: HashMap<Box<str>, u64>,
}

impl<'a> Words<'a> {
    pub(super) fn new(markers: &'a [String]) -> Self {
        Self {
            markers,
            counts: HashMap::new(),
        }
    }

    /// Counts the stretches of one text, which begins with a space sign as every text does for the encoder.
    pub(super) fn add(&mut self, text: &str) {
        let mut rest = text;
        let mut start = Some(SPACE_SIGN);
        loop {
            let cut = self
                .markers
                .iter()
                .filter_map(|marker| Some((rest.find(marker.as_str())?, marker.len())));
            let cut = cut.min_by_key(|&(at, len)| (at, std::cmp::Reverse(len)));
            let (segment, next) = match cut {
                Some((at, len)) => (&rest[..at], Some(&rest[at + len..])),
                None => (rest, None),
            };
            self.segment(start.take().into_iter().chain(segment.chars()));
            match next {
                Some(next) => rest = next,
                None => return,
            }
        }
    }

    fn segment(&mut self, chars: impl Iterator<Item = char>) {
        let mut word = String::new();
        let mut last = None;
        for char in chars.map(|char| if char == ' ' { SPACE_SIGN } else { char }) {
            let class = Class::of(char);
            if last.is_some_and(|last| !Class::joins(last, class)) {
                self.count(&word);
                word.clear();
            }
            word.push(char);
            last = Some(class);
        }
        self.count(&word);
    }

    fn count(&mut self, word: &str) {
        if word.is_empty() {
            return;
        }
        match self.counts.get_mut(word) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(word.into(), 1)),
        }
    }

    /// The stretches in the order of their spelling.
    pub(super) fn sorted(&self) -> Vec<(&str, u64)> {
        let mut words: Vec<_> = self.counts.iter().map(|(word, &count)| (&**word, count)).collect();
        words.sort_unstable();
        words
    }

    /// The most frequent characters that together make up `coverage` of the text, most frequent first.
    pub(super) fn alphabet(&self, coverage: f64) -> Vec<char> {
        let mut counts: HashMap<char, u64> = HashMap::new();
        for (word, &count) in &self.counts {
            for char in word.chars() {
                *counts.entry(char).or_default() += count;
            }
        }
        let total: u64 = counts.values().sum();
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_unstable_by_key(|&(char, count)| (std::cmp::Reverse(count), char));
        let mut covered = 0;
        let enough = |covered: u64| covered as f64 >= coverage * total as f64;
        let needed = counts.into_iter().take_while(|&(_, count)| {
            let take = !enough(covered);
            covered += count;
            take
        });
        needed.map(|(char, _)| char).collect()
    }
}

/// What decides whether two neighbours may be in one piece.
#[derive(Clone, Copy, PartialEq)]
enum Class {
    Space,
    Letter,
    Digit,
    Sign,
}

impl Class {
    fn of(char: char) -> Self {
        match char {
            SPACE_SIGN => Self::Space,
            _ if char.is_alphabetic() => Self::Letter,
            _ if char.is_numeric() => Self::Digit,
            _ => Self::Sign,
        }
    }

    fn joins(left: Self, right: Self) -> bool {
        match (left, right) {
            (_, Self::Space | Self::Digit) | (Self::Digit, _) => false,
            (Self::Space, _) => true,
            (left, right) => left == right,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_with_their_space_and_end_where_the_kind_of_sign_changes() {
        let markers = ["<tools>".to_owned()];
        let mut words = Words::new(&markers);
        words.add("dim to 30 <tools>{\"id\":1}");
        let found: Vec<_> = words.sorted().into_iter().map(|(word, _)| word.to_owned()).collect();
        let mut expected = ["▁dim", "▁to", "▁", "3", "0", "{\"", "id", "\":", "1", "}"]
            .map(str::to_owned)
            .to_vec();
        expected.sort();
        assert_eq!(found, expected);
        let space = words.sorted().into_iter().find(|&(word, _)| word == "▁");
        assert_eq!(
            space,
            Some(("▁", 2)),
            "one in front of the number, one in front of the marker"
        );
    }

    #[test]
    fn the_alphabet_stops_when_the_coverage_is_reached() {
        let mut words = Words::new(&[]);
        words.add("aaaaaaaab");
        assert_eq!(words.alphabet(1.0), ['a', 'b', '▁']);
        assert_eq!(words.alphabet(0.8), ['a']);
    }
}
