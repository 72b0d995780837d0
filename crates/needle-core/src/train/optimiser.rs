//! Clipping and AdamW.
//!
//! `g ← g·min(1, 1/‖g‖)`; `m ← β₁m + (1−β₁)g`, `v ← β₂v + (1−β₂)g²`,
//! `p ← p − η·(m̂/(√v̂ + ε) + λp)` with `m̂ = m/(1−β₁ᵗ)`, `v̂ = v/(1−β₂ᵗ)`, `t` from 1.

use candle_core::{DType, Tensor, Var};

use crate::error::Result;

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;
const DECAY: f64 = 1e-4;
const LARGEST_NORM: f64 = 1.0;

/// Moments of every parameter, in the parameters' order, and the number of steps that made them.
#[derive(Debug)]
pub struct AdamW {
    step: usize,
    moments: Vec<Moments>,
}

/// `m` and `v` of one parameter.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    pub(super) first: Tensor,
    pub(super) second: Tensor,
}

impl AdamW {
    /// Moments of zero for these parameters.
    ///
    /// # Errors
    /// [`Error::Candle`](crate::Error::Candle) when the device refuses.
    pub fn new(parameters: &[Var]) -> Result<Self> {
        let zero = |var: &Var| {
            Ok(Moments {
                first: var.zeros_like()?,
                second: var.zeros_like()?,
            })
        };
        Ok(Self {
            step: 0,
            moments: parameters.iter().map(zero).collect::<Result<_>>()?,
        })
    }

    pub(super) fn restored(step: usize, moments: Vec<Moments>) -> Self {
        Self { step, moments }
    }

    pub(super) fn moments(&self) -> &[Moments] {
        &self.moments
    }

    /// Steps taken.
    pub fn steps(&self) -> usize {
        self.step
    }

    /// One step down `gradients`, clipped to a global norm of 1, with learning rate `rate`; returns their norm as it was.
    ///
    /// # Errors
    /// [`Error::Candle`](crate::Error::Candle) when the device refuses.
    pub fn update(&mut self, parameters: &[Var], gradients: &[Tensor], rate: f64) -> Result<f64> {
        let norm = global_norm(gradients)?;
        let shrink = if norm < LARGEST_NORM { 1.0 } else { LARGEST_NORM / norm };
        self.step += 1;
        let t = self.step as i32;
        let (first_share, second_share) = (1.0 - BETA1.powi(t), 1.0 - BETA2.powi(t));
        for ((var, gradient), moments) in parameters.iter().zip(gradients).zip(&mut self.moments) {
            let gradient = (gradient * shrink)?;
            moments.first = ((&moments.first * BETA1)? + (&gradient * (1.0 - BETA1))?)?;
            moments.second = ((&moments.second * BETA2)? + (gradient.sqr()? * (1.0 - BETA2))?)?;
            let direction = ((&moments.first / first_share)? / ((&moments.second / second_share)?.sqrt()? + EPSILON)?)?;
            let value = var.as_detached_tensor();
            let step = ((direction + (&value * DECAY)?)? * rate)?;
            var.set(&(value - step)?)?;
        }
        Ok(norm)
    }
}

/// `√Σg²` over all gradients.
fn global_norm(gradients: &[Tensor]) -> Result<f64> {
    let mut squares = 0.0;
    for gradient in gradients {
        let sum = gradient.to_dtype(DType::F32)?.sqr()?.sum_all()?;
        squares += f64::from(sum.to_scalar::<f32>()?);
    }
    Ok(squares.sqrt())
}
