//! Weights by name, wherever they are: parameters of the run, or frozen.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};

use super::frozen::frozen_linear;
use crate::{
    error::{Error, Result},
    lora::factor_names,
    ops,
    train::parameters::Parameters,
};

pub(super) struct View<'a> {
    pub(super) parameters: &'a Parameters,
    pub(super) frozen: &'a BTreeMap<String, Tensor>,
    /// The type of activations.
    pub(super) dtype: DType,
    /// `α/rank` of the adapter.
    pub(super) scale: f64,
}

impl View<'_> {
    /// The tensor of this name in the type of activations.
    pub(super) fn tensor(&self, name: &str) -> Result<Tensor> {
        if let Some(var) = self.parameters.find(name) {
            return Ok(var.to_dtype(self.dtype)?);
        }
        self.frozen
            .get(name)
            .cloned()
            .ok_or_else(|| Error::MissingTensor { name: name.to_owned() })
    }

    /// The same in float32.
    pub(super) fn float32(&self, name: &str) -> Result<Tensor> {
        match self.parameters.find(name) {
            Some(var) => Ok(var.as_tensor().clone()),
            None => Ok(self.tensor(name)?.to_dtype(DType::F32)?),
        }
    }

    /// `x·Wᵀ + s·(x·A)·B` with the matrix of this name, `x: [.., in]`; the second term where the run adapts it.
    pub(super) fn project(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let weight = self.tensor(name)?;
        let (out, inner) = weight.dims2()?;
        let mut shape = x.dims().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = out;
        }
        let x = x.reshape(((), inner))?;
        let y = match self.parameters.find(name) {
            Some(_) => ops::linear_composed(&x, &weight)?,
            None => frozen_linear(&x, &weight)?,
        };
        let [a, b] = factor_names(name);
        let y = match (self.parameters.find(&a), self.parameters.find(&b)) {
            (Some(a), Some(b)) => {
                let low = x.to_dtype(DType::F32)?.matmul(a)?.matmul(b)?;
                (y + (low * self.scale)?.to_dtype(self.dtype)?)?
            }
            _ => y,
        };
        Ok(y.reshape(shape)?)
    }
}
