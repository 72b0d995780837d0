//! What a run will do, known before it begins.

use serde::Serialize;

use crate::data::{Overlong, Spread};

/// Rows, lengths and steps of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Rows to learn from.
    pub rows: usize,
    /// Rows held out to judge by.
    pub held_out: usize,
    /// Ids of a row.
    pub tokens: Spread,
    /// Ids of all rows to learn from together, once.
    pub epoch_tokens: usize,
    /// Those of them that are scored.
    pub epoch_scored_tokens: usize,
    /// Rows whose completion loses its end.
    pub cut: Vec<Overlong>,
    /// Rows whose prompt alone is too long: they are left out.
    pub left_out: Vec<Overlong>,
    /// Rows a step.
    pub batch_size: usize,
    /// Times that every row is learnt from.
    pub epochs: usize,
    /// Steps of an epoch; the last may have fewer rows.
    pub steps_per_epoch: usize,
    /// Steps in all.
    pub steps: usize,
    /// Steps in which the learning rate rises.
    pub warmup_steps: usize,
    /// Matrices that the adapter changes.
    pub groups: usize,
    /// Numbers that are learnt.
    pub parameters: usize,
}

/// What a step of a run takes, found by taking one whose result is dropped.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Trial {
    /// One step.
    pub step_ms: f64,
    /// All steps of the run, by their ids.
    pub run_s: f64,
    /// The process's largest memory so far; `None` where the system does not tell.
    pub peak_ram_mb: Option<f64>,
}
