//! What a file says of itself: the facts that `needle inspect` prints.

use candle_core::DType;
use serde_json::{Map, Value};

use crate::{config::Generation, quant::CodeWidth};

/// The container that weights came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatKind {
    /// A `.cact` archive.
    Cact,
    /// A safetensors checkpoint.
    Safetensors,
    /// A pickled checkpoint.
    Pickle,
}

/// How the values of a stored tensor are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Floats.
    Float(DType),
    /// Codes and norms of Cactus Quants.
    Packed {
        /// Width of a code.
        width: CodeWidth,
        /// Columns that share a norm.
        group: usize,
    },
    /// Bytes that are no tensor.
    Raw,
}

/// One stored tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The canonical name; `*` stands for every layer's number where all layers lie in one stored tensor.
    pub name: String,
    /// How its values are written.
    pub encoding: Encoding,
    /// The shape as it is stored.
    pub shape: Vec<usize>,
    /// Where it lies in the file, in bytes; absent where the values had to be decoded first (some pickles).
    pub offset: Option<usize>,
    /// Bytes that it takes; of the decoded values where there is no offset.
    pub size_bytes: usize,
}

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct FormatInfo {
    /// The container.
    pub kind: FormatKind,
    /// The family of the model inside.
    pub generation: Generation,
    /// The format's version: the generation for an archive, `format_version` for a checkpoint.
    pub version: u32,
    /// Size of the file.
    pub size_bytes: usize,
    /// Everything that is stored, in the file's order.
    pub records: Vec<Record>,
    /// Names of the probe heads that are present.
    pub heads: Vec<&'static str>,
    /// Optimiser steps that a checkpoint was trained for.
    pub step: Option<u64>,
    /// A checkpoint's notes on its training run.
    pub run: Map<String, Value>,
}
