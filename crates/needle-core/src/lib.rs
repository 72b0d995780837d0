//! Runtime and fine-tuner for Needle, the tiny tool-calling model: text and tool schemas in, a tool call out.
#![warn(missing_docs)]

pub mod config;
pub mod decode;
pub mod error;
#[cfg(feature = "hub")]
pub mod hub;
pub mod model;
pub mod ops;
pub mod quant;
pub mod session;
pub mod weights;

pub use config::{Config, Generation};
pub use decode::{Completion, DecodeOptions, Flow, Overflow, Sampling, StopReason, generate};
pub use error::{Error, HubFault, Result};
pub use model::{Model, Window};
pub use session::{Mark, Session};
