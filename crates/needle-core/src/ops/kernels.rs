//! Which form the operations take on a device, with what the device has compiled for them.

use std::fmt;
#[cfg(feature = "metal")]
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::cpu_form_applies;

/// Which form an operation takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpForm {
    /// The fastest that a device has, wherever no gradient is asked for.
    #[default]
    Fused,
    /// The definitions in tensor operations, everywhere.
    Composed,
}

/// The operations of one device. Cheap to clone. The default knows no Metal device: there it composes.
#[derive(Clone, Default)]
pub struct Kernels {
    form: OpForm,
    #[cfg(feature = "metal")]
    pipelines: Option<Arc<needle_metal::Pipelines>>,
}

/// What one call of an operation runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// A kernel of the GPU.
    #[cfg(any(feature = "gpu", feature = "metal"))]
    Gpu,
    /// The CPU form.
    Cpu,
    /// The definition.
    Composed,
}

impl Kernels {
    /// The operations of a device, in one form.
    #[cfg_attr(not(feature = "metal"), allow(unused_variables))]
    pub fn of(device: &Device, form: OpForm) -> Self {
        Self {
            form,
            #[cfg(feature = "metal")]
            pipelines: match device {
                Device::Metal(device) => Some(Arc::new(needle_metal::Pipelines::new(device))),
                _ => None,
            },
        }
    }

    /// What an operation on these runs. A kernel carries no gradient.
    pub(super) fn choose(&self, inputs: &[&Tensor]) -> Choice {
        if self.form == OpForm::Composed {
            return Choice::Composed;
        }
        if cpu_form_applies(inputs) {
            return Choice::Cpu;
        }
        #[cfg(any(feature = "gpu", feature = "metal"))]
        if inputs
            .iter()
            .all(|x| !x.track_op() && x.dtype().is_float() && self.reaches(x.device()))
        {
            return Choice::Gpu;
        }
        Choice::Composed
    }

    #[cfg(any(feature = "gpu", feature = "metal"))]
    fn reaches(&self, device: &Device) -> bool {
        match device {
            Device::Cuda(_) => cfg!(feature = "gpu"),
            #[cfg(feature = "metal")]
            Device::Metal(_) => self.pipelines.is_some(),
            _ => false,
        }
    }

    /// What Metal has compiled.
    ///
    /// # Errors
    /// On another device.
    #[cfg(feature = "metal")]
    pub(super) fn pipelines(&self) -> candle_core::Result<&Arc<needle_metal::Pipelines>> {
        match &self.pipelines {
            Some(pipelines) => Ok(pipelines),
            None => candle_core::bail!("these operations are not Metal's"),
        }
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernels")
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

/// The storages of tensors, locked for reading.
#[cfg(any(feature = "gpu", feature = "metal"))]
pub(super) type Locked<'a> = (candle_core::StorageRef<'a>, &'a candle_core::Layout);

/// Tensors as the leaf for CUDA takes them.
#[cfg(feature = "gpu")]
pub(super) fn on_cuda<'a, const N: usize>(
    locked: &'a [Locked<'a>; N],
) -> candle_core::Result<[needle_cuda::In<'a>; N]> {
    let storage = |(storage, layout): &'a Locked<'a>| match &**storage {
        candle_core::Storage::Cuda(storage) => Ok((storage, *layout)),
        _ => candle_core::bail!("the operands of a kernel lie on one device"),
    };
    let operands = locked.iter().map(storage).collect::<candle_core::Result<Vec<_>>>()?;
    operands
        .try_into()
        .map_err(|_| candle_core::Error::Msg("an operand was lost".into()))
}

/// Tensors as the leaf for Metal takes them.
#[cfg(feature = "metal")]
pub(super) fn on_metal<'a, const N: usize>(
    locked: &'a [Locked<'a>; N],
) -> candle_core::Result<[needle_metal::In<'a>; N]> {
    let storage = |(storage, layout): &'a Locked<'a>| match &**storage {
        candle_core::Storage::Metal(storage) => Ok((storage, *layout)),
        _ => candle_core::bail!("the operands of a kernel lie on one device"),
    };
    let operands = locked.iter().map(storage).collect::<candle_core::Result<Vec<_>>>()?;
    operands
        .try_into()
        .map_err(|_| candle_core::Error::Msg("an operand was lost".into()))
}

/// What a kernel wrote, as a tensor without a gradient.
#[cfg(any(feature = "gpu", feature = "metal"))]
pub(super) fn made(storage: candle_core::Storage, shape: impl Into<candle_core::Shape>) -> Tensor {
    Tensor::from_storage(storage, shape, candle_core::op::BackpropOp::none(), false)
}
