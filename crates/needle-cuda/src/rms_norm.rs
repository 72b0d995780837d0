//! Zero-centred RMS norm.

use candle_core::{CudaStorage, Result, Shape, backend::BackendStorage};
use needle_kernels::ops::{RmsNorm, RmsNormAdd};

use crate::{
    launch::launch,
    storage::{In, Uses, elem, empty, rows},
};

/// `(1 + s) ∘ x / sqrt(mean(x²) + ε)` over the last axis; `x: [.., d]`, `s: [d]` float32.
///
/// # Errors
/// When a tensor is of another shape or storage than the kernel takes, or the device refuses.
pub fn rms_norm(x: In<'_>, s: In<'_>) -> Result<(CudaStorage, Shape)> {
    let device = x.0.device().clone();
    let stream = device.cuda_stream();
    let ((count, d), elem) = (rows(x.1)?, elem(x.0)?);
    let mut y = empty(&device, elem, x.1.shape().elem_count())?;
    let mut uses = Uses::of(&stream);
    let op = RmsNorm {
        x: uses.read(x)?,
        s: uses.read_f32(s, d as usize)?,
        y: uses.fill(&mut y)?,
    };
    launch(&device, op.launch(elem, count, d), uses)?;
    Ok((y, x.1.shape().clone()))
}

/// `skip + gate·(1 + s) ∘ x / sqrt(mean(x²) + ε)`; `x`, `skip: [.., d]`, `s: [d]` and `gate: [1]` float32.
///
/// # Errors
/// As [`rms_norm`].
pub fn rms_norm_add(x: In<'_>, s: In<'_>, gate: In<'_>, skip: In<'_>) -> Result<(CudaStorage, Shape)> {
    let device = x.0.device().clone();
    let stream = device.cuda_stream();
    let ((count, d), elem) = (rows(x.1)?, elem(x.0)?);
    let mut y = empty(&device, elem, x.1.shape().elem_count())?;
    let mut uses = Uses::of(&stream);
    let op = RmsNormAdd {
        x: uses.read(x)?,
        s: uses.read_f32(s, d as usize)?,
        gate: uses.read_f32(gate, 1)?,
        skip: uses.read_as(skip, elem, x.1.shape().elem_count())?,
        y: uses.fill(&mut y)?,
    };
    launch(&device, op.launch(elem, count, d), uses)?;
    Ok((y, x.1.shape().clone()))
}
