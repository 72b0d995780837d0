//! What to try next, for errors that have an obvious answer.

use std::io::ErrorKind;

use needle_core::Error;

/// An error of the model's file, told apart from one of any other file.
#[derive(Debug)]
pub(crate) struct OfModel(pub(crate) Error);

impl std::fmt::Display for OfModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for OfModel {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// A line for the user, where there is one.
pub(crate) fn for_error(error: &anyhow::Error) -> Option<&'static str> {
    if let Some(OfModel(error)) = error.chain().find_map(|cause| cause.downcast_ref()) {
        match error {
            Error::Format { .. } => {
                return Some("`needle inspect FILE` describes model files; archives end in .cact by custom");
            }
            Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
                return Some("--model takes a file or `demo`, the small built-in model");
            }
            _ => {}
        }
    }
    Some(match error.chain().find_map(|cause| cause.downcast_ref())? {
        Error::PromptTooLong { .. } => {
            "offer fewer tools (--top-tools), shorten their descriptions, or ask in fewer words"
        }
        Error::Device { .. } => {
            "`needle devices` lists what this build and this machine have; --device auto takes the best"
        }
        Error::Tokenizer(_) => "archives carry their tokenizer; for a checkpoint give one with --tokenizer FILE",
        Error::Example(_) => "`needle data check FILE` names every line that cannot be used, and why",
        Error::Tools(_) => "examples/home.json shows the form of a tools file",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn missing() -> Error {
        Error::Io {
            path: "file".into(),
            source: io::Error::from(ErrorKind::NotFound),
        }
    }

    #[test]
    fn only_a_missing_model_is_answered_with_how_to_name_one() {
        assert!(for_error(&OfModel(missing()).into()).is_some_and(|hint| hint.starts_with("--model")));
        assert_eq!(for_error(&missing().into()), None);
    }

    #[test]
    fn only_a_damaged_model_is_answered_with_inspect() {
        let damaged = || Error::Format {
            path: "file".into(),
            reason: "damaged".into(),
        };
        assert!(for_error(&OfModel(damaged()).into()).is_some_and(|hint| hint.contains("inspect")));
        assert_eq!(for_error(&damaged().into()), None);
    }
}
