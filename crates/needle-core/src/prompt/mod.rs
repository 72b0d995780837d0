//! Turns and tools as the marker text that the model was trained on, and its completions back into their parts.
//!
//! ```text
//! [<|im_start|>system\n{facts}<|im_end|>\n]
//! <|im_start|>user\n<tools>{compact JSON array}</tools>\n{query}<|im_end|>\n<|im_start|>assistant\n
//! [<think>\n{reasoning}\n</think>\n]<tool_call>{compact JSON array}</tool_call><|im_end|>
//! ```
//! Only here are the markers spelt. Both generations use the same text.

mod completion;
mod example;

use crate::tokenizer::Tokenizer;

pub use completion::{Completion, parse_completion};
pub use example::Example;

/// Begins a turn; the role's name follows.
pub const IM_START: &str = "<|im_start|>";
/// Ends a turn.
pub const IM_END: &str = "<|im_end|>";
/// Begins the reasoning of a completion.
pub const THINK_START: &str = "<think>";
/// Ends the reasoning of a completion.
pub const THINK_END: &str = "</think>";
/// Begins the list of tools.
pub const TOOLS_START: &str = "<tools>";
/// Ends the list of tools.
pub const TOOLS_END: &str = "</tools>";
/// Begins the list of calls.
pub const TOOL_CALL_START: &str = "<tool_call>";
/// Ends the list of calls.
pub const TOOL_CALL_END: &str = "</tool_call>";
/// Begins what a tool gave back.
pub const TOOL_RESULT_START: &str = "<tool_result>";
/// Ends what a tool gave back.
pub const TOOL_RESULT_END: &str = "</tool_result>";

/// All markers in the order of their ids, which begin at 4.
pub const MARKERS: [&str; 10] = [
    IM_START,
    IM_END,
    THINK_START,
    THINK_END,
    TOOLS_START,
    TOOLS_END,
    TOOL_CALL_START,
    TOOL_CALL_END,
    TOOL_RESULT_START,
    TOOL_RESULT_END,
];

/// What a conversation begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prompt<'a> {
    /// Facts for the model; white space around them is dropped, and without any there is no system turn.
    pub system: Option<&'a str>,
    /// The JSON array of tools, taken as it is: [`json::compact`](crate::json::compact) writes it as the model expects it.
    pub tools: &'a str,
    /// The user's words, taken as they are.
    pub query: &'a str,
}

/// A prompt as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// All of it, up to where the assistant speaks.
    pub text: String,
    /// The byte of `text` after the tools.
    pub tools_end: usize,
}

/// A prompt as ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The prompt's ids, the beginning-of-sequence id first.
    pub ids: Vec<u32>,
    /// How many of them lead up to the end of the tools: the ones to keep when a window slides.
    pub pinned: usize,
}

impl Prompt<'_> {
    /// The first turn's text.
    pub fn render(&self) -> Rendered {
        let mut text = String::new();
        let system = strip(self.system.unwrap_or_default());
        if !system.is_empty() {
            text += &format!("{IM_START}system\n{system}{IM_END}\n");
        }
        text += &format!("{IM_START}user\n{TOOLS_START}{}{TOOLS_END}", self.tools);
        let tools_end = text.len();
        text += &format!("\n{}{IM_END}\n{IM_START}assistant\n", self.query);
        Rendered { text, tools_end }
    }
}

impl Rendered {
    /// The ids of the text. Cutting it after the tools changes none, because a marker never merges with its neighbours.
    pub fn encode(&self, tokenizer: &Tokenizer) -> Encoded {
        let (tools, query) = self.text.split_at(self.tools_end);
        let mut ids = vec![tokenizer.bos_id()];
        ids.extend(tokenizer.encode(tools));
        let pinned = ids.len();
        ids.extend(tokenizer.encode_continuation(query));
        Encoded { ids, pinned }
    }
}

/// A turn after the first prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<'a> {
    /// The user's words; the tools of the first turn go on to hold.
    User(&'a str),
    /// What the called tools gave back, as JSON.
    ToolResult(&'a str),
    /// What the assistant said: a completion's text, or [`target`].
    Assistant(&'a str),
}

impl Turn<'_> {
    /// The turn's text, as it follows the turn before: a user's turn up to where the assistant speaks, the assistant's up to
    /// its end marker.
    pub fn render(&self) -> String {
        match self {
            Self::User(query) => user_turn(query),
            Self::ToolResult(json) => user_turn(&format!("{TOOL_RESULT_START}{json}{TOOL_RESULT_END}")),
            Self::Assistant(text) if text.ends_with(IM_END) => (*text).to_owned(),
            Self::Assistant(text) => format!("{text}{IM_END}"),
        }
    }

    /// The turn's ids. The assistant's text stands by itself, as in training; a user's continues the conversation.
    pub fn encode(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let text = self.render();
        match self {
            Self::User(_) | Self::ToolResult(_) => tokenizer.encode_continuation(&text),
            Self::Assistant(_) => tokenizer.encode(&text),
        }
    }
}

/// The completion that a model should give: reasoning where there is any, the calls as JSON, the end marker.
pub fn target(reasoning: Option<&str>, calls: &str) -> String {
    let reasoning = strip(reasoning.unwrap_or_default());
    let think = if reasoning.is_empty() {
        String::new()
    } else {
        format!("{THINK_START}\n{reasoning}\n{THINK_END}\n")
    };
    format!("{think}{TOOL_CALL_START}{calls}{TOOL_CALL_END}{IM_END}")
}

/// A user's turn after the assistant's. The published engine's own form for later turns and tool results is not documented;
/// this is the one place that spells ours.
fn user_turn(text: &str) -> String {
    format!("\n{IM_START}user\n{text}{IM_END}\n{IM_START}assistant\n")
}

/// Drops white space on both sides as Python does, which counts the four ASCII separators among it.
fn strip(text: &str) -> &str {
    text.trim_matches(|char: char| char.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&char))
}
