//! A decode step on a device: the launches of a plan, over weights that stay there.
//!
//! The leaf crates implement it on CUDA and Metal; tests implement it on needle-kernels' emulator, so that everything above
//! runs without a GPU.

#[cfg(feature = "gpu")]
mod cuda;
#[cfg(feature = "metal")]
mod metal;

use std::fmt;

use candle_core::{Device, Result, Tensor};
use needle_kernels::{
    RowState,
    plan::{BufferSpec, DecodePlan, Role},
};

use super::Kernels;

/// Gives the bytes of a weight as the plan's kernels read them.
pub type WeightBytes<'a> = &'a mut dyn FnMut(&BufferSpec) -> Result<Vec<u8>>;

/// Who runs decode steps: a device, or what stands in for one.
pub trait StepDevice: fmt::Debug + Send + Sync {
    /// Keeps every weight of a plan; later plans of the same model share them, whatever their batch and cache.
    ///
    /// # Errors
    /// What `bytes` gives, a weight of another size than the plan's, or the device's refusal.
    fn upload(&mut self, plan: &DecodePlan, bytes: WeightBytes<'_>) -> Result<()>;

    /// A step over the uploaded weights. The buffers of these roles lie in these tensors, which are read and written where
    /// they lie, in order with other work on them; the others are the step's own, and zero.
    ///
    /// # Errors
    /// When a weight is missing, a tensor does not fit, or the device refuses.
    fn step(&self, plan: DecodePlan, tensors: &[(Role, Tensor)]) -> Result<Box<dyn Step>>;
}

/// One step, to be run as often as there are tokens.
pub trait Step: fmt::Debug + Send + Sync {
    /// One token for every row.
    ///
    /// # Errors
    /// When `states` are not as many as the plan's rows, or the device refuses.
    fn run(&mut self, states: &[RowState]) -> Result<()>;

    /// Records the step, after its first run, so that later runs replay it in one go. Where this fails the step goes on
    /// launching its kernels one by one.
    ///
    /// # Errors
    /// Where the device cannot record, or refuses to.
    fn capture(&mut self) -> Result<()>;

    /// Overwrites a buffer of the step's own, from a byte of it on.
    ///
    /// # Errors
    /// When there is no such buffer, or the device refuses.
    fn write(&mut self, role: Role, from: usize, bytes: &[u8]) -> Result<()>;

    /// The bytes of a buffer of the step's own, once all earlier work is done.
    ///
    /// # Errors
    /// When there is no such buffer, or the device refuses.
    fn read(&mut self, role: Role) -> Result<Vec<u8>>;
}

/// Who runs decode steps on this device; `None` where nothing does.
#[allow(unused_variables)]
pub fn step_device(device: &Device, kernels: &Kernels) -> Option<Box<dyn StepDevice>> {
    match device {
        #[cfg(feature = "gpu")]
        Device::Cuda(device) => Some(Box::new(cuda::Uploaded::to(device))),
        #[cfg(feature = "metal")]
        Device::Metal(_) => Some(Box::new(metal::Uploaded::to(kernels.pipelines().ok()?))),
        _ => None,
    }
}
