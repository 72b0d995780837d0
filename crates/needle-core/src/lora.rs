//! Low-rank adapters in training: which matrices they change, and a trained adapter as a file's contents.
//!
//! `y = x·Wᵀ + (α/r)·(x·A)·B` with `A: [in, r]`, `B: [r, out]`.

use std::path::PathBuf;

use candle_core::Tensor;
use serde_json::Map;

use crate::{
    checkpoint::{Adapter, Checkpoint, FormatKind},
    error::{Error, Result},
    weights::Dense,
};

/// The projections that an adapter changes, in every layer.
pub const TARGETS: [&str; 5] = ["q_proj", "k_proj", "v_proj", "gate_proj", "out_proj"];

/// Entries below this are nothing: a matrix without larger ones is left alone, as the reference does.
const NOTHING: f32 = 1e-6;

/// Wider than any matrix that it is to be cheaper than.
const MOST_RANK: usize = 4096;

/// The size of an adapter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdapterShape {
    /// Width between `A` and `B`.
    pub rank: usize,
    /// `α`: the product counts `α/rank` times.
    pub alpha: f64,
}

impl Default for AdapterShape {
    fn default() -> Self {
        Self { rank: 16, alpha: 32.0 }
    }
}

impl AdapterShape {
    /// `α/rank`.
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }

    pub(crate) fn expect_valid(&self) -> Result<()> {
        if !(1..=MOST_RANK).contains(&self.rank) || !self.alpha.is_finite() {
            let Self { rank, alpha } = self;
            return Err(Error::Unsupported(format!(
                "an adapter needs a rank from 1 to {MOST_RANK} and a finite alpha, found rank {rank}, alpha {alpha}"
            )));
        }
        Ok(())
    }
}

/// Name, outputs and inputs of every matrix that an adapter of this model changes; those of zeros are left out.
pub(crate) fn targets(checkpoint: &Checkpoint) -> Result<Vec<(String, usize, usize)>> {
    let mut targets = vec![];
    for layer in 0..checkpoint.config.num_layers {
        for projection in TARGETS {
            let name = name(layer, projection);
            let weight = checkpoint.weights.get(&name)?;
            let &[out, inner] = &weight.shape()[..] else {
                return Err(Error::Shape {
                    name,
                    expected: vec![0, 0],
                    found: weight.shape(),
                });
            };
            let values = weight.to_tensor(candle_core::DType::F32, &candle_core::Device::Cpu)?;
            if values.abs()?.max_all()?.to_scalar::<f32>()? > NOTHING {
                targets.push((name, out, inner));
            }
        }
    }
    Ok(targets)
}

/// The names of both factors of a matrix's adapter.
pub(crate) fn factor_names(matrix: &str) -> [String; 2] {
    [format!("{matrix}.A"), format!("{matrix}.B")]
}

fn name(layer: usize, projection: &str) -> String {
    format!("layers.{layer}.self_attn.{projection}")
}

/// An adapter of trained factors; a matrix that has none gets zeros, so that every layer is covered.
pub(crate) fn adapter(
    checkpoint: &Checkpoint,
    shape: AdapterShape,
    factor: impl Fn(&str) -> Option<Tensor>,
) -> Result<Adapter> {
    let mut pairs = std::collections::BTreeMap::new();
    for layer in 0..checkpoint.config.num_layers {
        for projection in TARGETS {
            let name = name(layer, projection);
            let sizes = checkpoint.weights.get(&name)?.shape();
            let (out, inner) = (sizes[0], sizes[1]);
            let [a, b] = factor_names(&name);
            let dense = |name: &str, shape: [usize; 2]| -> Result<Dense> {
                let values = match factor(name) {
                    Some(factor) => factor.flatten_all()?.to_vec1::<f32>()?,
                    None => vec![0.0; shape[0] * shape[1]],
                };
                Ok(Dense::from_f32(&values, &shape))
            };
            let pair = (dense(&a, [inner, shape.rank])?, dense(&b, [shape.rank, out])?);
            pairs.insert(name, pair);
        }
    }
    Ok(Adapter {
        kind: FormatKind::Safetensors,
        scale: shape.scale(),
        rank: shape.rank,
        base: Some(checkpoint.path.display().to_string()),
        num_layers: checkpoint.config.num_layers,
        pairs,
        rows: None,
        extra: Map::new(),
        path: PathBuf::new(),
    })
}
