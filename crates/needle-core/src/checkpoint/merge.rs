//! Adapters put into the weights: `W [out, in] += scale·(A·B)ᵀ`.

use candle_core::{DType, Device};

use super::{Adapter, Checkpoint};
use crate::{
    error::{Error, Result},
    weights::{Dense, Weight},
};

impl Checkpoint {
    /// The same model with these adapters put into its weights, in order. A matrix that changes is kept as float32, also
    /// where it was packed: an archive is written from it by rounding once. Everything else stays as it is.
    ///
    /// # Errors
    /// [`Error::Format`] for an adapter of another number of layers, [`Error::Tensor`] for a product of another shape than the
    /// matrix, a matrix that the model does not have, or a sum that is not finite, [`Error::Unsupported`] for an adapter that
    /// adds rows to the embedding.
    pub fn with_adapters(&self, adapters: &[Adapter]) -> Result<Self> {
        let mut model = self.clone();
        for adapter in adapters {
            let (found, expected) = (adapter.num_layers, self.config.num_layers);
            if found != expected {
                let base = self.path.display();
                let reason = format!("the adapter is of {found} layers, {base} has {expected}");
                return Err(Error::format(&adapter.path, reason));
            }
            if adapter.rows.is_some() {
                return Err(Error::Unsupported(format!(
                    "{}: the adapter adds rows to the embedding, which a Needle 2 model cannot take",
                    adapter.path.display()
                )));
            }
            for (name, factors) in &adapter.pairs {
                let weight = model.weights.get(name).map_err(|error| error.in_file(&self.path))?;
                let changed = changed(weight, factors, adapter.scale).map_err(|fault| fault.of(adapter, name))?;
                model.weights.insert(name.clone(), changed);
            }
        }
        Ok(model)
    }
}

enum Fault {
    Reason(String),
    Other(Error),
}

impl Fault {
    fn of(self, adapter: &Adapter, name: &str) -> Error {
        match self {
            Self::Reason(reason) => Error::tensor(&adapter.path, name, reason),
            Self::Other(error) => error,
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

fn changed(weight: &Weight, (a, b): &(Dense, Dense), scale: f64) -> std::result::Result<Weight, Fault> {
    let shape = weight.shape();
    let (&[inputs, rank], &[rank_b, outputs]) = (&a.shape[..], &b.shape[..]) else {
        return Err(Fault::Reason(format!(
            "expected two matrices, found {:?} and {:?}",
            a.shape, b.shape
        )));
    };
    if shape != [outputs, inputs] || rank != rank_b {
        return Err(Fault::Reason(format!(
            "expected a product for the matrix {shape:?} [out, in], found A {:?} [in, rank] and B {:?} [rank, out]",
            a.shape, b.shape
        )));
    }
    let mut values = floats(weight)?;
    let (a, b) = (floats(&Weight::Dense(a.clone()))?, floats(&Weight::Dense(b.clone()))?);
    let mut sums = vec![0.0f32; inputs];
    for (output, row) in values.chunks_exact_mut(inputs).enumerate() {
        sums.fill(0.0);
        for r in 0..rank {
            let factor = b[r * outputs + output];
            for (sum, from) in sums.iter_mut().zip(a.iter().skip(r).step_by(rank)) {
                *sum += from * factor;
            }
        }
        for (value, sum) in row.iter_mut().zip(&sums) {
            *value += scale as f32 * sum;
        }
    }
    match values.iter().find(|value| !value.is_finite()) {
        None => Ok(Weight::Dense(Dense::from_f32(&values, &shape))),
        Some(value) => Err(Fault::Reason(format!("the sum with the base is {value}"))),
    }
}

/// Row-major float32 values.
fn floats(weight: &Weight) -> Result<Vec<f32>> {
    let tensor = weight.to_tensor(DType::F32, &Device::Cpu)?;
    Ok(tensor.flatten_all()?.to_vec1()?)
}
