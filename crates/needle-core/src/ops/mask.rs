//! Which keys each query may see.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor, bail};

/// A table over `[B, T, S]`, one byte an entry: 1 where query `t` of row `b` may see key `s`. `B` = 1 serves every row.
///
/// Cloning shares the table.
#[derive(Clone, Debug)]
pub struct Mask {
    rows: usize,
    queries: usize,
    keys: usize,
    seen: Arc<[u8]>,
}

impl Mask {
    /// The table of a rule `(row, query, key) → may see`.
    pub fn new(rows: usize, queries: usize, keys: usize, rule: impl Fn(usize, usize, usize) -> bool) -> Self {
        let mut seen = Vec::with_capacity(rows * queries * keys);
        for b in 0..rows {
            for t in 0..queries {
                seen.extend((0..keys).map(|s| u8::from(rule(b, t, s))));
            }
        }
        Self {
            rows,
            queries,
            keys,
            seen: seen.into(),
        }
    }

    /// Every position sees itself and what came before: `[1, T, T]`.
    pub fn causal(t: usize) -> Self {
        Self::new(1, t, t, |_, t, s| s <= t)
    }

    /// Causal, and only kept positions are seen: `keep[b][s]`, one row a sequence.
    pub fn padded(keep: &[Vec<bool>]) -> Self {
        let t = keep.first().map_or(0, Vec::len);
        Self::new(keep.len(), t, t, |b, t, s| s <= t && keep[b][s])
    }

    /// Query count, `T`.
    pub fn queries(&self) -> usize {
        self.queries
    }

    /// Key count, `S`.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// The entries of one query, one byte a key.
    pub fn row(&self, b: usize, t: usize) -> &[u8] {
        let b = if self.rows == 1 { 0 } else { b };
        &self.seen[(b * self.queries + t) * self.keys..][..self.keys]
    }

    /// Whether query `t` of row `b` may see key `s`.
    pub fn allows(&self, b: usize, t: usize, s: usize) -> bool {
        self.row(b, t)[s] != 0
    }

    /// The table as bytes on a device: `[1 or B, T, S]`.
    pub fn to_tensor(&self, device: &Device) -> Result<Tensor> {
        Tensor::from_slice(&self.seen, (self.rows, self.queries, self.keys), device)
    }

    /// Refuses operands of another shape.
    pub(super) fn expect_shape(&self, b: usize, t: usize, s: usize) -> Result<()> {
        if (self.rows != 1 && self.rows != b) || self.queries != t || self.keys != s {
            let Self {
                rows, queries, keys, ..
            } = self;
            bail!("attention: a mask of [{rows}, {queries}, {keys}] does not fit [{b}, {t}, {s}]")
        }
        Ok(())
    }
}
