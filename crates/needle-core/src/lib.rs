//! Runtime and fine-tuner for Needle, the tiny tool-calling model: text and tool schemas in, a tool call out.
//!
//! In reading order: [`error`], [`device`], [`config`], [`quant`], [`weights`].
#![warn(missing_docs)]

pub mod config;
pub mod device;
pub mod error;
pub mod quant;
pub mod weights;

pub use config::{Config, Generation};
pub use error::{Error, Result};
