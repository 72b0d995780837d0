//! The numbers that a run changes: an adapter's factors, or every weight.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};

use super::random::Random;
use crate::{
    checkpoint::Checkpoint,
    error::{Error, Result},
    lora::{AdapterShape, factor_names, targets},
};

/// Which numbers change.
#[derive(Clone, Debug, PartialEq)]
pub enum Trainable {
    /// The factors of an adapter on the attention's five projections, in every layer.
    Adapter(AdapterShape),
    /// Every weight of the model, probe heads excepted.
    Everything,
}

/// Named parameters in float32, in a fixed order.
#[derive(Debug)]
pub(super) struct Parameters {
    names: Vec<String>,
    vars: Vec<Var>,
    places: BTreeMap<String, usize>,
}

impl Parameters {
    /// The parameters of a run and their first values.
    pub(super) fn initial(checkpoint: &Checkpoint, trainable: &Trainable, seed: u64, device: &Device) -> Result<Self> {
        let mut named = vec![];
        match trainable {
            Trainable::Adapter(shape) => {
                shape.expect_valid()?;
                let mut random = Random::new(seed, 0);
                for (name, out, inner) in targets(checkpoint)? {
                    let rank = shape.rank;
                    let a = random.normal(1.0 / rank as f64, inner * rank);
                    let [a_name, b_name] = factor_names(&name);
                    named.push((a_name, Tensor::from_vec(a, (inner, rank), device)?));
                    named.push((b_name, Tensor::zeros((rank, out), DType::F32, device)?));
                }
            }
            Trainable::Everything => {
                for (name, weight) in checkpoint.weights.iter().filter(|(name, _)| trains(name)) {
                    named.push((name.to_owned(), weight.to_tensor(DType::F32, device)?));
                }
            }
        }
        Self::new(named)
    }

    pub(super) fn new(named: Vec<(String, Tensor)>) -> Result<Self> {
        let (names, tensors): (Vec<String>, Vec<Tensor>) = named.into_iter().unzip();
        if names.is_empty() {
            return Err(Error::Unsupported("the model has no weight to train".into()));
        }
        let vars = tensors
            .iter()
            .map(Var::from_tensor)
            .collect::<candle_core::Result<_>>()?;
        let places = names.iter().enumerate().map(|(at, name)| (name.clone(), at)).collect();
        Ok(Self { names, vars, places })
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn vars(&self) -> &[Var] {
        &self.vars
    }

    /// The parameter of this name, where it is one.
    pub(super) fn find(&self, name: &str) -> Option<&Var> {
        self.places.get(name).map(|&at| &self.vars[at])
    }

    /// Puts values in the parameters' places.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::Shape`].
    pub(super) fn set(&self, value: impl Fn(&str) -> Option<Tensor>) -> Result<()> {
        for (name, var) in self.names.iter().zip(&self.vars) {
            let value = value(name).ok_or_else(|| Error::MissingTensor { name: name.clone() })?;
            expect_shape(name, &value, var)?;
            var.set(&value.to_dtype(DType::F32)?.to_device(var.device())?.contiguous()?)?;
        }
        Ok(())
    }

    /// How many numbers change.
    pub(super) fn count(&self) -> usize {
        self.vars.iter().map(|var| var.elem_count()).sum()
    }
}

pub(super) fn expect_shape(name: &str, value: &Tensor, like: &Tensor) -> Result<()> {
    if value.dims() == like.dims() {
        return Ok(());
    }
    Err(Error::Shape {
        name: name.to_owned(),
        expected: like.dims().to_vec(),
        found: value.dims().to_vec(),
    })
}

/// Whether training everything changes this tensor: the heads and what belongs to the pre-training stay as they are.
pub(super) fn trains(name: &str) -> bool {
    !name.starts_with("heads.") && !name.starts_with("mtp.")
}
