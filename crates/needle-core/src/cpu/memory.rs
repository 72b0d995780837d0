//! What one sequence remembers between passes.

use super::{cache::Cache, heads::Pooling, model::CpuModel, stored::CachePrecision};
use crate::{config::ENGRAM_TAPS, error::Result, model::Window};

#[derive(Debug)]
pub(super) struct Memory {
    pub(super) cache: Cache,
    pub(super) engram: EngramMemory,
    pub(super) pooling: Option<Pooling>,
}

/// The last tokens and the last engram values before their filter.
#[derive(Clone, Debug)]
pub(super) struct EngramMemory {
    /// Token of position `p` at `p mod len`.
    tokens: Vec<u32>,
    /// For each site, the value of position `p` at row `p mod reach`.
    values: Vec<Vec<f32>>,
    reach: usize,
    d: usize,
}

impl Memory {
    /// # Errors
    /// [`crate::Error::Unsupported`] when the system has no room for it.
    pub(super) fn new(model: &CpuModel, window: Window, precision: CachePrecision) -> Result<Self> {
        let config = model.config();
        let reach = (ENGRAM_TAPS - 1) * config.engram_dilation();
        let values = vec![0.0; reach * config.d_model];
        Ok(Self {
            cache: Cache::new(config, window, precision)?,
            engram: EngramMemory {
                tokens: vec![0; model.hash.reach().max(1)],
                values: vec![values; model.sites.len()],
                reach,
                d: config.d_model,
            },
            pooling: None,
        })
    }

    /// A copy that goes its own way.
    ///
    /// # Errors
    /// As [`Memory::new`].
    pub(super) fn fork(&self, model: &CpuModel) -> Result<Self> {
        Ok(Self {
            cache: self.cache.fork(model.config())?,
            engram: self.engram.clone(),
            pooling: self.pooling.clone(),
        })
    }
}

impl EngramMemory {
    /// The token at `position`, one of the last few.
    pub(super) fn token(&self, position: usize) -> u32 {
        self.tokens[position % self.tokens.len()]
    }

    /// The value of `site` at `position`, one of the last few.
    pub(super) fn value(&self, site: usize, position: usize) -> &[f32] {
        &self.values[site][position % self.reach * self.d..][..self.d]
    }

    pub(super) fn remember_token(&mut self, position: usize, token: u32) {
        let len = self.tokens.len();
        self.tokens[position % len] = token;
    }

    pub(super) fn remember_value(&mut self, site: usize, position: usize, value: &[f32]) {
        self.values[site][position % self.reach * self.d..][..self.d].copy_from_slice(value);
    }

    /// Positions whose values are kept.
    pub(super) fn reach(&self) -> usize {
        self.reach
    }
}
