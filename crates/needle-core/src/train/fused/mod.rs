//! Loss and gradients on the CPU in float32, by hand: no graph, no tensor, few passes over memory.
//!
//! The same numbers as `network/`, which the tests hold it to. Matrix products are candle's (the `gemm` crate); everything else
//! treats some positions at a time with all that happens to them, in vector instructions chosen at run time. On the way back a
//! layer computes again what treats each position by itself and keeps only the results of the large products.
//!
//! | file | what |
//! | --- | --- |
//! | `pass` | all layers forward and back |
//! | `layer` | one layer: `rows` (each position by itself), `projection`, `attention`, `gate`, `lanes`, `engram` |
//! | `head` | logits of scored positions, cross-entropy |
//! | `places`, `factors` | where weights and adapters lie |
//! | `product`, `vector`, `norm`, `hadamard`, `sinkhorn` | arithmetic |

mod attention;
mod engram;
mod factors;
mod gate;
mod hadamard;
mod head;
mod lanes;
mod layer;
mod norm;
mod pass;
mod places;
mod product;
mod projection;
mod rows;
mod sinkhorn;
mod vector;

use std::sync::{Mutex, PoisonError};

use candle_core::{DType, Device, Tensor};

use self::{
    engram::Fetch,
    factors::FactorPlaces,
    pass::{Keep, Model, Scene, Workshop},
    places::{Places, Sizes},
};
use super::{
    Trainable,
    network::{Slope, engram_rows},
    options::Activations,
    packed::Packed,
    parameters::Parameters,
};
use crate::{
    checkpoint::Checkpoint,
    config::Config,
    error::{Error, Result},
};

/// A model on the CPU.
pub(super) struct Fused {
    config: Config,
    sizes: Sizes,
    places: Places,
    site_of: Vec<Option<usize>>,
    /// The frozen weights; empty when every weight is a parameter.
    weights: Vec<f32>,
    /// Places of an adapter's factors, and `α/rank`.
    factors: Option<(FactorPlaces, f32)>,
    keep: Keep,
    /// Buffers of the last pass, for the next one. Taken out while a pass runs.
    workshop: Mutex<Workshop>,
}

impl Fused {
    pub(super) fn new(checkpoint: &Checkpoint, trainable: &Trainable, activations: Activations) -> Result<Self> {
        let config = checkpoint.config.clone();
        let (sizes, places) = (Sizes::of(&config), Places::of(&config));
        let mut weights = vec![];
        let mut factors = None;
        if let Trainable::Adapter(shape) = trainable {
            factors = Some((
                FactorPlaces::of(config.num_layers, sizes, shape.rank),
                shape.scale() as f32,
            ));
            weights = vec![0.0; places.len];
            for (name, range) in &places.by_name {
                let values = checkpoint.weights.get(name)?.to_tensor(DType::F32, &Device::Cpu)?;
                let values = values.flatten_all()?.to_vec1::<f32>()?;
                if values.len() != range.len() {
                    return Err(Error::Shape {
                        name: name.clone(),
                        expected: vec![range.len()],
                        found: vec![values.len()],
                    });
                }
                weights[range.clone()].copy_from_slice(&values);
            }
        }
        let site = |l| config.engram.layers.iter().position(|&at| at == l);
        Ok(Self {
            site_of: (0..config.num_layers).map(site).collect(),
            sizes,
            places,
            weights,
            factors,
            keep: match activations {
                Activations::Automatic | Activations::Kept => Keep::Everything,
                Activations::Recomputed => Keep::Inputs,
            },
            workshop: Mutex::default(),
            config,
        })
    }

    /// The loss summed over the scored positions.
    pub(super) fn loss(&self, packed: &Packed, parameters: &Parameters) -> Result<f64> {
        let values = self.values(parameters)?;
        let mut workshop = self.take_workshop();
        let loss = self.model(&values).loss(&self.scene(packed), &mut workshop);
        self.put_back(workshop);
        Ok(loss)
    }

    /// The loss, and the gradients of `factor` times it.
    pub(super) fn slope(&self, packed: &Packed, parameters: &Parameters, factor: f64) -> Result<Slope> {
        let values = self.values(parameters)?;
        let mut gradient = vec![0.0; values.len()];
        let mut workshop = self.take_workshop();
        let model = self.model(&values);
        let loss = model.slope(
            &self.scene(packed),
            &mut workshop,
            self.keep,
            factor as f32,
            &mut gradient,
        );
        self.put_back(workshop);
        let mut gradients = vec![];
        for (name, var) in parameters.names().iter().zip(parameters.vars()) {
            let values = match &self.factors {
                Some((places, _)) => places.by_name.get(name).map(|place| place.load(&gradient)),
                None => self
                    .places
                    .by_name
                    .get(name)
                    .map(|range| gradient[range.clone()].to_vec()),
            };
            let values = values.ok_or_else(|| Error::MissingTensor { name: name.clone() })?;
            gradients.push(Tensor::from_vec(values, var.shape(), &Device::Cpu)?);
        }
        Ok(Slope { loss, gradients })
    }

    /// The parameters' values in their places.
    fn values(&self, parameters: &Parameters) -> Result<Vec<f32>> {
        let len = match &self.factors {
            Some((places, _)) => places.len,
            None => self.places.len,
        };
        let mut values = vec![0.0; len];
        for (name, var) in parameters.names().iter().zip(parameters.vars()) {
            let missing = || Error::MissingTensor { name: name.clone() };
            let value = var.flatten_all()?.to_vec1::<f32>()?;
            match &self.factors {
                Some((places, _)) => places.by_name.get(name).ok_or_else(missing)?.store(&mut values, &value),
                None => {
                    let range = self.places.by_name.get(name).ok_or_else(missing)?;
                    values[range.clone()].copy_from_slice(&value);
                }
            }
        }
        Ok(values)
    }

    fn model<'a>(&'a self, values: &'a [f32]) -> Model<'a> {
        let (weights, adapter) = match &self.factors {
            Some((places, scale)) => (&self.weights[..], Some((places, values, *scale))),
            None => (values, None),
        };
        Model {
            sizes: self.sizes,
            places: &self.places,
            weights,
            out_vocab: self.config.out_vocab,
            site_of: &self.site_of,
            adapter,
        }
    }

    fn scene<'a>(&self, packed: &'a Packed) -> Scene<'a> {
        let (rows, seen) = engram_rows(&self.config, packed);
        let longest = packed.places.iter().copied().max().unwrap_or(0) + 1;
        let (k, theta) = (self.config.qk_head_dim, self.config.rope_theta as f32);
        // In float32, as `ops::Rope` does.
        let frequency: Vec<f32> = (0..k / 2)
            .map(|i| 1.0 / theta.powf(2.0 * i as f32 / k as f32))
            .collect();
        let angles = || (0..longest).flat_map(|place| frequency.iter().map(move |frequency| place as f32 * frequency));
        Scene {
            ids: &packed.ids,
            scored: &packed.scored,
            targets: &packed.targets,
            texts: packed.texts(),
            fetch: Fetch {
                rows,
                seen,
                places: packed.places.clone(),
                dilation: self.config.engram_dilation(),
            },
            cos: angles().map(f32::cos).collect(),
            sin: angles().map(f32::sin).collect(),
        }
    }

    fn take_workshop(&self) -> Workshop {
        std::mem::take(&mut *self.workshop.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put_back(&self, workshop: Workshop) {
        *self.workshop.lock().unwrap_or_else(PoisonError::into_inner) = workshop;
    }
}
