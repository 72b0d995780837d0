//! Probe heads: a few learnt queries pool the cells of all positions and depths, as the pass goes along.
//!
//! Scores `⟨cell, probe⟩/√D` over all cells, softmax, pooled `[P·D]`, then a projection. The softmax is kept open: the
//! largest score so far, the sum of the weights under it, and the weighted sum of the cells.

use super::{
    loader::Loader,
    simd::Isa,
    vector::{add_scaled, dot},
};
use crate::error::Result;

/// Which head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeHead {
    /// Compares texts: a query with a tool.
    Contrastive,
    /// Judges a completion.
    Confidence,
}

#[derive(Debug)]
pub(super) struct Head {
    /// `[P, D]`
    probes: Vec<f32>,
    d: usize,
    /// `[out, P·D]`
    proj: Vec<f32>,
    /// `[out]`
    bias: Vec<f32>,
}

/// What a head has seen so far.
#[derive(Clone, Debug)]
pub(super) struct Pooling {
    pub(super) head: ProbeHead,
    /// Per probe.
    peaks: Vec<f32>,
    totals: Vec<f32>,
    /// `[P, D]`
    sums: Vec<f32>,
}

impl Head {
    /// The head under `prefix`, where the weights have one.
    pub(super) fn load(loader: &Loader<'_>, prefix: &str, d: usize) -> Result<Option<Self>> {
        let name = |part: &str| format!("{prefix}.{part}");
        let (Some(probes), Some(proj)) = (loader.shape(&name("probes")), loader.shape(&name("proj"))) else {
            return Ok(None);
        };
        let (p, out) = (probes.first().copied().unwrap_or(0), proj.first().copied().unwrap_or(0));
        let bias = match loader.shape(&name("bias")) {
            Some(_) => loader.floats(&name("bias"), &[out])?,
            None => vec![0.0; out],
        };
        Ok(Some(Self {
            probes: loader.floats(&name("probes"), &[p, d])?,
            d,
            proj: loader.floats(&name("proj"), &[out, p * d])?,
            bias,
        }))
    }

    /// Nothing pooled yet.
    pub(super) fn pooling(&self, head: ProbeHead) -> Pooling {
        let p = self.probes.len() / self.d;
        Pooling {
            head,
            peaks: vec![f32::NEG_INFINITY; p],
            totals: vec![0.0; p],
            sums: vec![0.0; p * self.d],
        }
    }

    /// Pools one more cell.
    pub(super) fn pool(&self, isa: Isa, cell: &[f32], pooling: &mut Pooling) {
        let root = (self.d as f32).sqrt();
        let probes = self
            .probes
            .chunks_exact(self.d)
            .zip(pooling.sums.chunks_exact_mut(self.d));
        let state = pooling.peaks.iter_mut().zip(&mut pooling.totals);
        for ((probe, sum), (peak, total)) in probes.zip(state) {
            let score = dot(isa, cell, probe) / root;
            if score > *peak {
                let shrink = (*peak - score).exp();
                *total *= shrink;
                sum.iter_mut().for_each(|x| *x *= shrink);
                *peak = score;
            }
            let weight = (score - *peak).exp();
            *total += weight;
            add_scaled(isa, weight, cell, sum);
        }
    }

    /// The head's output for what was pooled; `None` where nothing was.
    pub(super) fn read(&self, isa: Isa, pooling: &Pooling) -> Option<Vec<f32>> {
        if pooling.totals.contains(&0.0) {
            return None;
        }
        let mut pooled = pooling.sums.clone();
        for (pooled, total) in pooled.chunks_exact_mut(self.d).zip(&pooling.totals) {
            pooled.iter_mut().for_each(|x| *x /= total);
        }
        let rows = self.proj.chunks_exact(pooled.len()).zip(&self.bias);
        let out: Vec<f32> = rows.map(|(row, bias)| dot(isa, &pooled, row) + bias).collect();
        Some(match pooling.head {
            ProbeHead::Confidence => out,
            ProbeHead::Contrastive => {
                let length = (out.iter().map(|x| x * x).sum::<f32>() + 1e-12).sqrt();
                out.iter().map(|x| x / length).collect()
            }
        })
    }
}
