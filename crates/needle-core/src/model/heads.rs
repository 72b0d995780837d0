//! Probe heads of generation 2: a few learnt queries pool the cells of all kept positions and depths.
//!
//! Scores `⟨cell, probe⟩/√D` over all `T·(L+1)` cells, softmax, pooled `[P·D]`, then a projection: to a unit vector (contrastive,
//! for comparing a query with a tool) or to one logit (confidence).

use candle_core::{D, DType, Tensor};

use super::{Loader, linear::Linear};
use crate::error::Result;

#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// `[P, D]`
    probes: Tensor,
    proj: Linear,
    /// `[out]`
    bias: Option<Tensor>,
}

impl Head {
    /// A head of its parts: probes `[P, D]`, projection `[out, P·D]`, bias `[out]`.
    pub(crate) fn of(probes: Tensor, proj: Tensor, bias: Option<Tensor>) -> Self {
        Self {
            probes,
            proj: Linear::of(proj),
            bias,
        }
    }

    /// The head under `prefix`, where the weights have one.
    pub(super) fn load(loader: &Loader<'_>, prefix: &str, d: usize) -> Result<Option<Self>> {
        let name = |part: &str| format!("{prefix}.{part}");
        let (Some(probes), Some(proj)) = (loader.shape(&name("probes")), loader.shape(&name("proj"))) else {
            return Ok(None);
        };
        let (p, out) = (probes.first().copied().unwrap_or(0), proj.first().copied().unwrap_or(0));
        let bias = loader
            .shape(&name("bias"))
            .map(|_| loader.tensor(&name("bias"), &[out]))
            .transpose()?;
        Ok(Some(Self {
            probes: loader.tensor(&name("probes"), &[p, d])?,
            proj: Linear::load(loader, &name("proj"), out, p * d)?,
            bias,
        }))
    }

    /// `cells: [B, T, L+1, D]`, of which the positions `keep[b][t]` count → `[B, out]`.
    pub(crate) fn forward(&self, cells: &Tensor, keep: &[Vec<bool>]) -> Result<Tensor> {
        let (b, t, depth, d) = cells.dims4()?;
        let cells = cells.reshape((b, t * depth, d))?;
        let (p, _) = self.probes.dims2()?;
        let probes = self.probes.unsqueeze(0)?.broadcast_as((b, p, d))?;
        let scores = (probes.matmul(&cells.transpose(1, 2)?)?.to_dtype(DType::F32)? / (d as f64).sqrt())?;
        let hidden = keep.iter().flatten().flat_map(|&keep| {
            let bias = if keep { 0f32 } else { f32::NEG_INFINITY };
            std::iter::repeat_n(bias, depth)
        });
        let hidden = Tensor::from_iter(hidden, cells.device())?.reshape((b, 1, t * depth))?;
        let weights = candle_nn::ops::softmax(&scores.broadcast_add(&hidden)?, D::Minus1)?.to_dtype(cells.dtype())?;
        let pooled = weights.matmul(&cells)?.reshape((b, p * d))?;
        let out = self.proj.forward(&pooled)?;
        Ok(match &self.bias {
            Some(bias) => out.broadcast_add(bias)?,
            None => out,
        })
    }
}

/// Rows scaled to unit length, `[B, n]`.
pub(crate) fn unit_length(x: &Tensor) -> Result<Tensor> {
    let length = (x.sqr()?.sum_keepdim(D::Minus1)? + 1e-12)?.sqrt()?;
    Ok(x.broadcast_div(&length)?)
}
