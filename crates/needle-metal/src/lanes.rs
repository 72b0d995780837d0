//! Hyper-connections.

use candle_core::{Layout, MetalStorage, Result};
use needle_kernels::{
    Elem,
    ops::{LanesFront, LanesMix, LanesShape, mix_len},
};

use crate::{
    Pipelines,
    launch::launch,
    storage::{In, Room, elem, read, read_as, read_f32, whole},
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
pub fn lanes_front(
    pipelines: &Pipelines,
    x: In<'_>,
    phi: In<'_>,
    bias: In<'_>,
    scale: In<'_>,
) -> Result<(MetalStorage, MetalStorage)> {
    let device = pipelines.device();
    let (shape, elem, phi_elem) = (lanes_shape(x.1)?, elem(x.0)?, elem(phi.0)?);
    let outs = mix_len(shape.n) as usize;
    let u = Room::new(device, elem, (shape.rows * shape.d) as usize)?;
    let mix = Room::new(device, Elem::F32, shape.rows as usize * outs)?;
    let op = LanesFront {
        x: read(x)?,
        phi: read_as(phi, phi_elem, outs * (shape.n * shape.d) as usize)?,
        bias: read_f32(bias, outs)?,
        scale: read_f32(scale, 3)?,
        u: u.place(),
        mix: mix.place(),
    };
    launch(pipelines, op.launch(elem, phi_elem, shape))?;
    Ok((u.into_storage(device), mix.into_storage(device)))
}

/// `X_i ← Σ_j R_ij X_j + post_i·(y − Σ_j pre_j X_j)` in place; `x: [.., n, d]`, `y: [.., d]` of the same storage, `mix` as
/// [`lanes_front`] gave it.
///
/// # Errors
/// As [`lanes_front`].
pub fn lanes_mix(pipelines: &Pipelines, x: &mut MetalStorage, layout: &Layout, y: In<'_>, mix: In<'_>) -> Result<()> {
    let (shape, elem) = (lanes_shape(layout)?, elem(x)?);
    let (rows, outs) = (shape.rows as usize, mix_len(shape.n) as usize);
    let op = LanesMix {
        x: read((x, layout))?,
        y: read_as(y, elem, rows * shape.d as usize)?,
        mix: read_f32(mix, rows * outs)?,
    };
    launch(pipelines, op.launch(elem, shape))
}
