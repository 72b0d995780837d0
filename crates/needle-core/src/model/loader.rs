//! Hands out a checkpoint's tensors in the model's type, on its device.

use candle_core::{DType, Device, Tensor};

use crate::{error::Result, ops::Kernels, weights::Weights};

pub(super) struct Loader<'a> {
    weights: &'a Weights,
    dtype: DType,
    device: &'a Device,
    kernels: Kernels,
}

impl<'a> Loader<'a> {
    pub(super) fn new(weights: &'a Weights, dtype: DType, device: &'a Device, kernels: Kernels) -> Self {
        Self {
            weights,
            dtype,
            device,
            kernels,
        }
    }

    /// The tensor `name` of exactly this shape, in the model's type.
    pub(super) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        self.weights.tensor(name, shape, self.dtype, self.device)
    }

    /// The same in float32, for the few numbers whose rounding would be felt.
    pub(super) fn float32(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        self.weights.tensor(name, shape, DType::F32, self.device)
    }

    /// The shape of `name`, where the weights have it.
    pub(super) fn shape(&self, name: &str) -> Option<Vec<usize>> {
        Some(self.weights.find(name)?.shape())
    }

    pub(super) fn device(&self) -> &Device {
        self.device
    }

    /// The forms of the operations.
    pub(super) fn kernels(&self) -> Kernels {
        self.kernels.clone()
    }
}
