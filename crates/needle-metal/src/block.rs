//! The second half of a layer.

use candle_core::{Layout, MetalStorage, Result};
use needle_kernels::ops::{BlockBack, hadamard_size, mix_len};

use crate::{
    Pipelines,
    lanes::lanes_shape,
    launch::launch,
    storage::{In, elem, read, read_as, read_f32, unsupported},
};

/// What [`block_back`] reads besides the lanes: activations in their storage, weights and mix in float32.
pub struct BlockInputs<'a> {
    /// `[.., d]`: the block's input.
    pub x: In<'a>,
    /// `[.., d]`: the attention's output projection.
    pub a: In<'a>,
    /// `[d]`.
    pub post_norm: In<'a>,
    /// `[1]`, already squashed.
    pub gate: In<'a>,
    /// `[d]`.
    pub pre_norm: In<'a>,
    /// `[m]` each.
    pub diagonals: [In<'a>; 3],
    /// `[.., n + n + n·n]`: pre, post, R.
    pub mix: In<'a>,
}

/// `x ← x + gate·zcrms(a; post_norm)`; `x ← x + mlp(zcrms(x; pre_norm))`; `X_i ← Σ_j R_ij X_j + post_i·(x − Σ_j pre_j X_j)`
/// in place, `X: [.., n, d]`.
///
/// # Errors
/// When a tensor is of another shape or storage than the kernels take, or the device refuses.
pub fn block_back(
    pipelines: &Pipelines,
    lanes: &mut MetalStorage,
    layout: &Layout,
    inputs: BlockInputs<'_>,
) -> Result<()> {
    let (shape, elem) = (lanes_shape(layout)?, elem(lanes)?);
    let (rows, d, m) = (
        shape.rows as usize,
        shape.d as usize,
        hadamard_size(shape.d).map_err(unsupported)? as usize,
    );
    let [d1, d2, d3] = inputs.diagonals;
    let op = BlockBack {
        lanes: read((lanes, layout))?,
        x: read_as(inputs.x, elem, rows * d)?,
        a: read_as(inputs.a, elem, rows * d)?,
        post_norm: read_f32(inputs.post_norm, d)?,
        gate: read_f32(inputs.gate, 1)?,
        pre_norm: read_f32(inputs.pre_norm, d)?,
        d1: read_f32(d1, m)?,
        d2: read_f32(d2, m)?,
        d3: read_f32(d3, m)?,
        mix: read_f32(inputs.mix, rows * mix_len(shape.n) as usize)?,
    };
    launch(pipelines, op.launch(elem, shape))
}
