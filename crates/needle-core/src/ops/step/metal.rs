//! Decode steps on Metal.

use std::{fmt, sync::Arc};

use candle_core::{Result, Tensor, bail};
use needle_kernels::{
    RowState,
    plan::{DecodePlan, Role},
};
use needle_metal::{Pipelines, Weights};

use super::{Step, StepDevice, WeightBytes};

/// The weights on their device.
pub(super) struct Uploaded {
    pipelines: Arc<Pipelines>,
    weights: Weights,
}

impl Uploaded {
    /// None yet.
    pub(super) fn to(pipelines: &Arc<Pipelines>) -> Self {
        Self {
            pipelines: pipelines.clone(),
            weights: Weights::default(),
        }
    }
}

impl StepDevice for Uploaded {
    fn upload(&mut self, plan: &DecodePlan, bytes: WeightBytes<'_>) -> Result<()> {
        self.weights = Weights::upload(self.pipelines.device(), plan, bytes)?;
        Ok(())
    }

    fn step(&self, plan: DecodePlan, tensors: &[(Role, Tensor)]) -> Result<Box<dyn Step>> {
        let step = needle_metal::Step::new(&self.pipelines, plan, &self.weights, tensors)?;
        Ok(Box::new(OnMetal(step)))
    }
}

struct OnMetal(needle_metal::Step);

impl Step for OnMetal {
    fn run(&mut self, states: &[RowState]) -> Result<()> {
        self.0.run(states)
    }

    fn capture(&mut self) -> Result<()> {
        bail!("Metal has no graphs: its command buffers are encoded anew for each step")
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
            .field("device", self.pipelines.device())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for OnMetal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnMetal").finish_non_exhaustive()
    }
}
