//! Loss and gradients in tensor operations: every device, every type, the definition that the fused form is held to.
//!
//! A pass keeps what goes into each layer; on the way back each layer is computed again with its graph, so that only one
//! layer's intermediate results exist at a time.

mod frozen;
mod layer;
mod scene;
mod view;

pub(super) use scene::engram as engram_rows;

use std::collections::BTreeMap;

use candle_core::{D, DType, Device, Tensor, Var, backprop::GradStore};

use self::{frozen::frozen_linear, layer::layer, scene::Scene, view::View};
use super::{
    options::Activations,
    packed::Packed,
    parameters::{Parameters, trains},
};
use crate::{
    checkpoint::Checkpoint,
    config::{Config, ENGRAM_TAPS},
    error::Result,
    ops,
};

/// The frozen part of a model on one device.
pub(super) struct Network {
    config: Config,
    device: Device,
    dtype: DType,
    scale: f64,
    activations: Activations,
    frozen: BTreeMap<String, Tensor>,
}

/// A loss summed over positions, and its gradients in the parameters' order.
pub(super) struct Slope {
    pub(super) loss: f64,
    pub(super) gradients: Vec<Tensor>,
}

impl Network {
    /// Places everything that is no parameter on the device.
    pub(super) fn new(
        checkpoint: &Checkpoint,
        parameters: &Parameters,
        scale: f64,
        activations: Activations,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let mut frozen = BTreeMap::new();
        for (name, weight) in checkpoint.weights.iter() {
            if trains(name) && parameters.find(name).is_none() {
                frozen.insert(name.to_owned(), weight.to_tensor(dtype, device)?);
            }
        }
        Ok(Self {
            config: checkpoint.config.clone(),
            device: device.clone(),
            dtype,
            scale,
            activations,
            frozen,
        })
    }

    /// The loss summed over the scored positions.
    pub(super) fn loss(&self, packed: &Packed, parameters: &Parameters) -> Result<f64> {
        let (view, scene) = (self.view(parameters), self.scene(packed)?);
        let mut x = self.embed(&view, packed)?.detach();
        for l in 0..self.config.num_layers {
            x = layer(&view, &self.config, l, &x, &scene)?.detach();
        }
        self.sum(&self.score(&view, &x, packed)?)
    }

    /// The loss, and the gradients of `factor` times it.
    pub(super) fn slope(&self, packed: &Packed, parameters: &Parameters, factor: f64) -> Result<Slope> {
        let (view, scene) = (self.view(parameters), self.scene(packed)?);
        let mut totals: Vec<Option<Tensor>> = vec![None; parameters.vars().len()];
        let mut collect = |store: &GradStore| -> Result<()> {
            for (total, var) in totals.iter_mut().zip(parameters.vars()) {
                if let Some(gradient) = store.get(var) {
                    *total = Some(match total.take() {
                        Some(total) => (total + gradient.detach())?,
                        None => gradient.detach(),
                    });
                }
            }
            Ok(())
        };
        let x0 = self.embed(&view, packed)?;
        let layers = self.config.num_layers;
        let loss = match self.activations {
            Activations::Kept => {
                let mut x = x0;
                for l in 0..layers {
                    x = layer(&view, &self.config, l, &x, &scene)?;
                }
                let loss = self.score(&view, &x, packed)?;
                collect(&(&loss * factor)?.backward()?)?;
                self.sum(&loss)?
            }
            Activations::Automatic | Activations::Recomputed => {
                let mut inputs = Vec::with_capacity(layers);
                let mut x = x0.detach();
                for l in 0..layers {
                    inputs.push(x.clone());
                    x = layer(&view, &self.config, l, &x, &scene)?.detach();
                }
                let x = Var::from_tensor(&x)?;
                let loss = self.score(&view, &x, packed)?;
                let store = (&loss * factor)?.backward()?;
                collect(&store)?;
                let mut slope = gradient_of(&store, &x)?;
                for (l, input) in inputs.into_iter().enumerate().rev() {
                    let input = Var::from_tensor(&input)?;
                    let store = along(&layer(&view, &self.config, l, &input, &scene)?, &slope)?.backward()?;
                    collect(&store)?;
                    slope = gradient_of(&store, &input)?;
                }
                collect(&along(&x0, &slope)?.backward()?)?;
                self.sum(&loss)?
            }
        };
        let zeros = |(total, var): (Option<Tensor>, &Var)| Ok(total.map_or_else(|| var.zeros_like(), Ok)?);
        Ok(Slope {
            loss,
            gradients: totals
                .into_iter()
                .zip(parameters.vars())
                .map(zeros)
                .collect::<Result<_>>()?,
        })
    }

    fn view<'a>(&'a self, parameters: &'a Parameters) -> View<'a> {
        View {
            parameters,
            frozen: &self.frozen,
            dtype: self.dtype,
            scale: self.scale,
        }
    }

    fn scene(&self, packed: &Packed) -> Result<Scene> {
        Scene::new(&self.config, packed, ENGRAM_TAPS, self.dtype, &self.device)
    }

    /// The lanes as they start, `[1, T, N, D]`.
    fn embed(&self, view: &View<'_>, packed: &Packed) -> Result<Tensor> {
        let (d, n, t) = (self.config.d_model, self.config.mhc_lanes, packed.len());
        let ids = Tensor::new(&packed.ids[..], &self.device)?;
        let x0 = (view.tensor("embedding")?.index_select(&ids, 0)? * (d as f64).sqrt())?;
        Ok(x0.reshape((1, t, 1, d))?.broadcast_as((1, t, n, d))?.contiguous()?)
    }

    /// `Σ −log p(target)` over the scored positions, a scalar in float32.
    fn score(&self, view: &View<'_>, x: &Tensor, packed: &Packed) -> Result<Tensor> {
        let scored = Tensor::new(&packed.scored[..], &self.device)?;
        let x = x.mean(D::Minus2)?.squeeze(0)?.index_select(&scored, 0)?;
        let x = ops::rms_norm_composed(&x, &view.tensor("final_norm")?)?;
        let embedding = view.tensor("embedding")?.narrow(0, 0, self.config.out_vocab)?;
        let logits = match view.parameters.find("embedding") {
            Some(_) => ops::linear_composed(&x, &embedding)?,
            None => frozen_linear(&x, &embedding)?,
        };
        let log_p = candle_nn::ops::log_softmax(&logits.to_dtype(DType::F32)?, D::Minus1)?;
        let targets = Tensor::new(&packed.targets[..], &self.device)?.unsqueeze(1)?;
        Ok(log_p.gather(&targets, 1)?.sum_all()?.neg()?)
    }

    fn sum(&self, loss: &Tensor) -> Result<f64> {
        Ok(f64::from(loss.to_dtype(DType::F32)?.to_scalar::<f32>()?))
    }
}

/// A scalar whose gradient in `y` is `slope`.
fn along(y: &Tensor, slope: &Tensor) -> Result<Tensor> {
    Ok((y.to_dtype(DType::F32)? * slope.to_dtype(DType::F32)?)?.sum_all()?)
}

fn gradient_of(store: &GradStore, var: &Var) -> Result<Tensor> {
    Ok(match store.get(var) {
        // candle leaves the gradient of a variable attached to the graph of what it was made of.
        Some(gradient) => gradient.detach(),
        None => var.zeros_like()?,
    })
}
