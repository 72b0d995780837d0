//! A projection with a frozen weight.

use candle_core::Tensor;

use super::Loader;
use crate::{error::Result, ops};

/// `y = x·Wᵀ`.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    /// `[out, in]`
    weight: Tensor,
}

impl Linear {
    /// Reads the matrix `name: [out, in]`.
    pub(super) fn load(loader: &Loader<'_>, name: &str, out: usize, inner: usize) -> Result<Self> {
        Ok(Self {
            weight: loader.tensor(name, &[out, inner])?,
        })
    }

    /// A projection by this matrix `[out, in]`.
    pub(super) fn of(weight: Tensor) -> Self {
        Self { weight }
    }

    /// `x: [.., in]` → `[.., out]`.
    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(ops::linear(x, &self.weight)?)
    }
}
