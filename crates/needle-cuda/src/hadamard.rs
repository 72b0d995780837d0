//! Walsh-Hadamard MLP.

use candle_core::{CudaStorage, Result, Shape, backend::BackendStorage};
use needle_kernels::ops::{Hadamard, HadamardResidual, hadamard_size};

use crate::{
    launch::launch,
    storage::{In, Uses, elem, empty, rows, unsupported},
};

/// `(d₃ ∘ H·silu(d₂ ∘ H·(d₁ ∘ x)))[..d]` over the last axis; `x: [.., d]`, the diagonals `[m]` float32.
///
/// # Errors
/// When a tensor is of another shape or storage than the kernels take, or the device refuses.
pub fn hadamard(x: In<'_>, diagonals: [In<'_>; 3]) -> Result<(CudaStorage, Shape)> {
    let device = x.0.device().clone();
    let stream = device.cuda_stream();
    let ((count, d), elem) = (rows(x.1)?, elem(x.0)?);
    let m = hadamard_size(d).map_err(unsupported)? as usize;
    let mut y = empty(&device, elem, x.1.shape().elem_count())?;
    let mut uses = Uses::of(&stream);
    let op = Hadamard {
        x: uses.read(x)?,
        d1: uses.read_f32(diagonals[0], m)?,
        d2: uses.read_f32(diagonals[1], m)?,
        d3: uses.read_f32(diagonals[2], m)?,
        y: uses.fill(&mut y)?,
    };
    launch(&device, op.launch(elem, count, d), uses)?;
    Ok((y, x.1.shape().clone()))
}

/// `x + mlp(zcrms(x; s))`; `x: [.., d]`, `s: [d]` and the diagonals `[m]` float32.
///
/// # Errors
/// As [`hadamard`].
pub fn hadamard_residual(x: In<'_>, s: In<'_>, diagonals: [In<'_>; 3]) -> Result<(CudaStorage, Shape)> {
    let device = x.0.device().clone();
    let stream = device.cuda_stream();
    let ((count, d), elem) = (rows(x.1)?, elem(x.0)?);
    let m = hadamard_size(d).map_err(unsupported)? as usize;
    let mut y = empty(&device, elem, x.1.shape().elem_count())?;
    let mut uses = Uses::of(&stream);
    let op = HadamardResidual {
        x: uses.read(x)?,
        s: uses.read_f32(s, d as usize)?,
        d1: uses.read_f32(diagonals[0], m)?,
        d2: uses.read_f32(diagonals[1], m)?,
        d3: uses.read_f32(diagonals[2], m)?,
        y: uses.fill(&mut y)?,
    };
    launch(&device, op.launch(elem, count, d), uses)?;
    Ok((y, x.1.shape().clone()))
}
