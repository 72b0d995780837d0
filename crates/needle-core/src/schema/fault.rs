//! Why a schema is refused: field, keyword and reason, to which the caller adds the tool.

use crate::error::Error;

/// A schema that cannot be honoured.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// Path of the field inside the parameters; empty for the parameters themselves.
    pub(crate) field: String,
    /// The keyword at fault.
    pub(crate) keyword: String,
    /// What was expected and what was found.
    pub(crate) reason: String,
}

impl Fault {
    pub(crate) fn new(field: &str, keyword: &str, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            keyword: keyword.into(),
            reason: reason.into(),
        }
    }

    /// The library's error, with the tool's name.
    pub(crate) fn of_tool(self, tool: &str) -> Error {
        let Self { field, keyword, reason } = self;
        Error::Schema {
            tool: tool.into(),
            field: (!field.is_empty()).then_some(field),
            reason: format!("{keyword}: {}", one_line(&reason)),
        }
    }
}

fn one_line(reason: &str) -> String {
    reason.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The path of `key` below the field `at`.
pub(crate) fn below(at: &str, key: &str) -> String {
    match at {
        "" => key.into(),
        _ => format!("{at}.{key}"),
    }
}
