//! One block: engram memory, attention, Hadamard MLP, each added to the stream.
//!
//! `x ← x + α·v_s` at an engram site; `x ← x + σ(g)·zcrms(attention(zcrms(x)))`; `x ← x + mlp(zcrms(x))`.

use candle_core::Tensor;

use super::{Loader, attention::Attention, engram::Recall, hadamard_mlp::HadamardMlp, memory::Sight};
use crate::{
    config::Config,
    error::Result,
    ops::{self, Rope},
};

#[derive(Clone, Debug)]
pub(super) struct Block {
    /// `[D]` each.
    norm_in: Tensor,
    post_attn_norm: Tensor,
    pre_hada_norm: Tensor,
    /// `σ(g)`, a scalar.
    attn_gate: Tensor,
    attention: Attention,
    mlp: HadamardMlp,
}

impl Block {
    pub(super) fn load(loader: &Loader<'_>, prefix: &str, config: &Config) -> Result<Self> {
        let norm = |name: &str| loader.tensor(&format!("{prefix}.{name}"), &[config.d_model]);
        Ok(Self {
            norm_in: norm("norm_in")?,
            post_attn_norm: norm("post_attn_norm")?,
            pre_hada_norm: norm("pre_hada_norm")?,
            attn_gate: candle_nn::ops::sigmoid(&loader.tensor(&format!("{prefix}.attn_gate"), &[])?)?,
            attention: Attention::load(loader, &format!("{prefix}.self_attn"), config)?,
            mlp: HadamardMlp::load(loader, &format!("{prefix}.hadamard_mlp"), config)?,
        })
    }

    /// `x: [B, T, D]` → `[B, T, D]`.
    pub(super) fn forward(
        &self,
        x: &Tensor,
        l: usize,
        recall: Option<&Recall>,
        rope: &Rope,
        sight: &mut Sight<'_>,
    ) -> Result<Tensor> {
        let x = match recall {
            Some(recall) => recall.add_to(x)?,
            None => x.clone(),
        };
        let attended = self
            .attention
            .forward(&ops::rms_norm(&x, &self.norm_in)?, l, rope, sight)?;
        let attended = ops::rms_norm(&attended, &self.post_attn_norm)?;
        let x = (x + attended.broadcast_mul(&self.attn_gate)?)?;
        let mixed = self.mlp.forward(&ops::rms_norm(&x, &self.pre_hada_norm)?)?;
        Ok((x + mixed)?)
    }
}
