//! q/k norm, rotary positions and the write to the cache, for the rows of a pass.

use super::{EPSILON, SIMD, floats};
use crate::{
    error::{Unsupported, indexable, multiple, within},
    launch::{Arg, Fields, Launch},
    storage::Elem,
    text::Module,
};

const OPERATION: &str = "rope";
const SIMDS: u32 = 4;
/// Widest head.
pub(super) const HEAD_MAX: u32 = 128;

/// Heads of a pass and the cache they go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadsShape {
    /// Rows of the pass.
    pub rows: u32,
    /// Rows of the pass that belong to one sequence: 1 when decoding a batch.
    pub rows_a_sequence: u32,
    /// Query heads, a multiple of `g`.
    pub h: u32,
    /// Key/value heads.
    pub g: u32,
    /// Width of a query or key head, even, 128 at most.
    pub k: u32,
    /// Width of a value head, even, 128 at most.
    pub v: u32,
    /// Cache slots a sequence.
    pub slots: u32,
}

impl HeadsShape {
    /// Numbers of one row of queries, keys and values, the output gate behind them.
    pub fn projected(self) -> u32 {
        (self.h + self.g) * self.k + (self.g + self.h) * self.v
    }

    /// Whether the kernels take it, with a cache of `cache`.
    pub fn fits(self, cache: Elem) -> bool {
        self.check(OPERATION, cache).is_ok()
    }

    pub(super) fn check(self, operation: &'static str, cache: Elem) -> Result<(), Unsupported> {
        within(operation, "rows", self.rows, 1, i32::MAX as u32)?;
        within(operation, "the rows of a sequence", self.rows_a_sequence, 1, self.rows)?;
        within(operation, "key/value heads", self.g, 1, 1 << 10)?;
        within(operation, "query heads", self.h, self.g, 1 << 14)?;
        multiple(operation, "query heads", self.h, self.g)?;
        within(operation, "the width of a key", self.k, 2, HEAD_MAX)?;
        within(operation, "the width of a value", self.v, 1, HEAD_MAX)?;
        multiple(operation, "the width of a key", self.k, 2)?;
        multiple(operation, "the width of a value", self.v, cache.per_word())?;
        within(operation, "cache slots", self.slots, 1, 1 << 24)?;
        let sequences = self.rows.div_ceil(self.rows_a_sequence);
        indexable(
            operation,
            "the cache",
            &[sequences, self.slots, self.g, self.k.max(self.v)],
        )?;
        indexable(operation, "the projections", &[self.rows, self.projected()])
    }
}

/// `q' = rope(zcrms(q; q_norm))`, `k' = rope(zcrms(k; k_norm))`, cache slot ← `k'`, `v`; the norm over each head, the
/// rotation half-split: `[x₁, x₂] → [x₁ cos − x₂ sin, x₂ cos + x₁ sin]`.
pub struct Rope<B> {
    /// `[rows, stride]`: q at 0, k at `h·k`, v at `(h + g)·k`, read.
    pub qkv: B,
    /// `[k]` float32, read.
    pub q_norm: B,
    /// `[k]` float32, read.
    pub k_norm: B,
    /// `[positions, k]` float32: a position's cosines, then its sines, read.
    pub angles: B,
    /// One [`RowState`](crate::RowState) a row, read.
    pub state: B,
    /// `q': [rows, h, k]`, written.
    pub q: B,
    /// `k': [rows, g, k]`, written.
    pub k: B,
    /// `[sequences, slots, g, k]`, written at the rows' slots.
    pub k_cache: B,
    /// `[sequences, slots, g, v]`, written at the rows' slots.
    pub v_cache: B,
}

impl<B> Rope<B> {
    /// The launch for activations of `elem`, `stride` numbers a row, and a cache of `cache`: equal, or activations of
    /// float32. No two rows may share a slot.
    ///
    /// # Errors
    /// [`Unsupported`] for a shape or a pair of storages without a kernel.
    pub fn launch(self, elem: Elem, cache: Elem, shape: HeadsShape, stride: u32) -> Result<Launch<B>, Unsupported> {
        shape.check(OPERATION, cache)?;
        let HeadsShape {
            rows,
            rows_a_sequence,
            h,
            g,
            k,
            v,
            slots,
        } = shape;
        within(
            OPERATION,
            "the numbers of a row",
            stride,
            (h + g) * k + g * v,
            i32::MAX as u32,
        )?;
        indexable(OPERATION, "the projections", &[rows, stride])?;
        if elem != cache && elem != Elem::F32 {
            return Err(Unsupported {
                operation: OPERATION,
                what: "the width of a cached number",
                expected: format!("{} bytes, as the activations", elem.size_bytes()),
                found: cache.size_bytes() as u64,
            });
        }
        Ok(Launch {
            module: Module::Rope,
            kernel: format!("rope_{}_{}", elem.name(), cache.name()),
            grid: (rows, (h + 2 * g).div_ceil(SIMDS)),
            threads: SIMDS * SIMD,
            shared_bytes: floats(SIMDS * HEAD_MAX),
            args: vec![
                Arg::In(self.qkv),
                Arg::In(self.q_norm),
                Arg::In(self.k_norm),
                Arg::In(self.angles),
                Arg::In(self.state),
                Arg::Out(self.q),
                Arg::Out(self.k),
                Arg::InOut(self.k_cache),
                Arg::InOut(self.v_cache),
            ],
            params: Fields::new()
                .u32s(&[stride, h, g, k, v, slots, rows_a_sequence])
                .f32(EPSILON)
                .done(),
        })
    }
}
