//! Hyper-connections: reading one stream out of the lanes, deciding how to write and mix, and mixing.

use super::{EPSILON, SIMD, floats};
use crate::{
    error::{Unsupported, indexable, multiple, within},
    launch::{Arg, Fields, Launch, Params},
    storage::Elem,
    text::Module,
};

const OPERATION: &str = "lanes";
const LANES_MAX: u32 = 4;
/// Floats of all lanes together that fit into shared memory.
const FLOATS_MAX: u32 = 4096;
const FRONT_THREADS: u32 = 512;
const MIX_THREADS: u32 = 128;
/// Sinkhorn rounds, of rows and then columns.
const ROUNDS: u32 = 20;
/// Widest row at an engram site.
const RECALL_MAX: u32 = 1024;

/// Numbers that a row's lanes decide: `n` to read by, `n` to write by, `n·n` to mix by.
pub const fn mix_len(n: u32) -> u32 {
    n * (n + 2)
}

/// `rows` rows of `n` lanes of width `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanesShape {
    /// Rows of the pass.
    pub rows: u32,
    /// Lanes, 1 to 4.
    pub n: u32,
    /// Width of a lane; `n·d` is 4096 at most.
    pub d: u32,
}

impl LanesShape {
    pub(super) fn check(self) -> Result<(), Unsupported> {
        let Self { rows, n, d } = self;
        within(OPERATION, "rows", rows, 1, i32::MAX as u32)?;
        within(OPERATION, "the number of lanes", n, 1, LANES_MAX)?;
        within(OPERATION, "the width of a lane", d, 1, FLOATS_MAX / n)?;
        indexable(OPERATION, "the lanes", &[rows, n, d])
    }

    fn params(self, recall: Recall) -> Params {
        Fields::new()
            .u32(self.d)
            .u32(self.n)
            .f32(EPSILON)
            .u32(ROUNDS)
            .u32s(&[recall.ring, recall.dilation, recall.rows_a_sequence])
            .done()
    }
}

/// `u = Σ_i pre_i X_i`, and what the lanes decide: with `nx = X / sqrt(mean(X²) + ε)` over all lanes,
/// `pre = σ(a₀·nx·Φ_pre + b_pre)`, `post = 2σ(a₁·nx·Φ_post + b_post)`, `R = sinkhorn(a₂·nx·Φ_res + b_res)`.
pub struct LanesFront<B> {
    /// `[rows, n, d]`, read.
    pub x: B,
    /// `[n + n + n·n, n·d]`: the rows of `Φ_pre`, `Φ_post`, `Φ_res`, read.
    pub phi: B,
    /// `[n + n + n·n]` float32, the home lane's offsets added, read.
    pub bias: B,
    /// `[3]` float32, read.
    pub scale: B,
    /// `[rows, d]`, written.
    pub u: B,
    /// `[rows, n + n + n·n]` float32: pre, post, R, written.
    pub mix: B,
}

impl<B> LanesFront<B> {
    /// The launch for activations of `elem` and projections of `phi`: equal, or activations of float32.
    ///
    /// # Errors
    /// [`Unsupported`] for a shape or a pair of storages without a kernel.
    pub fn launch(self, elem: Elem, phi: Elem, shape: LanesShape) -> Result<Launch<B>, Unsupported> {
        check_phi(elem, phi, shape)?;
        Ok(Launch {
            module: Module::Lanes,
            kernel: format!("lanes_front_{}_{}", elem.name(), phi.name()),
            grid: (shape.rows, 1),
            threads: FRONT_THREADS,
            shared_bytes: front_shared(),
            args: vec![
                Arg::In(self.x),
                Arg::In(self.phi),
                Arg::In(self.bias),
                Arg::In(self.scale),
                Arg::Out(self.u),
                Arg::Out(self.mix),
            ],
            params: shape.params(Recall::NONE),
        })
    }
}

/// Where a pass finds the engram values of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall {
    /// Positions in the ring of values of one sequence.
    pub ring: u32,
    /// Positions between two taps.
    pub dilation: u32,
    /// Rows of the pass that belong to one sequence: 1 when decoding a batch.
    pub rows_a_sequence: u32,
}

impl Recall {
    const NONE: Self = Self {
        ring: 0,
        dilation: 0,
        rows_a_sequence: 1,
    };
}

/// [`LanesFront`] at an engram site: `x = u + α·Σ_j taps_j ∘ v_{t − j·dilation}`,
/// `α = σ(⟨rms_unit(u), rms_unit(key)⟩ / sqrt(d))`; float32 activations.
pub struct LanesRecall<B> {
    /// `[rows, n, d]`, read.
    pub x: B,
    /// As in [`LanesFront`], read.
    pub phi: B,
    /// As in [`LanesFront`], read.
    pub bias: B,
    /// As in [`LanesFront`], read.
    pub scale: B,
    /// `[rows, d]`, read.
    pub key: B,
    /// `[sequences, ring, d]`, position `p` at `p mod ring`, the rows' own values among them, read.
    pub values: B,
    /// `[4, d]`, read.
    pub taps: B,
    /// One [`RowState`](crate::RowState) a row, read.
    pub state: B,
    /// `[rows, d]`, written.
    pub y: B,
    /// As in [`LanesFront`], written.
    pub mix: B,
}

impl<B> LanesRecall<B> {
    /// The launch for projections of `phi`.
    ///
    /// # Errors
    /// [`Unsupported`] for a shape without a kernel, or a ring that the taps do not fit into.
    pub fn launch(self, phi: Elem, shape: LanesShape, recall: Recall) -> Result<Launch<B>, Unsupported> {
        check_phi(Elem::F32, phi, shape)?;
        within(OPERATION, "the width at an engram site", shape.d, 1, RECALL_MAX)?;
        within(OPERATION, "the dilation", recall.dilation, 1, 1 << 16)?;
        within(
            OPERATION,
            "the ring of values",
            recall.ring,
            3 * recall.dilation + 1,
            1 << 24,
        )?;
        within(
            OPERATION,
            "the rows of a sequence",
            recall.rows_a_sequence,
            1,
            shape.rows,
        )?;
        let sequences = shape.rows.div_ceil(recall.rows_a_sequence);
        indexable(OPERATION, "the ring of values", &[sequences, recall.ring, shape.d])?;
        Ok(Launch {
            module: Module::Lanes,
            kernel: format!("lanes_recall_{}", phi.name()),
            grid: (shape.rows, 1),
            threads: FRONT_THREADS,
            shared_bytes: front_shared() + floats(3 * FRONT_THREADS / SIMD),
            args: vec![
                Arg::In(self.x),
                Arg::In(self.phi),
                Arg::In(self.bias),
                Arg::In(self.scale),
                Arg::In(self.key),
                Arg::In(self.values),
                Arg::In(self.taps),
                Arg::In(self.state),
                Arg::Out(self.y),
                Arg::Out(self.mix),
            ],
            params: shape.params(recall),
        })
    }
}

/// `X_i ← Σ_j R_ij X_j + post_i·(y − Σ_j pre_j X_j)`, in place.
pub struct LanesMix<B> {
    /// `[rows, n, d]`, read and written.
    pub x: B,
    /// `[rows, d]`: the block's result, its input included, read.
    pub y: B,
    /// As [`LanesFront`] wrote it, read.
    pub mix: B,
}

impl<B> LanesMix<B> {
    /// The launch for activations of `elem`.
    ///
    /// # Errors
    /// [`Unsupported`] for a shape without a kernel.
    pub fn launch(self, elem: Elem, shape: LanesShape) -> Result<Launch<B>, Unsupported> {
        shape.check()?;
        Ok(Launch {
            module: Module::Lanes,
            kernel: format!("lanes_mix_{}", elem.name()),
            grid: (shape.rows, 1),
            threads: MIX_THREADS,
            shared_bytes: 0,
            args: vec![Arg::InOut(self.x), Arg::In(self.y), Arg::In(self.mix)],
            params: shape.params(Recall::NONE),
        })
    }
}

fn front_shared() -> u32 {
    floats(FLOATS_MAX + mix_len(LANES_MAX) + FRONT_THREADS / SIMD)
}

fn check_phi(elem: Elem, phi: Elem, shape: LanesShape) -> Result<(), Unsupported> {
    shape.check()?;
    multiple(OPERATION, "the width of all lanes", shape.n * shape.d, phi.per_word())?;
    if elem == phi || elem == Elem::F32 {
        return Ok(());
    }
    Err(Unsupported {
        operation: OPERATION,
        what: "the width of a projection's number",
        expected: format!("{} bytes, as the activations", elem.size_bytes()),
        found: phi.size_bytes() as u64,
    })
}
