//! Runtime and fine-tuner for Needle, the tiny tool-calling model: text and tool schemas in, a tool call out.
//!
//! In reading order: [`error`], [`config`], [`quant`], [`weights`], [`checkpoint`].
#![warn(missing_docs)]

pub mod checkpoint;
pub mod config;
pub mod cpu;
pub mod decode;
pub mod error;
pub mod model;
pub mod ops;
pub mod quant;
pub mod session;
pub mod weights;

pub use checkpoint::{Adapter, Checkpoint};
pub use config::{Config, Generation};
pub use decode::{Completion, DecodeOptions, Flow, Overflow, Sampling, StopReason, generate};
pub use error::{Error, Result};
pub use model::{Model, Window};
pub use session::{Mark, Session};
