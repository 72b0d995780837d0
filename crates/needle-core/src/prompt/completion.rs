//! A completion's text back into its parts. What the model wrote is never trusted: blocks may be missing, empty, cut short or
//! in the other generation's form.

use super::{IM_END, THINK_END, THINK_START, TOOL_CALL_END, TOOL_CALL_START, strip};

/// The parts of a completion; every text without white space around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion<'a> {
    /// The reasoning, unless it is missing or empty.
    pub reasoning: Option<&'a str>,
    /// The text between the call markers. Of a completion that was cut short it is the beginning, so parse it as JSON only
    /// when [`closed`](Self::closed).
    pub calls_json: Option<&'a str>,
    /// Whether every block that was begun was ended.
    pub closed: bool,
    /// What stands outside the blocks, before the calls: the whole answer where there is no call.
    pub text: &'a str,
    /// What stands between the calls and the end marker; a well-formed completion has nothing there.
    pub rest: &'a str,
}

/// Takes a completion apart.
pub fn parse_completion(completion: &str) -> Completion<'_> {
    let mut parsed = Completion {
        closed: true,
        ..Completion::default()
    };
    let mut text = strip(completion);
    if let Some(inside) = text.strip_prefix(THINK_START) {
        let (reasoning, rest) = inside.split_once(THINK_END).unwrap_or_else(|| {
            parsed.closed = false;
            let end = inside.find(TOOL_CALL_START).or_else(|| inside.find(IM_END));
            inside.split_at(end.unwrap_or(inside.len()))
        });
        parsed.reasoning = Some(strip(reasoning)).filter(|reasoning| !reasoning.is_empty());
        text = rest;
    }
    // An end marker before any call ends the answer; inside the calls it may be part of a string.
    let end = text.find(IM_END).unwrap_or(text.len());
    match text[..end].find(TOOL_CALL_START) {
        None => parsed.text = strip(&text[..end]),
        Some(start) => {
            parsed.text = strip(&text[..start]);
            let inside = &text[start + TOOL_CALL_START.len()..];
            let (calls, rest) = split_calls(inside).unwrap_or_else(|| {
                parsed.closed = false;
                (inside.strip_suffix(IM_END).unwrap_or(inside), "")
            });
            parsed.calls_json = Some(strip(calls));
            parsed.rest = strip(&rest[..rest.find(IM_END).unwrap_or(rest.len())]);
        }
    }
    parsed
}

/// Splits at the first closing marker that is not inside a JSON string.
fn split_calls(inside: &str) -> Option<(&str, &str)> {
    let (mut in_string, mut escaped) = (false, false);
    for (at, char) in inside.char_indices() {
        match char {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '<' if !in_string => {
                if let Some(rest) = inside[at..].strip_prefix(TOOL_CALL_END) {
                    return Some((&inside[..at], rest));
                }
            }
            _ => {}
        }
    }
    None
}
