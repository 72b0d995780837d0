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
    /// A line of training data cannot be used.
    #[error("example: {0}")]
    Example(String),
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
    /// A token that the grammar does not allow where it was offered.
    #[error("token {token} is not allowed {place}")]
    Token {
        /// The token's id.
        token: u32,
        /// Where in the completion it was offered.
        place: &'static str,
    },
    /// The grammar could not be compiled or followed.
    #[error("grammar: {0}")]
    Grammar(String),
    /// A finished call that does not satisfy its tool.
    #[error("call of {tool}: {}{reason}", field.as_ref().map(|f| format!("{f}: ")).unwrap_or_default())]
    Call {
        /// The name that the call gives.
        tool: String,
        /// The path of the field inside the arguments.
        field: Option<String>,
        /// What was expected and what was found.
        reason: String,
    },
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
    /// A text gave no value that may be trusted.
    #[error("extract {name}: {}{reason}", if fields.is_empty() { String::new() } else { format!("{}: ", fields.join(", ")) })]
    Extraction {
        /// What was looked for.
        name: String,
        /// The fields at fault.
        fields: Vec<String>,
        /// What is wrong.
        reason: String,
    },
    /// A file could not be had from the hub or its cache.
    #[error("{item}: {reason}")]
    Hub {
        /// What was asked for: `org/repo`, `org/repo/file`, or the name of a setting.
        item: String,
        /// The kind of failure, for callers that act on it.
        fault: HubFault,
        /// What was expected and what was found.
        reason: String,
    },
    /// A request that this build or this model cannot serve.
    #[error("{0}")]
    Unsupported(String),
    /// A tensor operation failed.
    #[error("tensor operation: {0}")]
    Candle(#[from] candle_core::Error),
}

/// Why the hub or its cache did not give a file.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubFault {
    /// The name or a setting is not acceptable; nothing was asked of anybody.
    Request,
    /// It is not in the cache, and the network may not be used.
    NotCached,
    /// The hub could not be reached, or the connection broke for good.
    Network,
    /// 401: no token, or one that the hub does not know.
    Unauthorized,
    /// 403: the token is known and not allowed.
    Forbidden,
    /// 404: no such repository, revision or file, or no archive to choose.
    NotFound,
    /// 413: the hub does not take as much.
    TooLarge,
    /// 429, for longer than we are prepared to wait.
    RateLimited,
    /// Any other status that is not a success.
    Server,
    /// What answered does not speak the hub's protocol: a login page, a proxy's notice, a wrong address.
    NotAHub,
    /// The bytes are not those that the hub announced; they were thrown away.
    Corrupt,
    /// There is no room on the disk; what had been fetched was removed again.
    DiskFull,
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

    /// The same fault, said of a tensor of a file.
    pub(crate) fn of_tensor(self, path: &Path, tensor: &str) -> Self {
        match self {
            Self::Packed(reason) => Self::tensor(path, tensor, reason),
            other => other,
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

    #[cfg(feature = "hub")]
    pub(crate) fn hub(item: impl Into<String>, fault: HubFault, reason: impl Into<String>) -> Self {
        Self::Hub {
            item: item.into(),
            fault,
            reason: reason.into(),
        }
    }

    pub(crate) fn config(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Config {
            field,
            reason: reason.into(),
        }
    }
}
