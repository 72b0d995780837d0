//! Decode steps on CUDA.

use std::fmt;

use candle_core::{CudaDevice, Result, Tensor};
use needle_cuda::Weights;
use needle_kernels::{
    RowState,
    plan::{DecodePlan, Role},
};

use super::{Step, StepDevice, WeightBytes};

/// The weights on their device.
pub(super) struct Uploaded {
    device: CudaDevice,
    weights: Weights,
}

impl Uploaded {
    /// None yet.
    pub(super) fn to(device: &CudaDevice) -> Self {
        Self {
            device: device.clone(),
            weights: Weights::default(),
        }
    }
}

impl StepDevice for Uploaded {
    fn upload(&mut self, plan: &DecodePlan, bytes: WeightBytes<'_>) -> Result<()> {
        self.weights = Weights::upload(&self.device, plan, bytes)?;
        Ok(())
    }

    fn step(&self, plan: DecodePlan, tensors: &[(Role, Tensor)]) -> Result<Box<dyn Step>> {
        let step = needle_cuda::Step::new(&self.device, plan, &self.weights, tensors)?;
        Ok(Box::new(OnCuda(step)))
    }
}

struct OnCuda(needle_cuda::Step);

impl Step for OnCuda {
    fn run(&mut self, states: &[RowState]) -> Result<()> {
        self.0.run(states)
    }

    fn capture(&mut self) -> Result<()> {
        self.0.capture()
    }

    fn write(&mut self, role: Role, from: usize, bytes: &[u8]) -> Result<()> {
        self.0.write(role, from, bytes)
    }

    fn read(&mut self, role: Role) -> Result<Vec<u8>> {
        self.0.read(role)
    }
}

impl fmt::Debug for Uploaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uploaded")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for OnCuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnCuda")
            .field("captured", &self.0.is_captured())
            .finish_non_exhaustive()
    }
}
