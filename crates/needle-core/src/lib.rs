//! Runtime and fine-tuner for Needle, the tiny tool-calling model: text and tool schemas in, a tool call out.
//!
//! Most users need [`Needle`] and [`Tool`]: see [`agent`]. Beneath, in reading order: [`error`], [`device`], [`config`],
//! [`quant`], [`weights`], [`checkpoint`], [`tokenizer`], [`json`], [`prompt`], [`ops`], [`model`], [`cpu`], [`session`], [`decode`],
//! [`schema`], [`tool`], [`grammar`], [`runner`], [`engine`], [`response`], [`grounding`], [`retrieval`], [`agent`], [`extract`],
//! [`lora`], [`train`].
//! [`quant`], [`weights`], [`checkpoint`], [`tokenizer`], [`json`], [`prompt`], [`ops`], [`model`], [`cpu`], [`gpu`], [`session`], [`decode`],
//! [`schema`], [`tool`], [`grammar`], [`runner`], [`engine`], [`response`], [`grounding`], [`retrieval`], [`agent`], [`extract`].
//! [`schema`], [`tool`], [`grammar`], [`runner`], [`engine`], [`response`], [`grounding`], [`retrieval`], [`agent`], [`extract`], [`agreement`].
//! [`schema`], [`tool`], [`grammar`], [`runner`], [`engine`], [`response`], [`grounding`], [`retrieval`], [`agent`], [`extract`], [`data`], [`score`].
//! [`schema`], [`tool`], [`grammar`], [`runner`], [`engine`], [`response`], [`grounding`], [`retrieval`], [`agent`], [`extract`], [`data`], [`score`], `synth`.
#![warn(missing_docs)]

pub mod agent;
pub mod agreement;
pub mod checkpoint;
pub mod config;
pub mod course;
pub mod cpu;
pub mod data;
pub mod decode;
pub mod device;
pub mod engine;
pub mod error;
pub mod extract;
pub mod finetune;
mod fingerprint;
pub mod gpu;
pub mod grammar;
pub mod grounding;
#[cfg(feature = "hub")]
pub mod hub;
pub mod json;
pub mod lora;
pub mod model;
pub mod ops;
pub mod pretrain;
pub mod prompt;
pub mod quant;
pub mod response;
pub mod retrieval;
pub mod runner;
pub mod schema;
pub mod score;
pub mod session;
#[cfg(feature = "hub")]
pub mod synth;
pub mod tokenizer;
pub mod tool;
pub mod train;
pub mod weights;

pub use agent::{Needle, NeedleBuilder, RunOptions, Strictness};
pub use checkpoint::{Adapter, BitMap, Checkpoint, FileMark, Provenance, Written};
pub use config::{Config, Generation};
pub use decode::{
    Constraint, DecodeOptions, Flow, Generated, Overflow, Sampling, StopReason, generate, generate_within,
};
pub use device::{DeviceSpec, parse_dtype};
pub use engine::{Engine, EngineOptions};
pub use error::{Error, HubFault, Result};
pub use extract::{Extraction, Extractor};
pub use json::compact as compact_json;
pub use model::{Model, Window};
pub use response::{ErrorCode, Response, ResponseType};
pub use retrieval::ToolIndex;
pub use session::{Mark, Session};
pub use tokenizer::Tokenizer;
pub use tool::{Tool, ToolCall, ToolSet};

/// README's examples are compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
