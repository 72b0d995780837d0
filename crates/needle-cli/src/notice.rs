//! What is said on stderr. A stderr that is closed or full is no reason to stop: nothing said there is data.

use std::io::Write;

/// Characters of an error that are shown; the rest helps nobody.
const MOST_CHARS: usize = 500;

/// A line on stderr.
pub(crate) fn say(line: impl std::fmt::Display) {
    write(&format!("{line}\n"));
}

/// The beginning of a line that the user ends.
pub(crate) fn ask(prompt: impl std::fmt::Display) {
    write(&prompt.to_string());
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// The error and its causes in one line.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = joined(&cause.to_string());
        // Some errors repeat their cause in their own text.
        if line.is_empty() {
            line = text;
        } else if !line.ends_with(&text) {
            line = format!("{line}: {text}");
        }
    }
    shown(&line)
}

/// A text from elsewhere as one line that does nothing to a terminal.
pub(crate) fn flat(text: &str) -> String {
    shown(&joined(text))
}

/// The lines of a text with single spaces between. candle adds a backtrace to its messages where `RUST_BACKTRACE` is set,
/// which is left out.
fn joined(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("0: ")).collect();
    lines.join(" ")
}

/// Control characters escaped, and not too long.
fn shown(line: &str) -> String {
    let mut shown = String::new();
    for (at, char) in line.chars().enumerate() {
        if at == MOST_CHARS {
            shown.push('…');
            break;
        }
        match char.is_control() {
            true => shown.extend(char.escape_debug()),
            false => shown.push(char),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_reason_on_later_lines_is_kept() {
        let error = anyhow!("regex parse error:\n    (\n    ^\nerror: unclosed group").context("tool paint");
        assert_eq!(
            one_line(&error),
            "tool paint: regex parse error: ( ^ error: unclosed group"
        );
    }

    #[test]
    fn a_cause_is_not_said_twice_and_a_backtrace_not_at_all() {
        let error = anyhow!("no room\n   0: std::backtrace\n   1: main").context("file: no room");
        assert_eq!(one_line(&error), "file: no room");
    }

    #[test]
    fn long_errors_are_cut_and_control_characters_escaped() {
        let cut = one_line(&anyhow!("é".repeat(600)));
        assert_eq!(cut, format!("{}…", "é".repeat(500)));
        assert_eq!(one_line(&anyhow!("a\u{1b}[2Jb\u{7}")), "a\\u{1b}[2Jb\\u{7}");
        assert_eq!(flat("one\r\n\n  two\t3"), "one two\\t3");
    }
}
