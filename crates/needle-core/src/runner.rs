//! A model where it runs best: on the engine for the CPU in float32, on the engine for GPUs, on tensors everywhere else.

use std::sync::Arc;

use candle_core::DType;

use crate::{
    checkpoint::Checkpoint,
    config::Config,
    cpu::{CpuModel, CpuOptions, CpuState, ProbeHead},
    device::Selected,
    error::Result,
    gpu::{Decoding, GpuModel, GpuOptions, refusal},
    model::{Model, Window},
    ops::{Kernels, Mask},
    session::Session,
};

/// Immutable weights, ready to run.
#[derive(Clone, Debug)]
pub enum Runner {
    /// Packed or float weights on the engine for the CPU.
    Cpu(Arc<CpuModel>),
    /// Tensors on a GPU, with steps for decoding.
    Gpu(Arc<GpuModel>),
    /// Tensors on a device.
    Tensors {
        /// The weights.
        model: Arc<Model>,
        /// Why nothing faster was taken, where something is there.
        notice: Option<String>,
    },
}

/// The two ways of asking a model about a whole text.
enum View<'a> {
    Cpu(&'a Arc<CpuModel>),
    Tensors(&'a Model),
}

impl Runner {
    /// Places a checkpoint's weights on a device, to compute in one type.
    ///
    /// # Errors
    /// As [`Model::load`], [`CpuModel::load_with`] and [`GpuModel::load`].
    pub fn load(checkpoint: &Checkpoint, device: &Selected, dtype: DType, options: CpuOptions) -> Result<Self> {
        Self::load_with(checkpoint, device, dtype, options, GpuOptions::default())
    }

    /// The same, with a choice of how a GPU computes.
    ///
    /// # Errors
    /// As [`Runner::load`].
    pub fn load_with(
        checkpoint: &Checkpoint,
        device: &Selected,
        dtype: DType,
        cpu: CpuOptions,
        gpu: GpuOptions,
    ) -> Result<Self> {
        let Checkpoint { config, weights, .. } = checkpoint;
        let device = &device.device;
        if device.is_cpu() && dtype == DType::F32 {
            return Ok(Self::Cpu(Arc::new(CpuModel::load_with(config, weights, cpu)?)));
        }
        config.expect_runnable()?;
        let refusal = match gpu.decoding {
            Decoding::Steps if !device.is_cpu() => refusal(config, weights, dtype, gpu)?,
            _ => None,
        };
        if !device.is_cpu() && gpu.decoding == Decoding::Steps && refusal.is_none() {
            return Ok(Self::Gpu(Arc::new(GpuModel::load(
                config, weights, dtype, device, gpu,
            )?)));
        }
        let kernels = Kernels::of(device, gpu.ops);
        Ok(Self::Tensors {
            model: Arc::new(Model::load_with(config, weights, dtype, device, kernels)?),
            notice: refusal.map(|reason| format!("decoding on tensors, {reason}")),
        })
    }

    /// Why nothing faster was taken, where something is there.
    pub fn notice(&self) -> Option<&str> {
        match self {
            Self::Tensors { notice, .. } => notice.as_deref(),
            Self::Cpu(_) | Self::Gpu(_) => None,
        }
    }

    fn view(&self) -> View<'_> {
        match self {
            Self::Cpu(model) => View::Cpu(model),
            Self::Gpu(model) => View::Tensors(model.tensors()),
            Self::Tensors { model, .. } => View::Tensors(model),
        }
    }

    /// The geometry.
    pub fn config(&self) -> &Config {
        match self.view() {
            View::Cpu(model) => model.config(),
            View::Tensors(model) => model.config(),
        }
    }

    /// The type it computes in.
    pub fn dtype(&self) -> DType {
        match self.view() {
            View::Cpu(_) => DType::F32,
            View::Tensors(model) => model.dtype(),
        }
    }

    /// An empty sequence that keeps the last `window.size` positions and the first `window.sinks`.
    ///
    /// # Errors
    /// As [`Session::with_window`].
    pub fn session(&self, window: Window) -> Result<Session> {
        match self {
            Self::Cpu(model) => Session::on_cpu(model, window),
            Self::Gpu(model) => Session::on_gpu(model, window),
            Self::Tensors { model, .. } => Session::with_window(model, window),
        }
    }

    /// Whether the weights carry a confidence head.
    pub fn has_confidence(&self) -> bool {
        match self.view() {
            View::Cpu(model) => model.has_head(ProbeHead::Confidence),
            View::Tensors(model) => model.has_confidence(),
        }
    }

    /// Whether the weights carry a contrastive head.
    pub fn has_contrastive(&self) -> bool {
        match self.view() {
            View::Cpu(model) => model.has_head(ProbeHead::Contrastive),
            View::Tensors(model) => model.has_contrastive(),
        }
    }

    /// The contrastive head's unit vector of a text; `None` where the weights have no such head.
    ///
    /// # Errors
    /// As [`Session::extend`].
    pub fn contrastive(&self, ids: &[u32]) -> Result<Option<Vec<f32>>> {
        match self.view() {
            View::Cpu(model) => verdict(model, ProbeHead::Contrastive, ids),
            View::Tensors(model) => {
                let (rows, keep, mask) = alone(ids);
                let vector = model.contrastive(&rows, &keep, &mask)?;
                Ok(vector.map(|vector| vector.get(0)?.to_vec1()).transpose()?)
            }
        }
    }

    /// The confidence head's logit of a prompt with its completion; `None` where the weights have no such head.
    ///
    /// # Errors
    /// As [`Session::extend`].
    pub fn confidence(&self, ids: &[u32]) -> Result<Option<f32>> {
        match self.view() {
            View::Cpu(model) => {
                Ok(verdict(model, ProbeHead::Confidence, ids)?.and_then(|logit| logit.first().copied()))
            }
            View::Tensors(model) => {
                let (rows, keep, mask) = alone(ids);
                let logit = model.confidence(&rows, &keep, &mask)?;
                Ok(logit.map(|logit| logit.get(0)?.to_scalar()).transpose()?)
            }
        }
    }
}

/// A batch of one row without padding.
fn alone(ids: &[u32]) -> (Vec<Vec<u32>>, Vec<Vec<bool>>, Mask) {
    (vec![ids.to_vec()], vec![vec![true; ids.len()]], Mask::causal(ids.len()))
}

fn verdict(model: &Arc<CpuModel>, head: ProbeHead, ids: &[u32]) -> Result<Option<Vec<f32>>> {
    if !model.has_head(head) {
        return Ok(None);
    }
    let mut state = CpuState::new(
        model,
        Window {
            size: ids.len().max(1),
            sinks: 0,
        },
    )?;
    state.watch(head)?;
    state.absorb(ids)?;
    Ok(state.verdict())
}
