//! Walsh-Hadamard MLP.

use candle_core::{MetalStorage, Result, Shape};
use needle_kernels::ops::{Hadamard, HadamardResidual, hadamard_size};

use crate::{
    Pipelines,
    launch::launch,
    storage::{In, Room, elem, read, read_f32, rows, unsupported},
};

/// `(d₃ ∘ H·silu(d₂ ∘ H·(d₁ ∘ x)))[..d]` over the last axis; `x: [.., d]`, the diagonals `[m]` float32.
///
/// # Errors
/// When a tensor is of another shape or storage than the kernels take, or the device refuses.
pub fn hadamard(pipelines: &Pipelines, x: In<'_>, diagonals: [In<'_>; 3]) -> Result<(MetalStorage, Shape)> {
    let ((count, d), elem) = (rows(x.1)?, elem(x.0)?);
    let m = hadamard_size(d).map_err(unsupported)? as usize;
    let y = Room::new(pipelines.device(), elem, x.1.shape().elem_count())?;
    let op = Hadamard {
        x: read(x)?,
        d1: read_f32(diagonals[0], m)?,
        d2: read_f32(diagonals[1], m)?,
        d3: read_f32(diagonals[2], m)?,
        y: y.place(),
    };
    launch(pipelines, op.launch(elem, count, d))?;
    Ok((y.into_storage(pipelines.device()), x.1.shape().clone()))
}

/// `x + mlp(zcrms(x; s))`; `x: [.., d]`, `s: [d]` and the diagonals `[m]` float32.
///
/// # Errors
/// As [`hadamard`].
pub fn hadamard_residual(
    pipelines: &Pipelines,
    x: In<'_>,
    s: In<'_>,
    diagonals: [In<'_>; 3],
) -> Result<(MetalStorage, Shape)> {
    let ((count, d), elem) = (rows(x.1)?, elem(x.0)?);
    let m = hadamard_size(d).map_err(unsupported)? as usize;
    let y = Room::new(pipelines.device(), elem, x.1.shape().elem_count())?;
    let op = HadamardResidual {
        x: read(x)?,
        s: read_f32(s, d as usize)?,
        d1: read_f32(diagonals[0], m)?,
        d2: read_f32(diagonals[1], m)?,
        d3: read_f32(diagonals[2], m)?,
        y: y.place(),
    };
    launch(pipelines, op.launch(elem, count, d))?;
    Ok((y.into_storage(pipelines.device()), x.1.shape().clone()))
}
