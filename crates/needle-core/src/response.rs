//! The answer to one turn, in the reference's envelope; serde both ways.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{decode::StopReason, tool::ToolCall};

/// What the model did with a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResponseType {
    /// It called at least one tool.
    Call,
    /// It answered without a call: with text (possible only without the grammar), or with an empty list after a tool's result.
    Respond,
    /// It found that no tool fits: an empty list of calls.
    Refuse,
}

/// Why an answer is no success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The budget or the window ended before the completion did. There are no calls then.
    Truncated,
    /// The completion, decoded without the grammar, is not a well-formed list of calls of the declared tools.
    InvalidCall,
    /// The model ended its turn with a call after the largest number of steps of a run.
    MaxSteps,
    /// The caller's stream asked to stop.
    Cancelled,
    /// Calls were carried out, but their results could not be told to the model.
    Interrupted,
}

/// What was checked against the user's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validation {
    /// Arguments that contradict the words, as `tool.path`.
    pub ungrounded: Vec<String>,
    /// Whether the words negate the request.
    pub negation: bool,
}

/// One turn's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// What the model did.
    #[serde(rename = "type")]
    pub kind: ResponseType,
    /// Whether the completion is whole and valid.
    pub success: bool,
    /// What went wrong, in words.
    pub error: Option<String>,
    /// What went wrong, for programs.
    pub error_code: Option<ErrorCode>,
    /// Calls to carry out, in order.
    pub function_calls: Vec<ToolCall>,
    /// Calls that are withheld: below the least confidence asked for, or invalid.
    pub suppressed_calls: Vec<ToolCall>,
    /// The model's own line of thought.
    pub reasoning: Option<String>,
    /// How sure the model is, from 0 to 1: the smaller of its confidence head's probability and the calls' decoding
    /// probability. `None` where the weights carry no trained head.
    pub confidence: Option<f32>,
    /// Checks against the user's words.
    pub validation: Validation,
    /// What the tools gave back in a run, in the order of the calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Value>,
    /// The completion's text outside reasoning and calls.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Tools that the turn offered the model, where they were chosen among more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_tools: Option<Vec<String>>,
    /// What the caller should know, such as that unrelated turns pile up in one conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why decoding ended.
    pub stop_reason: StopReason,
    /// Tokens that were read for this turn.
    pub prompt_tokens: usize,
    /// Tokens that were written.
    pub completion_tokens: usize,
    /// Tokens read a second.
    pub prefill_tps: f64,
    /// Tokens written a second.
    pub decode_tps: f64,
    /// Largest memory of the process so far, where the system tells.
    pub peak_ram_mb: Option<f64>,
    /// Where the model ran, as `cpu` or `cuda:0`.
    pub device: String,
    /// The type it computed in.
    pub dtype: String,
}
