//! One layer: what its lanes read, engram memory, attention, Hadamard MLP, each added to the stream, and what its lanes write.
//!
//! `u, mix = front(X)`; `x = u + α·v_s` at an engram site, else `u`; `x ← x + σ(g)·zcrms(attention(zcrms(x)))`;
//! `x ← x + mlp(zcrms(x))`; `X ← R·X + h_post ⊗ (x − u)`.

use candle_core::Tensor;

use super::{Loader, attention::Attention, engram::Recall, lanes, memory::Sight};
use crate::{
    config::Config,
    error::Result,
    ops::{BackWeights, FrontWeights, Kernels, Rope},
};

#[derive(Clone, Debug)]
pub(super) struct Block {
    front: FrontWeights,
    /// `[D]`, in float32.
    norm_in: Tensor,
    attention: Attention,
    back: BackWeights,
    kernels: Kernels,
}

impl Block {
    pub(super) fn load(loader: &Loader<'_>, prefix: &str, config: &Config, l: usize) -> Result<Self> {
        let full = |name: &str, shape: &[usize]| loader.float32(&format!("{prefix}.{name}"), shape);
        let norm = |name: &str| full(name, &[config.d_model]);
        let diagonal = |name: &str| full(&format!("hadamard_mlp.{name}"), &[config.hada_n()]);
        Ok(Self {
            front: lanes::load(loader, &format!("{prefix}.mhc"), config, l)?,
            norm_in: norm("norm_in")?,
            attention: Attention::load(loader, &format!("{prefix}.self_attn"), config)?,
            back: BackWeights {
                post_norm: norm("post_attn_norm")?,
                gate: candle_nn::ops::sigmoid(&full("attn_gate", &[])?)?,
                pre_norm: norm("pre_hada_norm")?,
                diagonals: [diagonal("d1")?, diagonal("d2")?, diagonal("d3")?],
            },
            kernels: loader.kernels(),
        })
    }

    /// Lanes `[B, T, N, D]` → `[B, T, N, D]`.
    pub(super) fn forward(
        &self,
        lanes: &Tensor,
        l: usize,
        recall: Option<&Recall>,
        rope: &Rope,
        sight: &mut Sight<'_>,
    ) -> Result<Tensor> {
        let (u, mix) = self.kernels.lanes_front(lanes, &self.front)?;
        let x = match recall {
            Some(recall) => recall.add_to(&u)?,
            None => u,
        };
        let h = self.kernels.rms_norm(&x, &self.norm_in)?;
        let a = self.attention.forward(&h, l, rope, sight)?;
        Ok(self.kernels.block_back(lanes, &x, &a, &mix, &self.back)?)
    }
}
