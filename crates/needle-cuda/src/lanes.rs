//! Hyper-connections.

use candle_core::{CudaStorage, Layout, Result, backend::BackendStorage};
use needle_kernels::{
    Elem,
    ops::{LanesFront, LanesMix, LanesShape, mix_len},
};

use crate::{
    launch::launch,
    storage::{In, Uses, elem, empty, whole},
};

/// Shape of lanes `[.., n, d]`.
pub(crate) fn lanes_shape(layout: &Layout) -> Result<LanesShape> {
    match layout.dims() {
        [rows @ .., n, d] => Ok(LanesShape {
            rows: whole(rows.iter().product())?,
            n: whole(*n)?,
            d: whole(*d)?,
        }),
        other => candle_core::bail!("lanes are [.., n, d], found {other:?}"),
    }
}

/// What the lanes `x: [.., n, d]` read and decide: `u: [.., d]` in their storage, and `[.., n + n + n·n]` float32, pre,
/// post and R in a row. `phi: [n + n + n·n, n·d]`, `bias: [n + n + n·n]` and `scale: [3]` float32.
///
/// # Errors
/// When a tensor is of another shape or storage than the kernels take, or the device refuses.
pub fn lanes_front(x: In<'_>, phi: In<'_>, bias: In<'_>, scale: In<'_>) -> Result<(CudaStorage, CudaStorage)> {
    let device = x.0.device().clone();
    let stream = device.cuda_stream();
    let (shape, elem, phi_elem) = (lanes_shape(x.1)?, elem(x.0)?, elem(phi.0)?);
    let outs = mix_len(shape.n) as usize;
    let mut u = empty(&device, elem, (shape.rows * shape.d) as usize)?;
    let mut mix = empty(&device, Elem::F32, shape.rows as usize * outs)?;
    let mut uses = Uses::of(&stream);
    let op = LanesFront {
        x: uses.read(x)?,
        phi: uses.read_as(phi, phi_elem, outs * (shape.n * shape.d) as usize)?,
        bias: uses.read_f32(bias, outs)?,
        scale: uses.read_f32(scale, 3)?,
        u: uses.fill(&mut u)?,
        mix: uses.fill(&mut mix)?,
    };
    launch(&device, op.launch(elem, phi_elem, shape), uses)?;
    Ok((u, mix))
}

/// `X_i ← Σ_j R_ij X_j + post_i·(y − Σ_j pre_j X_j)` in place; `x: [.., n, d]`, `y: [.., d]` of the same storage, `mix` as
/// [`lanes_front`] gave it.
///
/// # Errors
/// As [`lanes_front`].
pub fn lanes_mix(x: &mut CudaStorage, layout: &Layout, y: In<'_>, mix: In<'_>) -> Result<()> {
    let device = x.device().clone();
    let stream = device.cuda_stream();
    let (shape, elem) = (lanes_shape(layout)?, elem(x)?);
    let (rows, outs) = (shape.rows as usize, mix_len(shape.n) as usize);
    let mut uses = Uses::of(&stream);
    let op = LanesMix {
        x: uses.write(x, layout, elem, layout.shape().elem_count())?,
        y: uses.read_as(y, elem, rows * shape.d as usize)?,
        mix: uses.read_f32(mix, rows * outs)?,
    };
    launch(&device, op.launch(elem, shape), uses)
}
