//! A Rust file in three layers of equal shape (code, string contents, comments), and which of its lines are tests.
//!
//! The layers keep every line break, so that a word can be looked for in one of them and reported by line. No parser: it
//! knows comments, literals and `#[cfg(test)]`, and trusts rustfmt for the rest.

/// One file of the repository.
pub(crate) struct Source {
    /// Path from the root, with forward slashes.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
    /// The text without comments and without the contents of literals.
    pub(crate) code: String,
    /// The contents of string literals alone.
    pub(crate) strings: String,
    /// The comments alone.
    pub(crate) comments: String,
    // For each line whether it only exists in a test build.
    tests: Vec<bool>,
}

impl Source {
    /// Splits a Rust file.
    pub(crate) fn rust(path: &str, text: &str) -> Self {
        let [code, strings, comments] = layers(text);
        let tests = test_lines(&code, is_test_path(path));
        Self {
            path: path.into(),
            text: text.into(),
            code,
            strings,
            comments,
            tests,
        }
    }

    /// Whether a line (from 0) only exists in a test build.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.tests.get(line).copied().unwrap_or(false)
    }
}

/// Whether a whole file is tests: under a folder `tests`, or a module file of that name.
pub(crate) fn is_test_path(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[derive(Clone, Copy, PartialEq)]
enum Layer {
    Code = 0,
    Strings = 1,
    Comments = 2,
}

/// Writes every character to one layer and a blank to the two others; line breaks go to all.
fn layers(text: &str) -> [String; 3] {
    let chars: Vec<char> = text.chars().collect();
    let mut layers = [String::new(), String::new(), String::new()];
    let mut at = 0;
    while at < chars.len() {
        let (layer, opening, body, closing) = token(&chars[at..]);
        for (offset, &c) in chars[at..at + opening + body + closing].iter().enumerate() {
            let inside = (opening..opening + body).contains(&offset);
            // The quotes of a literal are code, the marks of a comment are comment.
            let own = if inside || layer == Layer::Comments {
                layer
            } else {
                Layer::Code
            };
            for (index, text) in layers.iter_mut().enumerate() {
                text.push(if c == '\n' || index == own as usize { c } else { ' ' });
            }
        }
        at += opening + body + closing;
    }
    layers
}

/// The token at the start of `rest`: its layer and the lengths of its opening, its body and its closing.
fn token(rest: &[char]) -> (Layer, usize, usize, usize) {
    match rest {
        ['/', '/', ..] => (Layer::Comments, 0, until(rest, |tail| tail[0] == '\n'), 0),
        ['/', '*', ..] => (Layer::Comments, 0, block_comment(rest), 0),
        ['"', ..] => quoted(rest, '"', Layer::Strings),
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => quoted(rest, '\'', Layer::Strings),
        [first, ..] if first.is_alphanumeric() || *first == '_' => {
            let word = until(rest, |tail| !(tail[0].is_alphanumeric() || tail[0] == '_'));
            let hashes = until(&rest[word..], |tail| tail[0] != '#');
            let prefix: String = rest[..word].iter().collect();
            let raw = matches!(prefix.as_str(), "r" | "br" | "cr") && rest.get(word + hashes) == Some(&'"');
            if raw {
                raw_string(rest, word + hashes + 1, hashes)
            } else {
                (Layer::Code, 0, word, 0)
            }
        }
        _ => (Layer::Code, 0, 1, 0),
    }
}

/// Characters before the first place where `stop` holds.
fn until(rest: &[char], stop: impl Fn(&[char]) -> bool) -> usize {
    (0..rest.len()).find(|&at| stop(&rest[at..])).unwrap_or(rest.len())
}

fn block_comment(rest: &[char]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (at, depth) = (at + 2, depth + 1),
            ['*', '/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn quoted(rest: &[char], quote: char, layer: Layer) -> (Layer, usize, usize, usize) {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    let end = at.min(rest.len());
    (layer, 1, end - 1, usize::from(end < rest.len()))
}

fn raw_string(rest: &[char], opening: usize, hashes: usize) -> (Layer, usize, usize, usize) {
    let ends = |tail: &[char]| tail[0] == '"' && tail[1..].iter().take_while(|c| **c == '#').count() >= hashes;
    let body = until(&rest[opening..], ends);
    let closing = (1 + hashes).min(rest.len() - opening - body);
    (Layer::Strings, opening, body, closing)
}

/// Marks the item after each `#[cfg(test)]`: to its `;` when it is one line, otherwise to the line that closes it at the
/// same indentation.
fn test_lines(code: &str, all: bool) -> Vec<bool> {
    let lines: Vec<&str> = code.lines().collect();
    let mut tests = vec![all; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        let attribute = lines[at].trim_start();
        if !attribute.starts_with("#[cfg(test)]") && !attribute.starts_with("#[cfg(all(test,") {
            at += 1;
            continue;
        }
        let indent = |line: &str| line.len() - line.trim_start().len();
        let depth = indent(lines[at]);
        let item = (at + 1..lines.len())
            .find(|&line| !lines[line].trim_start().starts_with("#[") && !lines[line].trim().is_empty());
        let ends = |line: usize| {
            let text = lines[line].trim();
            Some(line) == item && (text.ends_with(';') || text.ends_with('}'))
                || indent(lines[line]) == depth && text.starts_with(['}', ')'])
        };
        let end = (at + 1..lines.len())
            .find(|&line| ends(line))
            .unwrap_or(lines.len() - 1);
        tests[at..=end].fill(true);
        at = end + 1;
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> (String, String, String) {
        let [code, strings, comments] = layers(text);
        let squeeze = |layer: String| layer.split_whitespace().collect::<Vec<_>>().join(" ");
        (squeeze(code), squeeze(strings), squeeze(comments))
    }

    #[test]
    fn comments_strings_and_code_part() {
        let (code, strings, comments) = split("let a = \"b // c\"; // d \"e\"\nf /* g /* h */ \" */ i");
        assert_eq!(code, "let a = \" \"; f i");
        assert_eq!(strings, "b // c");
        assert_eq!(comments, "// d \"e\" /* g /* h */ \" */");
    }

    #[test]
    fn escapes_raw_strings_chars_and_lifetimes() {
        assert_eq!(split(r#"x("a\"b\\", 'c', '\'', '"')"#).1, r#"a\"b\\ c \' ""#);
        assert_eq!(split("r#\"a\"b\"# + br\"\\\" + four\"c\"").1, "a\"b \\ c");
        let (code, strings, _) = split("fn f<'a>(x: &'a str) -> &'static str { 'a: loop {} }");
        assert_eq!(
            (code.as_str(), strings.as_str()),
            ("fn f<'a>(x: &'a str) -> &'static str { 'a: loop {} }", "")
        );
    }

    #[test]
    fn broken_text_ends() {
        for text in ["\"", "'\\", "r#\"x\"", "/* x", "\"\\", "r##"] {
            let [code, strings, comments] = layers(text);
            assert_eq!(code.chars().count(), text.chars().count(), "{text}");
            assert_eq!(strings.len(), comments.len());
        }
    }

    #[test]
    fn lines_of_tests() {
        let text = "\
fn a() {}
#[cfg(test)]
use b;
fn c() {}
#[cfg(test)]
#[allow(x)]
mod tests {
    fn d() {
    }
}
fn e() {}
#[cfg(all(test, unix))]
mod f;
const G: u32 = 1;";
        let source = Source::rust("crates/x/src/lib.rs", text);
        let tests: Vec<usize> = (0..14).filter(|&line| source.is_test(line)).collect();
        assert_eq!(tests, [1, 2, 4, 5, 6, 7, 8, 9, 11, 12]);
        assert!(Source::rust("tests/parity.rs", "fn a() {}").is_test(0));
        assert!(Source::rust("crates/x/src/lex/tests.rs", "fn a() {}").is_test(0));
    }
}
