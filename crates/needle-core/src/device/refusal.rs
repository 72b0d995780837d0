//! Why a device cannot be had, and what would change it.

use serde::Serialize;

/// A reason in one sentence, and where there is one the command that removes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Why.
    pub reason: String,
    /// The command; on Linux in the words of Debian and Ubuntu.
    pub enable: Option<String>,
}

impl Refusal {
    /// A reason that no command removes.
    pub(super) fn of(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            enable: None,
        }
    }

    pub(super) fn cured_by(mut self, command: impl Into<String>) -> Self {
        self.enable = Some(command.into());
        self
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::of(reason)
    }
}
