//! What is wrong or odd about a line.

use std::fmt;

/// A line that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Rejected {
    /// From 1.
    pub line: usize,
    /// What was expected and what was found.
    pub reason: String,
}

/// Something about a line that is used all the same.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Warning {
    /// From 1.
    pub line: usize,
    /// What is odd.
    #[serde(flatten)]
    pub caution: Caution,
}

/// What may not be what a row's author meant.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "kind", content = "detail", rename_all = "snake_case")]
pub enum Caution {
    /// The tools cannot be honoured by the grammar, so the answers were not checked either.
    Tools(String),
    /// An answer that its own tool's schema rejects, or a tool that the row does not offer: no grammar lets it through.
    Answer(String),
    /// A call's arguments stand in another order than declared, which is the order that the grammar writes.
    Order(String),
    /// The assistant of a chat line says something beside its calls, which is not learnt.
    Words,
    /// The user says nothing.
    EmptyQuery,
    /// The same prompt as on an earlier line, with another answer.
    Contradiction {
        /// The earlier line.
        line: usize,
    },
}

impl Caution {
    /// The word used in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tools(_) => "tools",
            Self::Answer(_) => "answer",
            Self::Order(_) => "order",
            Self::Words => "words",
            Self::EmptyQuery => "empty_query",
            Self::Contradiction { .. } => "contradiction",
        }
    }
}

impl fmt::Display for Caution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tools(reason) => write!(f, "the tools cannot be honoured: {reason}"),
            Self::Answer(reason) => write!(f, "its own tools reject the answer: {reason}"),
            Self::Order(tool) => write!(
                f,
                "the arguments of {tool} are not in declared order, which is the order the grammar writes"
            ),
            Self::Words => write!(f, "the assistant's words are not used; only its calls are learnt"),
            Self::EmptyQuery => write!(f, "the query is empty"),
            Self::Contradiction { line } => write!(f, "the same prompt as line {line}, with another answer"),
        }
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.caution)
    }
}
