//! Sizes and storages that a decode step is planned for.

use crate::{
    ops::EngramHash,
    storage::{Elem, Format},
};

/// Sizes of a model and of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Sequences that advance together.
    pub rows: u32,
    /// Lanes of the residual stream.
    pub n: u32,
    /// Width of the residual stream.
    pub d: u32,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub h: u32,
    /// Key/value heads.
    pub g: u32,
    /// Width of a query or key head.
    pub k: u32,
    /// Width of a value head.
    pub v: u32,
    /// Rows of the embedding.
    pub vocabulary: u32,
    /// Rows of the embedding that logits are made of.
    pub out_vocabulary: u32,
    /// Cache slots a sequence.
    pub slots: u32,
    /// Positions that have angles.
    pub positions: u32,
    /// The n-gram memory.
    pub engram: Option<EngramGeometry>,
}

/// Sizes of the n-gram memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngramGeometry {
    /// The hash; `tables·cols` is the model's width.
    pub hash: EngramHash,
    /// The layer of each site, ascending.
    pub layers: Vec<usize>,
}

impl EngramGeometry {
    /// Positions between two taps of a value's filter: the longest order.
    pub fn dilation(&self) -> u32 {
        self.hash.orders.iter().copied().max().unwrap_or(1)
    }

    /// Positions whose values are kept: the present one and what the filter's four taps reach back to.
    pub fn value_ring(&self) -> u32 {
        3 * self.dilation() + 1
    }
}

/// How the cache and the weights are stored that all layers share or that are no projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Keys and values.
    pub cache: Elem,
    /// The hyper-connections' projections.
    pub phi: Elem,
    /// Embedding and logits.
    pub embedding: Format,
    /// The engram tables.
    pub tables: Format,
}
