//! A model where it runs best: on the engine for the CPU in float32, on tensors everywhere else.

use std::sync::Arc;

use candle_core::DType;

use crate::{
    checkpoint::Checkpoint,
    config::Config,
    cpu::{CpuModel, CpuOptions, CpuState, ProbeHead},
    device::Selected,
    error::Result,
    model::{Model, Window},
    ops::Mask,
    session::Session,
};

/// Immutable weights, ready to run.
#[derive(Clone, Debug)]
pub enum Runner {
    /// Packed or float weights on the engine for the CPU.
    Cpu(Arc<CpuModel>),
    /// Tensors on a device.
    Tensors(Arc<Model>),
}

impl Runner {
    /// Places a checkpoint's weights on a device, to compute in one type.
    ///
    /// # Errors
    /// As [`Model::load`] and [`CpuModel::load_with`].
    pub fn load(checkpoint: &Checkpoint, device: &Selected, dtype: DType, options: CpuOptions) -> Result<Self> {
        let Checkpoint { config, weights, .. } = checkpoint;
        if device.device.is_cpu() && dtype == DType::F32 {
            return Ok(Self::Cpu(Arc::new(CpuModel::load_with(config, weights, options)?)));
        }
        Ok(Self::Tensors(Arc::new(Model::load(
            config,
            weights,
            dtype,
            &device.device,
        )?)))
    }

    /// The geometry.
    pub fn config(&self) -> &Config {
        match self {
            Self::Cpu(model) => model.config(),
            Self::Tensors(model) => model.config(),
        }
    }

    /// The type it computes in.
    pub fn dtype(&self) -> DType {
        match self {
            Self::Cpu(_) => DType::F32,
            Self::Tensors(model) => model.dtype(),
        }
    }

    /// An empty sequence that keeps the last `window.size` positions and the first `window.sinks`.
    ///
    /// # Errors
    /// As [`Session::with_window`].
    pub fn session(&self, window: Window) -> Result<Session> {
        match self {
            Self::Cpu(model) => Session::on_cpu(model, window),
            Self::Tensors(model) => Session::with_window(model, window),
        }
    }

    /// Whether the weights carry a confidence head.
    pub fn has_confidence(&self) -> bool {
        match self {
            Self::Cpu(model) => model.has_head(ProbeHead::Confidence),
            Self::Tensors(model) => model.has_confidence(),
        }
    }

    /// Whether the weights carry a contrastive head.
    pub fn has_contrastive(&self) -> bool {
        match self {
            Self::Cpu(model) => model.has_head(ProbeHead::Contrastive),
            Self::Tensors(model) => model.has_contrastive(),
        }
    }

    /// The contrastive head's unit vector of a text; `None` where the weights have no such head.
    ///
    /// # Errors
    /// As [`Session::extend`].
    pub fn contrastive(&self, ids: &[u32]) -> Result<Option<Vec<f32>>> {
        match self {
            Self::Cpu(model) => verdict(model, ProbeHead::Contrastive, ids),
            Self::Tensors(model) => {
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
        match self {
            Self::Cpu(model) => {
                Ok(verdict(model, ProbeHead::Confidence, ids)?.and_then(|logit| logit.first().copied()))
            }
            Self::Tensors(model) => {
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
