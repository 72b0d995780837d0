//! Products with packed weights, which stay packed.

use candle_core::{MetalStorage, Result, Shape, backend::BackendStorage};
use needle_kernels::{
    CodeBits, Format, Matrix,
    ops::{Linear, LinearShape},
};

use crate::{
    Pipelines,
    launch::launch,
    storage::{In, Room, elem, read, rows, whole},
};

/// A packed matrix `[n_out, n_in]` on the device.
pub struct PackedWeight<'a> {
    /// Width of a code.
    pub bits: CodeBits,
    /// Columns that share a norm: 32, 64 or 128.
    pub group: usize,
    /// Rows.
    pub n_out: usize,
    /// Codes as bytes, row by row, padded to whole groups.
    pub codes: In<'a>,
    /// `[n_out, groups]` float16.
    pub norms: In<'a>,
    /// `[2^bits]` float32, by stored code.
    pub levels: In<'a>,
}

/// `y = x·Wᵀ`: `[.., n_in]` → `[.., n_out]`.
///
/// # Errors
/// When a tensor is of another shape or storage than the kernels take, or the device refuses.
pub fn packed_linear(pipelines: &Pipelines, x: In<'_>, weight: &PackedWeight<'_>) -> Result<(MetalStorage, Shape)> {
    let ((count, n_in), elem) = (rows(x.1)?, elem(x.0)?);
    let shape = LinearShape {
        rows: count,
        n_in,
        n_out: whole(weight.n_out)?,
    };
    let group = whole(weight.group)?;
    let format = Format::Packed {
        bits: weight.bits,
        group,
    };
    let held = |tensor: In<'_>| tensor.1.shape().elem_count() * tensor.0.dtype().size_in_bytes();
    let expected = [
        format.values_bytes(shape.n_out, n_in),
        format.norms_bytes(shape.n_out, n_in),
        format.levels_bytes(),
    ];
    let found = [held(weight.codes), held(weight.norms), held(weight.levels)];
    if found != expected {
        candle_core::bail!("packed weights: expected codes, norms and levels of {expected:?} bytes, found {found:?}");
    }
    let y = Room::new(pipelines.device(), elem, count as usize * weight.n_out)?;
    let op = Linear {
        x: read(x)?,
        weight: Matrix::Packed {
            bits: weight.bits,
            group,
            codes: read(weight.codes)?,
            norms: read(weight.norms)?,
            levels: read(weight.levels)?,
        },
        y: y.place(),
    };
    launch(pipelines, op.launch(elem, shape))?;
    let mut dims = x.1.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = weight.n_out;
    }
    Ok((y.into_storage(pipelines.device()), Shape::from(dims)))
}
