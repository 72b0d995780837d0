//! A run on disk, so that it can go on: parameters, moments, the step, and the options it belongs to.

use std::{collections::BTreeMap, path::Path};

use candle_core::{DType, Device, Tensor};

use super::{
    Trainable, Trainer,
    optimiser::{AdamW, Moments},
    parameters::expect_shape,
};
use crate::{
    checkpoint::{Checkpoint, NamedTensors},
    error::{Error, Result},
};

const FORMAT: &str = "needle training state 1";

impl Trainer {
    /// Writes everything that [`Trainer::resume`] needs. The file appears at `path` only when it is complete.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be written.
    pub fn save_state(&self, path: &Path) -> Result<()> {
        let mut tensors = BTreeMap::new();
        let all = self.parameters.names().iter().zip(self.parameters.vars());
        for ((name, var), moments) in all.zip(self.optimiser.moments()) {
            tensors.insert(format!("value/{name}"), var.as_detached_tensor());
            tensors.insert(format!("first/{name}"), moments.first.clone());
            tensors.insert(format!("second/{name}"), moments.second.clone());
        }
        let mut metadata = self.identity();
        metadata.insert("step".into(), self.optimiser.steps().to_string());
        NamedTensors { tensors, metadata }.save(path)
    }

    /// Takes the place of the run whose state lies at `path`.
    pub(super) fn restore(&mut self, path: &Path) -> Result<()> {
        let NamedTensors { tensors, metadata } = NamedTensors::open(path)?;
        for (key, expected) in self.identity() {
            let found = metadata.get(&key).map_or("nothing", String::as_str);
            if found != expected {
                return Err(Error::format(
                    path,
                    format!("a run with another {key}: expected {expected}, found {found}"),
                ));
            }
        }
        let step = metadata.get("step").and_then(|step| step.parse().ok());
        let step = step.ok_or_else(|| Error::format(path, "expected a number of steps, found none"))?;
        let tensor = |kind: &str, name: &str| tensors.get(&format!("{kind}/{name}")).cloned();
        self.parameters
            .set(|name| tensor("value", name))
            .map_err(|error| error.in_file(path))?;
        let mut moments = vec![];
        for (name, var) in self.parameters.names().iter().zip(self.parameters.vars()) {
            let moment = |kind: &str| -> Result<Tensor> {
                let missing = || Error::tensor(path, format!("{kind}/{name}"), "missing");
                let tensor = tensor(kind, name).ok_or_else(missing)?;
                expect_shape(name, &tensor, var).map_err(|error| error.in_file(path))?;
                Ok(tensor.to_dtype(DType::F32)?.to_device(var.device())?)
            };
            moments.push(Moments {
                first: moment("first")?,
                second: moment("second")?,
            });
        }
        self.optimiser = AdamW::restored(step, moments);
        Ok(())
    }

    /// What must be equal for a run to be the same run.
    fn identity(&self) -> BTreeMap<String, String> {
        let options = &self.options;
        let trainable = match options.trainable {
            Trainable::Adapter(shape) => format!("adapter of rank {} and alpha {}", shape.rank, shape.alpha),
            Trainable::Everything => "every weight".to_owned(),
        };
        let entry = |key: &str, value: String| (key.to_owned(), value);
        BTreeMap::from([
            entry("format", FORMAT.to_owned()),
            entry("base", self.base_mark.clone()),
            entry("trainable", trainable),
            entry("learning_rate", options.learning_rate.to_string()),
            entry("total_steps", options.total_steps.to_string()),
            entry("seed", options.seed.to_string()),
            entry("data", options.data.clone()),
            entry("tokens_at_once", options.tokens_at_once.to_string()),
        ])
    }
}

/// Tensors of at most this many values go into a base's mark: norms and gates, which differ between any two trained models.
const SMALL: usize = 4096;

/// A text that tells a base from others: 64-bit FNV-1a over its geometry and its small tensors.
pub(super) fn mark(checkpoint: &Checkpoint) -> Result<String> {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    let mut take = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    };
    for (name, weight) in checkpoint.weights.iter() {
        let shape = weight.shape();
        take(format!("{name} {shape:?}").as_bytes());
        if shape.iter().product::<usize>() <= SMALL {
            let values = weight.to_tensor(DType::F32, &Device::Cpu)?.flatten_all()?;
            values
                .to_vec1::<f32>()?
                .iter()
                .for_each(|value| take(&value.to_le_bytes()));
        }
    }
    Ok(format!("{hash:016x}"))
}
