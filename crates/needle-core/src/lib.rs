//! Runtime and fine-tuner for Needle, the tiny tool-calling model: text and tool schemas in, a tool call out.
//!
//! In reading order: [`error`], [`config`], [`schema`], [`tool`], [`quant`], [`weights`], [`grammar`].
#![warn(missing_docs)]

pub mod config;
pub mod error;
pub mod grammar;
pub mod quant;
pub mod schema;
pub mod tool;
pub mod weights;

pub use config::{Config, Generation};
pub use error::{Error, Result};
pub use tool::{Tool, ToolCall, ToolSet};
