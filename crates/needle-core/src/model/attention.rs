//! Gated grouped-query attention with normalised queries and keys.
//!
//! `q = zcrms(h·Wq)`, `k = zcrms(h·Wk)` per head, both turned by their position; `v = h·Wv`;
//! output `(softmax(q·kᵀ/√K)·v ∘ σ(h·Wg))·Wo`.

use candle_core::Tensor;

use super::{Loader, linear::Linear, memory::Sight};
use crate::{
    config::Config,
    error::Result,
    ops::{self, Kernels, Rope},
};

#[derive(Clone, Debug)]
pub(super) struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    gate_proj: Linear,
    out_proj: Linear,
    /// `[K]` each, in float32.
    q_norm: Tensor,
    k_norm: Tensor,
    num_heads: usize,
    num_kv_heads: usize,
    kernels: Kernels,
}

impl Attention {
    pub(super) fn load(loader: &Loader<'_>, prefix: &str, config: &Config) -> Result<Self> {
        let d = config.d_model;
        let linear = |name: &str, out, inner| Linear::load(loader, &format!("{prefix}.{name}"), out, inner);
        let norm = |name: &str| loader.float32(&format!("{prefix}.{name}"), &[config.qk_head_dim]);
        Ok(Self {
            q_proj: linear("q_proj", config.q_dim(), d)?,
            k_proj: linear("k_proj", config.k_dim(), d)?,
            v_proj: linear("v_proj", config.v_dim(), d)?,
            gate_proj: linear("gate_proj", config.out_dim(), d)?,
            out_proj: linear("out_proj", d, config.out_dim())?,
            q_norm: norm("q_norm")?,
            k_norm: norm("k_norm")?,
            num_heads: config.num_heads,
            num_kv_heads: config.num_kv_heads,
            kernels: loader.kernels(),
        })
    }

    /// `h: [B, T, D]` → `[B, T, D]`; the keys and values of layer `l` join what `sight` remembers.
    pub(super) fn forward(&self, h: &Tensor, l: usize, rope: &Rope, sight: &mut Sight<'_>) -> Result<Tensor> {
        let (b, t, _) = h.dims3()?;
        let q = self.q_proj.forward(h)?.reshape((b, t, self.num_heads, ()))?;
        let k = self.k_proj.forward(h)?.reshape((b, t, self.num_kv_heads, ()))?;
        let v = self.v_proj.forward(h)?.reshape((b, t, self.num_kv_heads, ()))?;
        let (q, k) = self.kernels.turn([&q, &k, &v], [&self.q_norm, &self.k_norm], rope)?;
        let (k, v, mask) = sight.keys_values(l, k, v)?;
        let o = ops::attention(&q, &k, &v, &mask)?.reshape((b, t, ()))?;
        let gate = candle_nn::ops::sigmoid(&self.gate_proj.forward(h)?)?;
        self.out_proj.forward(&(o * gate)?)
    }
}
