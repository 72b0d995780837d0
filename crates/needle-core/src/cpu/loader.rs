//! Hands out a checkpoint's tensors in the engine's forms.

use std::cell::RefCell;

use super::{Numerics, arena::Arena, floats, levels::Levels16, matrix::lines_of};
use crate::{
    error::{Error, Result},
    weights::{Weight, Weights},
};

pub(super) struct Loader<'a> {
    weights: &'a Weights,
    pub(super) numerics: Numerics,
    /// Codebooks met so far; all matrices of an archive share a few.
    codebooks: RefCell<Vec<(usize, [f32; 16], Levels16)>>,
    pub(super) arena: RefCell<Arena>,
}

impl<'a> Loader<'a> {
    /// # Errors
    /// [`Error::Unsupported`] when the system has no memory for the matrices.
    pub(super) fn new(weights: &'a Weights, numerics: Numerics) -> Result<Self> {
        let matrices = weights.iter().filter(|(_, weight)| weight.shape().len() == 2);
        let lines = matrices.map(|(_, weight)| lines_of(weight)).sum();
        let arena =
            Arena::new(lines).map_err(|error| Error::Unsupported(format!("memory for the weights: {error}")))?;
        Ok(Self {
            weights,
            numerics,
            codebooks: RefCell::default(),
            arena: arena.into(),
        })
    }

    /// The values of `name`, row-major, of exactly this shape.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::Shape`].
    pub(super) fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        Ok(match self.weight(name, shape)? {
            Weight::Dense(dense) => floats::values(dense),
            Weight::Packed(packed) => packed.dequantize(),
        })
    }

    /// The scales of a zero-centred norm as gains, `1 + s`.
    ///
    /// # Errors
    /// As [`Loader::floats`].
    pub(super) fn gains(&self, name: &str, len: usize) -> Result<Vec<f32>> {
        let mut gains = self.floats(name, &[len])?;
        gains.iter_mut().for_each(|scale| *scale += 1.0);
        Ok(gains)
    }

    /// One number.
    ///
    /// # Errors
    /// As [`Loader::floats`].
    pub(super) fn scalar(&self, name: &str) -> Result<f32> {
        Ok(self.floats(name, &[])?.first().copied().unwrap_or(0.0))
    }

    /// The weight `name`, of exactly this shape.
    ///
    /// # Errors
    /// As [`Loader::floats`].
    pub(super) fn weight(&self, name: &str, shape: &[usize]) -> Result<&'a Weight> {
        let weight = self.weights.get(name)?;
        if weight.shape() != shape {
            return Err(Error::Shape {
                name: name.to_owned(),
                expected: shape.to_vec(),
                found: weight.shape(),
            });
        }
        Ok(weight)
    }

    /// The shape of `name`, where the weights have it.
    pub(super) fn shape(&self, name: &str) -> Option<Vec<usize>> {
        Some(self.weights.find(name)?.shape())
    }

    /// The lines of all matrices.
    pub(super) fn into_arena(self) -> Arena {
        self.arena.into_inner()
    }

    /// A codebook in 16 bits.
    pub(super) fn levels16(&self, levels: &[f32; 16], group: usize) -> Levels16 {
        let mut known = self.codebooks.borrow_mut();
        if let Some((.., found)) = known.iter().find(|(g, l, _)| *g == group && l == levels) {
            return found.clone();
        }
        let found = Levels16::new(levels, group);
        known.push((group, *levels, found.clone()));
        found
    }
}
