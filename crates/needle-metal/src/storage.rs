//! From candle's storages to what a kernel takes.

use std::sync::Arc;

use candle_core::{DType, Error, Layout, MetalDevice, MetalStorage, Result, backend::BackendStorage, bail};
use candle_metal_kernels::metal::Buffer;
use needle_kernels::{Elem, Unsupported};

/// A tensor that is read.
pub type In<'a> = (&'a MetalStorage, &'a Layout);

/// A buffer of a launch, from a byte of it on.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) buffer: &'a Buffer,
    pub(crate) offset_bytes: usize,
}

/// A contiguous tensor, of whatever storage.
pub(crate) fn read(tensor: In<'_>) -> Result<Place<'_>> {
    let (storage, layout) = tensor;
    let Some((start, _)) = layout.contiguous_offsets() else {
        bail!("a kernel takes contiguous tensors, found strides {:?}", layout.stride());
    };
    let offset_bytes = start * storage.dtype().size_in_bytes();
    // Kernels load words of four bytes, also from 16-bit tensors.
    if !offset_bytes.is_multiple_of(4) {
        bail!("a kernel takes tensors that begin at whole words");
    }
    Ok(Place {
        buffer: storage.buffer(),
        offset_bytes,
    })
}

/// A contiguous tensor of this storage and so many elements, read or written.
pub(crate) fn read_as(tensor: In<'_>, expected: Elem, count: usize) -> Result<Place<'_>> {
    let (found, found_count) = (elem(tensor.0)?, tensor.1.shape().elem_count());
    if (found, found_count) != (expected, count) {
        bail!("a kernel takes {count} numbers of {expected:?} here, found {found_count} of {found:?}");
    }
    read(tensor)
}

/// A contiguous float32 tensor of so many elements: norms, diagonals and the like.
pub(crate) fn read_f32(tensor: In<'_>, count: usize) -> Result<Place<'_>> {
    read_as(tensor, Elem::F32, count)
}

/// Room for a result that a kernel writes whole.
pub(crate) struct Room {
    buffer: Arc<Buffer>,
    elem: Elem,
    count: usize,
}

impl Room {
    pub(crate) fn new(device: &MetalDevice, elem: Elem, count: usize) -> Result<Self> {
        let buffer = device.new_buffer(count, dtype(elem), "needle")?;
        Ok(Self { buffer, elem, count })
    }

    pub(crate) fn place(&self) -> Place<'_> {
        Place {
            buffer: &self.buffer,
            offset_bytes: 0,
        }
    }

    pub(crate) fn into_storage(self, device: &MetalDevice) -> MetalStorage {
        MetalStorage::new(self.buffer, device.clone(), self.count, dtype(self.elem))
    }
}

/// Rows and width of a tensor whose last axis is a row.
pub(crate) fn rows(layout: &Layout) -> Result<(u32, u32)> {
    let Some(&d) = layout.dims().last() else {
        bail!("a kernel takes rows, found a scalar")
    };
    let count = layout.shape().elem_count();
    if d == 0 || count == 0 {
        bail!("a kernel takes rows, found {:?}", layout.shape());
    }
    Ok((whole(count / d)?, whole(d)?))
}

pub(crate) fn whole(size: usize) -> Result<u32> {
    u32::try_from(size).map_err(|_| Error::Msg(format!("{size} elements are more than a kernel counts")))
}

/// The element type of activations.
pub(crate) fn elem(storage: &MetalStorage) -> Result<Elem> {
    match storage.dtype() {
        DType::F32 => Ok(Elem::F32),
        DType::BF16 => Ok(Elem::Bf16),
        DType::F16 => Ok(Elem::F16),
        other => bail!("a kernel takes f32, bf16 or f16, not {other:?}"),
    }
}

pub(crate) fn unsupported(error: Unsupported) -> Error {
    Error::wrap(error)
}

fn dtype(elem: Elem) -> DType {
    match elem {
        Elem::F32 => DType::F32,
        Elem::Bf16 => DType::BF16,
        Elem::F16 => DType::F16,
    }
}
