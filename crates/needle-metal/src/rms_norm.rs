//! Zero-centred RMS norm.

use candle_core::{MetalStorage, Result, Shape};
use needle_kernels::ops::{RmsNorm, RmsNormAdd};

use crate::{
    Pipelines,
    launch::launch,
    storage::{In, Room, elem, read, read_as, read_f32, rows},
};

/// `(1 + s) ∘ x / sqrt(mean(x²) + ε)` over the last axis; `x: [.., d]`, `s: [d]` float32.
///
/// # Errors
/// When a tensor is of another shape or storage than the kernel takes, or the device refuses.
pub fn rms_norm(pipelines: &Pipelines, x: In<'_>, s: In<'_>) -> Result<(MetalStorage, Shape)> {
    let ((count, d), elem) = (rows(x.1)?, elem(x.0)?);
    let y = Room::new(pipelines.device(), elem, x.1.shape().elem_count())?;
    let op = RmsNorm {
        x: read(x)?,
        s: read_f32(s, d as usize)?,
        y: y.place(),
    };
    launch(pipelines, op.launch(elem, count, d))?;
    Ok((y.into_storage(pipelines.device()), x.1.shape().clone()))
}

/// `skip + gate·(1 + s) ∘ x / sqrt(mean(x²) + ε)`; `x`, `skip: [.., d]`, `s: [d]` and `gate: [1]` float32.
///
/// # Errors
/// As [`rms_norm`].
pub fn rms_norm_add(
    pipelines: &Pipelines,
    x: In<'_>,
    s: In<'_>,
    gate: In<'_>,
    skip: In<'_>,
) -> Result<(MetalStorage, Shape)> {
    let ((count, d), elem) = (rows(x.1)?, elem(x.0)?);
    let y = Room::new(pipelines.device(), elem, x.1.shape().elem_count())?;
    let op = RmsNormAdd {
        x: read(x)?,
        s: read_f32(s, d as usize)?,
        gate: read_f32(gate, 1)?,
        skip: read_as(skip, elem, x.1.shape().elem_count())?,
        y: y.place(),
    };
    launch(pipelines, op.launch(elem, count, d))?;
    Ok((y.into_storage(pipelines.device()), x.1.shape().clone()))
}
