//! The second half of a layer.

use candle_core::{CudaStorage, Layout, Result, backend::BackendStorage};
use needle_kernels::ops::{BlockBack, hadamard_size, mix_len};

use crate::{
    lanes::lanes_shape,
    launch::launch,
    storage::{In, Uses, elem, unsupported},
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
pub fn block_back(lanes: &mut CudaStorage, layout: &Layout, inputs: BlockInputs<'_>) -> Result<()> {
    let device = lanes.device().clone();
    let stream = device.cuda_stream();
    let (shape, elem) = (lanes_shape(layout)?, elem(lanes)?);
    let (rows, d, m) = (
        shape.rows as usize,
        shape.d as usize,
        hadamard_size(shape.d).map_err(unsupported)? as usize,
    );
    let mut uses = Uses::of(&stream);
    let [d1, d2, d3] = inputs.diagonals;
    let op = BlockBack {
        lanes: uses.write(lanes, layout, elem, layout.shape().elem_count())?,
        x: uses.read_as(inputs.x, elem, rows * d)?,
        a: uses.read_as(inputs.a, elem, rows * d)?,
        post_norm: uses.read_f32(inputs.post_norm, d)?,
        gate: uses.read_f32(inputs.gate, 1)?,
        pre_norm: uses.read_f32(inputs.pre_norm, d)?,
        d1: uses.read_f32(d1, m)?,
        d2: uses.read_f32(d2, m)?,
        d3: uses.read_f32(d3, m)?,
        mix: uses.read_f32(inputs.mix, rows * mix_len(shape.n) as usize)?,
    };
    launch(&device, op.launch(elem, shape), uses)
}
