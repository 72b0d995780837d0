//! Decode attention: one new position a row, its norm, rotation and cache write included.

use super::{EPSILON, HeadsShape, SIMD, floats, rope::HEAD_MAX};
use crate::{
    error::Unsupported,
    launch::{Arg, Fields, Launch},
    storage::Elem,
    text::Module,
};

const OPERATION: &str = "attention";
const SIMDS: u32 = 8;
const NARROW: u32 = 64;

/// `out = σ(gate) ∘ softmax(q·Kᵀ / sqrt(k))·V` for the new position of every row, over the first `filled` slots of its
/// cache; `q` and `k` as in [`Rope`](super::Rope), `k` and `v` stored in the row's slot. Query head `i` reads key head
/// `i / (h / g)`. The cache holds pinned positions and a ring of the last ones, so every filled slot is in sight.
pub struct Attention<B> {
    /// `[rows, (h + g)·k + (g + h)·v]` float32: q, k, v, gate, read.
    pub qkvg: B,
    /// `[k]` float32, read.
    pub q_norm: B,
    /// `[k]` float32, read.
    pub k_norm: B,
    /// `[positions, k]` float32: a position's cosines, then its sines, read.
    pub angles: B,
    /// One [`RowState`](crate::RowState) a row, read.
    pub state: B,
    /// `[rows, slots, g, k]`, read, and written at the row's slot.
    pub k_cache: B,
    /// `[rows, slots, g, v]`, read, and written at the row's slot.
    pub v_cache: B,
    /// `[rows, h, v]` float32, written.
    pub out: B,
}

impl<B> Attention<B> {
    /// The launch for a cache of `cache`; `shape.rows_a_sequence` is 1.
    ///
    /// # Errors
    /// [`Unsupported`] for a shape without a kernel.
    pub fn launch(self, cache: Elem, shape: HeadsShape) -> Result<Launch<B>, Unsupported> {
        shape.check(OPERATION, cache)?;
        crate::error::within(OPERATION, "the rows of a sequence", shape.rows_a_sequence, 1, 1)?;
        crate::error::within(OPERATION, "rows", shape.rows, 1, 65_535)?;
        let HeadsShape {
            rows,
            h,
            g,
            k,
            v,
            slots,
            ..
        } = shape;
        let widest = if k.max(v) <= NARROW { NARROW } else { HEAD_MAX };
        Ok(Launch {
            module: Module::Attention,
            kernel: format!("attention_{widest}_{}", cache.name()),
            grid: (h, rows),
            threads: SIMDS * SIMD,
            shared_bytes: floats(3 * widest + SIMDS * (widest + 2)),
            args: vec![
                Arg::In(self.qkvg),
                Arg::In(self.q_norm),
                Arg::In(self.k_norm),
                Arg::In(self.angles),
                Arg::In(self.state),
                Arg::InOut(self.k_cache),
                Arg::InOut(self.v_cache),
                Arg::Out(self.out),
            ],
            params: Fields::new()
                .u32s(&[shape.projected(), h, g, k, v, slots])
                .f32(EPSILON)
                .f32(1.0 / (k as f32).sqrt())
                .done(),
        })
    }
}
