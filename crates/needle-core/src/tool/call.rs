//! A call as the model writes it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// Its arguments, an object.
    pub arguments: Value,
}

impl ToolCall {
    /// The calls of a completion's JSON array.
    ///
    /// # Errors
    /// [`Error::Grammar`] for a text that is no list of calls.
    pub fn parse_list(json: &str) -> Result<Vec<Self>> {
        serde_json::from_str(json).map_err(|error| Error::Grammar(format!("not a list of calls: {error}")))
    }
}
