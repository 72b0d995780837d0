//! A model on a GPU: tensors for prompts, a step's weights for tokens.

use std::sync::Arc;

use candle_core::{DType, Device};
use needle_kernels::plan::DecodePlan;

use super::{GpuOptions, blueprint::Blueprint, stored::Stored};
use crate::{
    config::Config,
    error::{Error, Result},
    model::Model,
    ops::{Kernels, StepDevice, step_device},
    weights::Weights,
};

/// Immutable weights on one device, twice: as tensors, and as the steps read them. Shared by any number of sequences.
#[derive(Debug)]
pub struct GpuModel {
    tensors: Arc<Model>,
    steps: Box<dyn StepDevice>,
    pub(super) blueprint: Blueprint,
    options: GpuOptions,
}

impl GpuModel {
    /// Places the weights on a GPU.
    ///
    /// # Errors
    /// As [`Model::load`], and [`Error::Unsupported`] for a device that runs no steps and a model without kernels.
    pub fn load(
        config: &Config,
        weights: &Weights,
        dtype: DType,
        device: &Device,
        options: GpuOptions,
    ) -> Result<Self> {
        let kernels = Kernels::of(device, options.ops);
        let Some(steps) = step_device(device, &kernels) else {
            return Err(Error::Unsupported(format!("{device:?} runs no decode steps")));
        };
        let tensors = Model::load_with(config, weights, dtype, device, kernels)?;
        Self::with_steps(Arc::new(tensors), weights, steps, options)
    }

    /// The same over tensors that are placed already, with whatever runs the steps; both must reach the same memory.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a model without kernels, [`Error::Candle`] when the device refuses.
    pub fn with_steps(
        tensors: Arc<Model>,
        weights: &Weights,
        mut steps: Box<dyn StepDevice>,
        options: GpuOptions,
    ) -> Result<Self> {
        let config = tensors.config();
        let blueprint = Blueprint::new(config, weights, tensors.dtype(), options.weights)?;
        let stored = Stored {
            config,
            weights,
            blueprint: &blueprint,
        };
        let plan = planned(&blueprint, 1, 1)?;
        steps.upload(&plan, &mut |spec| stored.bytes(spec).map_err(candle_core::Error::wrap))?;
        Ok(Self {
            tensors,
            steps,
            blueprint,
            options,
        })
    }

    /// The model on tensors.
    pub fn tensors(&self) -> &Arc<Model> {
        &self.tensors
    }

    /// The geometry.
    pub fn config(&self) -> &Config {
        self.tensors.config()
    }

    /// How it computes.
    pub fn options(&self) -> GpuOptions {
        self.options
    }

    /// What a step launches for so many sequences of so many cache slots.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for sizes that the kernels do not take.
    pub fn plan(&self, rows: usize, slots: usize) -> Result<DecodePlan> {
        planned(&self.blueprint, rows, slots)
    }

    pub(super) fn steps(&self) -> &dyn StepDevice {
        &*self.steps
    }
}

/// Why a model cannot decode in steps; `None` where it can.
///
/// # Errors
/// [`Error::MissingTensor`] when the weights do not fit the configuration.
pub fn refusal(config: &Config, weights: &Weights, dtype: DType, options: GpuOptions) -> Result<Option<String>> {
    let blueprint = Blueprint::new(config, weights, dtype, options.weights)?;
    Ok(blueprint.plan(1, 1).err().map(|unsupported| unsupported.to_string()))
}

fn planned(blueprint: &Blueprint, rows: usize, slots: usize) -> Result<DecodePlan> {
    let unsupported = |unsupported: needle_kernels::Unsupported| Error::Unsupported(unsupported.to_string());
    blueprint.plan(rows, slots).map_err(unsupported)
}
