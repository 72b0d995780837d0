//! What a training run is asked to do.

use super::Trainable;

/// The options of a run; [`TrainOptions::new`] gives the reference's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainOptions {
    /// Which numbers change.
    pub trainable: Trainable,
    /// The learning rate at the end of the warm-up.
    pub learning_rate: f64,
    /// Optimiser steps of the whole run: the schedule ends with them.
    pub total_steps: usize,
    /// Where the first values of an adapter come from.
    pub seed: u64,
    /// Positions that pass through the network together. A batch of more is cut into several passes whose gradients are
    /// added up; it changes the memory that a step takes, and its result by rounding only.
    pub tokens_at_once: usize,
    /// What a pass remembers of the layers on its way back.
    pub activations: Activations,
    /// How loss and gradients are computed.
    pub form: Form,
    /// What else makes a run the same run, as its caller sees it: a resumed one must have the same.
    pub data: String,
}

/// How loss and gradients are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By hand where there is such a form (the CPU in float32), else as [`Form::Composed`].
    Fused,
    /// In tensor operations with candle's gradients: every device, and what the fused form is tested against.
    Composed,
}

/// What a pass remembers between its way forward and its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activations {
    /// [`Activations::Kept`] where loss and gradients are computed by hand, which keeps little; else [`Activations::Recomputed`].
    Automatic,
    /// Everything that is dear to compute: the fastest. By hand 20 kB a layer and token of the published width, in tensor
    /// operations every intermediate result.
    Kept,
    /// Only what goes into each layer; the rest is computed a second time, which takes two fifths longer.
    Recomputed,
}

impl TrainOptions {
    /// Positions that pass together unless told otherwise.
    pub const TOKENS_AT_ONCE: usize = 1024;

    /// The reference's defaults for a run of `total_steps` steps.
    pub fn new(trainable: Trainable, total_steps: usize) -> Self {
        Self {
            trainable,
            learning_rate: 1e-4,
            total_steps,
            seed: 0,
            tokens_at_once: Self::TOKENS_AT_ONCE,
            activations: Activations::Automatic,
            form: Form::Fused,
            data: String::new(),
        }
    }
}
