//! Examples written by a large model behind any OpenAI-compatible chat endpoint: asked for in batches by several workers, checked
//! against the tools' schemas, without duplicates, and added to a file line by line, so that a stopped run goes on where it was.
//!
//! This is the only place beside the hub that opens a socket, and only when it is asked to. What is sent: the tools, example
//! rows where some are given, and nothing about the user.

mod endpoint;
mod generate;
mod reply;
mod task;

pub use endpoint::{DEFAULT_URL, Endpoint};
pub use generate::{Event, Generated, SynthOptions, generate};
pub use task::Source;
