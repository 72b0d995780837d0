//! The MLP without weight matrices, generation 2.
//!
//! With `m` the next power of two from `D` on and the input zero-padded to `m`:
//! `z = H_m(d₁∘x)`, `z = H_m(silu(d₂∘z))`, output `(d₃∘z)[..D]`.

use candle_core::{D, Tensor};

use super::Loader;
use crate::{config::Config, error::Result, ops};

#[derive(Clone, Debug)]
pub(super) struct HadamardMlp {
    /// `[m]` each.
    d1: Tensor,
    d2: Tensor,
    d3: Tensor,
}

impl HadamardMlp {
    pub(super) fn load(loader: &Loader<'_>, prefix: &str, config: &Config) -> Result<Self> {
        let diagonal = |name: &str| loader.tensor(&format!("{prefix}.{name}"), &[config.hada_n()]);
        Ok(Self {
            d1: diagonal("d1")?,
            d2: diagonal("d2")?,
            d3: diagonal("d3")?,
        })
    }

    /// `x: [B, T, D]` → `[B, T, D]`.
    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (_, _, d) = x.dims3()?;
        let m = self.d1.dims1()?;
        let x = if m == d {
            x.clone()
        } else {
            x.pad_with_zeros(D::Minus1, 0, m - d)?
        };
        let z = ops::hadamard(&x.broadcast_mul(&self.d1)?)?;
        let z = ops::hadamard(&z.broadcast_mul(&self.d2)?.silu()?)?;
        Ok(z.broadcast_mul(&self.d3)?.narrow(D::Minus1, 0, d)?)
    }
}
