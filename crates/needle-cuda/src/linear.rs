//! Products with packed weights, which stay packed.

use candle_core::{CudaStorage, Result, Shape, backend::BackendStorage};
use needle_kernels::{
    CodeBits, Format, Matrix,
    ops::{Linear, LinearShape},
};

use crate::{
    launch::launch,
    storage::{In, Uses, elem, empty, rows, whole},
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
pub fn packed_linear(x: In<'_>, weight: &PackedWeight<'_>) -> Result<(CudaStorage, Shape)> {
    let device = x.0.device().clone();
    let stream = device.cuda_stream();
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
    let mut y = empty(&device, elem, count as usize * weight.n_out)?;
    let mut uses = Uses::of(&stream);
    let op = Linear {
        x: uses.read(x)?,
        weight: Matrix::Packed {
            bits: weight.bits,
            group,
            codes: uses.read(weight.codes)?,
            norms: uses.read(weight.norms)?,
            levels: uses.read(weight.levels)?,
        },
        y: uses.fill(&mut y)?,
    };
    launch(&device, op.launch(elem, shape), uses)?;
    let mut dims = x.1.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = weight.n_out;
    }
    Ok((y, Shape::from(dims)))
}
