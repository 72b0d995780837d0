//! Runtime and fine-tuner for Needle, the tiny tool-calling model: text and tool schemas in, a tool call out.
//!
//! In reading order: [`error`], [`config`], [`quant`], [`weights`], [`tokenizer`], [`json`], [`prompt`].
#![warn(missing_docs)]

pub mod config;
pub mod error;
pub mod json;
pub mod prompt;
pub mod quant;
pub mod tokenizer;
pub mod weights;

pub use config::{Config, Generation};
pub use error::{Error, Result};
pub use tokenizer::Tokenizer;
