//! The one error type of the library.
//!
//! Every variant names the thing at fault (file, tensor, tool, field), what was expected and what was found, so that a
//! caller can print it as it stands. Messages have no final dot; the command adds hints.

use std::path::{Path, PathBuf};

/// What went wrong. Matching on a variant is stable; new ones may be added.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not what it claims to be: damaged, truncated, or of an unknown kind.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What was expected and what was found.
        reason: String,
    },
    /// One tensor of a file is damaged or contradicts the file's geometry.
    #[error("{}: tensor {tensor}: {reason}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// What was expected and what was found.
        reason: String,
    },
    /// A tensor that the configuration asks for is absent.
    #[error("missing tensor {name}")]
    MissingTensor {
        /// The tensor's name.
        name: String,
    },
    /// A tensor has another shape than the configuration asks for.
    #[error("tensor {name}: expected shape {expected:?}, found {found:?}")]
    Shape {
        /// The tensor's name.
        name: String,
        /// The shape that the configuration asks for.
        expected: Vec<usize>,
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// The codes, norms or levels of a packed matrix contradict each other.
    #[error("packed matrix: {0}")]
    Packed(String),
    /// A configuration field has an impossible value.
    #[error("config field {field}: {reason}")]
    Config {
        /// The field.
        field: &'static str,
        /// What was expected and what was found.
        reason: String,
    },
    /// The tokenizer's description cannot be used.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// A tool or its schema cannot be honoured.
    #[error("tool {tool}: {}{reason}", field.as_ref().map(|f| format!("{f}: ")).unwrap_or_default())]
    Schema {
        /// The tool's name, or its position when it has none.
        tool: String,
        /// The path of the field inside the tool's parameters.
        field: Option<String>,
        /// What was expected and what was found.
        reason: String,
    },
    /// The text of the tools is not a list of tools.
    #[error("tools: {0}")]
    Tools(String),
    /// The prompt leaves no room in the window. Nothing is ever cut.
    #[error("the prompt has {tokens} tokens, but at most {limit} fit")]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that fit.
        limit: usize,
    },
    /// A device that was asked for by name cannot be had.
    #[error("device {device}: {reason}")]
    Device {
        /// The device as it was asked for.
        device: String,
        /// Why it cannot be had.
        reason: String,
    },
    /// A request that this build or this model cannot serve.
    #[error("{0}")]
    Unsupported(String),
    /// A tensor operation failed.
    #[error("tensor operation: {0}")]
    Candle(#[from] candle_core::Error),
}

/// `Result` with the library's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            path: path.into(),
            source,
        }
    }

    pub(crate) fn format(path: &Path, reason: impl Into<String>) -> Self {
        Self::Format {
            path: path.into(),
            reason: reason.into(),
        }
    }

    pub(crate) fn tensor(path: &Path, tensor: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Tensor {
            path: path.into(),
            tensor: tensor.into(),
            reason: reason.into(),
        }
    }

    /// The same fault, said of a file.
    pub(crate) fn in_file(self, path: &Path) -> Self {
        match self {
            Self::MissingTensor { name } => Self::tensor(path, name, "missing"),
            Self::Shape { name, expected, found } => {
                Self::tensor(path, name, format!("expected shape {expected:?}, found {found:?}"))
            }
            error @ (Self::Config { .. } | Self::Packed(_) | Self::Unsupported(_)) => {
                Self::format(path, error.to_string())
            }
            other => other,
        }
    }

    pub(crate) fn config(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Config {
            field,
            reason: reason.into(),
        }
    }
}
