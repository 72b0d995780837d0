//! What to try next, for errors that have an obvious answer.

use needle_core::Error;

/// A line for the user, where there is one.
pub(crate) fn for_error(error: &anyhow::Error) -> Option<String> {
    Some(match error.chain().find_map(|cause| cause.downcast_ref::<Error>())? {
        Error::PromptTooLong { .. } => {
            "offer fewer tools (--top-tools), shorten their descriptions, or ask in fewer words".into()
        }
        Error::Device { .. } => {
            "`needle devices` lists what this build and this machine have; --device auto takes the best".into()
        }
        Error::Format { .. } => "`needle inspect FILE` describes model files; archives end in .cact by custom".into(),
        Error::Tokenizer(_) => "archives carry their tokenizer; for a checkpoint give one with --tokenizer FILE".into(),
        Error::Tools(_) => "examples/home.json shows the form of a tools file".into(),
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            "--model takes a file or `demo`, the small built-in model".into()
        }
        _ => return None,
    })
}
