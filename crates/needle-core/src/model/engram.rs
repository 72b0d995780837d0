//! Hashed n-gram memory: each site turns the rows that the last tokens hash to into a key and a value.
//!
//! `e = [rows of all tables]`, `k = e·Wk`, `v = e·Wv`, `v_t ← Σ_j taps_j ∘ v_{t−3j}` (three being the longest order), and in
//! the block `α = σ(⟨rms_unit(x), rms_unit(k)⟩/√D)`, `x ← x + α·v`. A row whose first token is out of sight is zero, and so
//! is a tap that is out of sight.

use candle_core::{D, DType, Tensor};

use super::{Loader, linear::Linear, memory::Sight};
use crate::{
    config::{Config, ENGRAM_TAPS},
    error::Result,
    ops::{self, EngramHash, engram_slots},
};

/// One site.
#[derive(Clone, Debug)]
pub(super) struct Engram {
    /// `[tables·S, sub_dim]`
    tables: Tensor,
    key_proj: Linear,
    value_proj: Linear,
    /// `[4, D]`
    taps: Tensor,
    /// Positions between two taps.
    dilation: usize,
}

/// What a site recalls for the positions of one pass.
pub(super) struct Recall {
    /// `[B, T, D]`, of unit mean square.
    key: Tensor,
    /// `[B, T, D]`
    value: Tensor,
}

/// Rows that the positions of a pass read, the same at every site.
pub(super) struct Rows {
    /// `[B·T·tables]`, into the stacked tables.
    index: Tensor,
    /// `[B, T, tables, 1]`: zero where the n-gram reaches out of sight.
    visible: Tensor,
}

impl Rows {
    /// The rows for `tokens[b]`, all of one length, each preceded by `sight`'s history of it.
    pub(super) fn look_up(config: &Config, tokens: &[Vec<u32>], sight: &Sight<'_>, like: &Tensor) -> Result<Self> {
        let hash = EngramHash {
            orders: config.engram.orders.clone(),
            heads: config.engram.heads,
            stride: config.engram.seed_heads.unwrap_or(config.engram.heads),
            slots: config.engram.slots,
        };
        let tables = config.engram_tables();
        let (b, t) = (tokens.len(), tokens.first().map_or(0, Vec::len));
        let mut index = Vec::with_capacity(b * t * tables);
        let mut visible = Vec::with_capacity(b * t * tables);
        for (row, tokens) in tokens.iter().enumerate() {
            let slots = engram_slots(&hash, &sight.with_history(tokens), t);
            index.extend(
                slots
                    .iter()
                    .enumerate()
                    .map(|(at, slot)| (at % tables * hash.slots) as u32 + slot),
            );
            for position in 0..t {
                for order in &hash.orders {
                    let seen = if sight.reaches(row, position, order - 1) {
                        1f32
                    } else {
                        0.0
                    };
                    visible.extend(std::iter::repeat_n(seen, hash.heads));
                }
            }
        }
        let visible = Tensor::from_vec(visible, (b, t, tables, 1), like.device())?.to_dtype(like.dtype())?;
        Ok(Self {
            index: Tensor::new(index, like.device())?,
            visible,
        })
    }
}

impl Engram {
    pub(super) fn load(loader: &Loader<'_>, prefix: &str, config: &Config) -> Result<Self> {
        let d = config.d_model;
        let (rows, width) = (config.engram_tables() * config.engram.slots, config.engram_sub_dim());
        Ok(Self {
            tables: loader.tensor(&format!("{prefix}.tables"), &[rows, width])?,
            key_proj: Linear::load(loader, &format!("{prefix}.key_proj"), d, d)?,
            value_proj: Linear::load(loader, &format!("{prefix}.value_proj"), d, d)?,
            taps: loader.tensor(&format!("{prefix}.taps"), &[ENGRAM_TAPS, d])?,
            dilation: config.engram_dilation(),
        })
    }

    /// What site `s` recalls at the positions of `rows`.
    pub(super) fn recall(&self, s: usize, rows: &Rows, sight: &mut Sight<'_>) -> Result<Recall> {
        let (b, t, tables, _) = rows.visible.dims4()?;
        let (_, width) = self.tables.dims2()?;
        let fetched = self
            .tables
            .index_select(&rows.index, 0)?
            .reshape((b, t, tables, width))?;
        let e = fetched.broadcast_mul(&rows.visible)?.reshape((b, t, tables * width))?;
        let key = ops::rms_unit(&self.key_proj.forward(&e)?)?;
        let reach = (ENGRAM_TAPS - 1) * self.dilation;
        let earlier = sight.engram_values(s, &self.value_proj.forward(&e)?, reach)?;
        let mut value: Option<Tensor> = None;
        for j in 0..ENGRAM_TAPS {
            let delay = j * self.dilation;
            let mut tap = earlier
                .narrow(1, reach - delay, t)?
                .broadcast_mul(&self.taps.narrow(0, j, 1)?)?;
            if let Some(seen) = sight.delayed(b, t, delay, &tap)? {
                tap = tap.broadcast_mul(&seen)?;
            }
            value = Some(match value {
                Some(sum) => (sum + tap)?,
                None => tap,
            });
        }
        Ok(Recall {
            key,
            value: value.unwrap_or(earlier),
        })
    }
}

impl Recall {
    /// `x + σ(⟨rms_unit(x), key⟩/√D)·value`, `x: [B, T, D]`.
    pub(super) fn add_to(&self, x: &Tensor) -> Result<Tensor> {
        let (_, _, d) = x.dims3()?;
        let agreement = (ops::rms_unit(x)? * &self.key)?
            .to_dtype(DType::F32)?
            .sum_keepdim(D::Minus1)?;
        let alpha = candle_nn::ops::sigmoid(&(agreement / (d as f64).sqrt())?)?.to_dtype(x.dtype())?;
        Ok((x + self.value.broadcast_mul(&alpha)?)?)
    }
}
