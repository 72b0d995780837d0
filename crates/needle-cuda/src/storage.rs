//! From candle's storages to what a kernel takes.

use candle_core::{
    CudaDevice, CudaStorage, DType, Error, Layout, Result,
    backend::BackendStorage,
    bail,
    cuda_backend::{
        CudaStorageSlice,
        cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop},
    },
};
use needle_kernels::{Elem, Unsupported};

/// A tensor that is read.
pub type In<'a> = (&'a CudaStorage, &'a Layout);

/// The buffers that a launch uses. While it lives, cudarc knows that the stream uses them.
pub(crate) struct Uses<'a> {
    stream: &'a CudaStream,
    kept: Vec<SyncOnDrop<'a>>,
}

impl<'a> Uses<'a> {
    pub(crate) fn of(stream: &'a CudaStream) -> Self {
        Self {
            stream,
            kept: Vec::new(),
        }
    }

    /// The address of a contiguous tensor, of whatever storage.
    pub(crate) fn read(&mut self, tensor: In<'a>) -> Result<u64> {
        let (storage, layout) = tensor;
        let offset = start_bytes(storage, layout)?;
        let (address, used) = match &storage.slice {
            CudaStorageSlice::F32(slice) => slice.device_ptr(self.stream),
            CudaStorageSlice::BF16(slice) => slice.device_ptr(self.stream),
            CudaStorageSlice::F16(slice) => slice.device_ptr(self.stream),
            CudaStorageSlice::U32(slice) => slice.device_ptr(self.stream),
            CudaStorageSlice::U8(slice) => slice.device_ptr(self.stream),
            _ => bail!("a kernel takes no {:?}", storage.dtype()),
        };
        self.kept.push(used);
        aligned(address + offset)
    }

    /// The address of a contiguous tensor of this storage and so many elements.
    pub(crate) fn read_as(&mut self, tensor: In<'a>, elem: Elem, count: usize) -> Result<u64> {
        expect(tensor.0, tensor.1, elem, count)?;
        self.read(tensor)
    }

    /// The address of a contiguous float32 tensor of so many elements: norms, diagonals and the like.
    pub(crate) fn read_f32(&mut self, tensor: In<'a>, count: usize) -> Result<u64> {
        self.read_as(tensor, Elem::F32, count)
    }

    /// The address of a contiguous tensor of this storage and so many elements, which the kernel writes.
    pub(crate) fn write(
        &mut self,
        storage: &'a mut CudaStorage,
        layout: &Layout,
        elem: Elem,
        count: usize,
    ) -> Result<u64> {
        expect(storage, layout, elem, count)?;
        let offset = start_bytes(storage, layout)?;
        let (address, used) = match &mut storage.slice {
            CudaStorageSlice::F32(slice) => slice.device_ptr_mut(self.stream),
            CudaStorageSlice::BF16(slice) => slice.device_ptr_mut(self.stream),
            CudaStorageSlice::F16(slice) => slice.device_ptr_mut(self.stream),
            _ => bail!("a kernel writes f32, bf16 or f16"),
        };
        self.kept.push(used);
        aligned(address + offset)
    }

    /// The address of a result that [`empty`] made.
    pub(crate) fn fill(&mut self, storage: &'a mut CudaStorage) -> Result<u64> {
        let (elem, count) = (elem(storage)?, len(storage));
        self.write(storage, &Layout::contiguous(count), elem, count)
    }
}

/// Room for a result that a kernel writes whole.
pub(crate) fn empty(device: &CudaDevice, elem: Elem, count: usize) -> Result<CudaStorage> {
    // SAFETY: nothing reads the memory before the kernel has written all of it: the emulator's tests hold every kernel
    // whose output is made here to that.
    let slice = unsafe {
        match elem {
            Elem::F32 => CudaStorageSlice::F32(device.alloc(count)?),
            Elem::Bf16 => CudaStorageSlice::BF16(device.alloc(count)?),
            Elem::F16 => CudaStorageSlice::F16(device.alloc(count)?),
        }
    };
    Ok(CudaStorage {
        slice,
        device: device.clone(),
    })
}

/// The address of raw bytes, for launches whose order the stream alone keeps.
pub(crate) fn address(bytes: &CudaSlice<u8>, stream: &CudaStream) -> u64 {
    let (address, _use) = bytes.device_ptr(stream);
    address
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
pub(crate) fn elem(storage: &CudaStorage) -> Result<Elem> {
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

fn expect(storage: &CudaStorage, layout: &Layout, expected: Elem, count: usize) -> Result<()> {
    let (found, found_count) = (elem(storage)?, layout.shape().elem_count());
    if (found, found_count) != (expected, count) {
        bail!("a kernel takes {count} numbers of {expected:?} here, found {found_count} of {found:?}");
    }
    Ok(())
}

fn len(storage: &CudaStorage) -> usize {
    match &storage.slice {
        CudaStorageSlice::F32(slice) => slice.len(),
        CudaStorageSlice::BF16(slice) => slice.len(),
        CudaStorageSlice::F16(slice) => slice.len(),
        _ => 0,
    }
}

fn start_bytes(storage: &CudaStorage, layout: &Layout) -> Result<u64> {
    match layout.contiguous_offsets() {
        Some((start, _)) => Ok((start * storage.dtype().size_in_bytes()) as u64),
        None => bail!("a kernel takes contiguous tensors, found strides {:?}", layout.stride()),
    }
}

/// Kernels load words of four bytes, also from 16-bit tensors.
fn aligned(address: u64) -> Result<u64> {
    if !address.is_multiple_of(4) {
        bail!("a kernel takes tensors that begin at whole words");
    }
    Ok(address)
}
