//! Hashed n-gram memory: each site turns the rows that the last tokens hash to into a key and a value.
//!
//! `e = [rows of all tables]`, `k = e·Wk`, `v = e·Wv`, `v_t ← Σ_j taps_j ∘ v_{t−3j}` (three being the longest order), and in
//! the block `α = σ(⟨rms_unit(x), rms_unit(k)⟩/√D)`, `x ← x + α·v`. A row whose n-gram reaches before the text is zero.

use super::{
    loader::Loader,
    rows::Rows,
    simd::Isa,
    stack::Stack,
    vector::{add_scaled, dot, inverse_rms, sigmoid_of},
};
use crate::{
    config::{Config, ENGRAM_TAPS},
    error::Result,
};

/// How tokens become rows, the same at every site.
#[derive(Clone, Debug)]
pub(super) struct Hash {
    orders: Vec<usize>,
    heads: usize,
    stride: usize,
    slots: usize,
}

/// One site.
#[derive(Debug)]
pub(super) struct Site {
    tables: Rows,
    /// `Wk` and `Wv`.
    pub(super) projections: Stack,
    /// `[4, D]`
    taps: Vec<f32>,
    /// Positions between two taps.
    dilation: usize,
}

impl Hash {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            orders: config.engram.orders.clone(),
            heads: config.engram.heads,
            stride: config.engram.seed_heads.unwrap_or(config.engram.heads),
            slots: config.engram.slots,
        }
    }

    /// Tokens before the present one that an n-gram takes in.
    pub(super) fn reach(&self) -> usize {
        self.orders.iter().max().map_or(0, |order| order - 1)
    }

    /// For every table the row that a token reads, `None` where its n-gram reaches before the text. `back(r)` is the token
    /// `r` before the present one.
    fn rows<'a>(&'a self, back: impl Fn(usize) -> Option<u32> + 'a) -> impl Iterator<Item = Option<usize>> + 'a {
        let tables = self
            .orders
            .iter()
            .enumerate()
            .flat_map(|(o, order)| (0..self.heads).map(move |j| (o, *order, j)));
        tables.map(move |(o, order, j)| {
            let mut a = 0x9E37_79B9u32.wrapping_mul((o * self.stride + j + 1) as u32);
            for r in 0..order {
                a = (a ^ back(r)?).wrapping_mul(0x0100_0193);
            }
            let row = (a ^ (a >> 15)) as usize % self.slots;
            Some((o * self.heads + j) * self.slots + row)
        })
    }
}

impl Site {
    pub(super) fn load(loader: &Loader<'_>, prefix: &str, config: &Config) -> Result<Self> {
        let d = config.d_model;
        let name = |part: &str| format!("{prefix}.{part}");
        let (rows, width) = (config.engram_tables() * config.engram.slots, config.engram_sub_dim());
        Ok(Self {
            tables: Rows::load(loader, &name("tables"), rows, width)?,
            projections: Stack::load(loader, &[(name("key_proj"), d), (name("value_proj"), d)], d)?,
            taps: loader.floats(&name("taps"), &[ENGRAM_TAPS, d])?,
            dilation: config.engram_dilation(),
        })
    }

    /// Floats of scratch for [`Site::fetch`].
    pub(super) fn scratch_len(&self) -> usize {
        self.tables.scratch_len()
    }

    /// The fetched rows of one token, `e: [D]`.
    pub(super) fn fetch(&self, hash: &Hash, back: impl Fn(usize) -> Option<u32>, e: &mut [f32], scratch: &mut [f32]) {
        for (e, row) in e.chunks_exact_mut(self.tables.cols).zip(hash.rows(back)) {
            match row {
                Some(row) => self.tables.read(row, e, scratch),
                None => e.fill(0.0),
            }
        }
    }

    /// `value = Σ_j taps_j ∘ raw(3j)`, where `raw(b)` is the value of `b` positions ago, `None` before the text.
    pub(super) fn filter<'a>(&self, raw: impl Fn(usize) -> Option<&'a [f32]>, value: &mut [f32]) {
        value.fill(0.0);
        for (j, taps) in self.taps.chunks_exact(value.len()).enumerate() {
            let Some(raw) = raw(j * self.dilation) else { continue };
            for ((value, tap), raw) in value.iter_mut().zip(taps).zip(raw) {
                *value += tap * raw;
            }
        }
    }
}

/// `x + σ(⟨rms_unit(x), rms_unit(key)⟩/√D)·value`.
pub(super) fn recall(isa: Isa, key: &[f32], value: &[f32], x: &mut [f32]) {
    let agreement = dot(isa, x, key) * inverse_rms(isa, x) * inverse_rms(isa, key);
    let alpha = sigmoid_of(agreement / (x.len() as f32).sqrt());
    add_scaled(isa, alpha, value, x);
}
