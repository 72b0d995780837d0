//! Runtime and fine-tuner for Needle, the tiny tool-calling model: text and tool schemas in, a tool call out.
//!
//! In reading order: [`error`], [`config`], [`quant`], [`weights`], [`checkpoint`].
#![warn(missing_docs)]

pub mod checkpoint;
pub mod config;
pub mod error;
pub mod quant;
pub mod weights;

pub use checkpoint::{Adapter, Checkpoint};
pub use config::{Config, Generation};
pub use error::{Error, Result};
