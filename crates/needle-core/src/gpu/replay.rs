//! A step that is recorded after its first run.

use needle_kernels::{
    RowState,
    plan::{Name, Role},
};

use super::Launching;
use crate::{error::Result, model::Window, ops::Step};

/// Whether a step has been recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Not tried: nothing has been decoded, or single launches were asked for.
    None,
    /// Steps are replayed.
    Replayed,
    /// The device did not; steps go on launching one by one.
    Refused {
        /// Why.
        reason: String,
    },
}

/// A step and how it is launched.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) step: Box<dyn Step>,
    launching: Launching,
    pub(super) recording: Recording,
}

impl Replay {
    pub(super) fn new(step: Box<dyn Step>, launching: Launching) -> Self {
        Self {
            step,
            launching,
            recording: Recording::None,
        }
    }

    /// Tells the step the last tokens of every row, for the engram's hashes.
    pub(super) fn remember(&mut self, history: &[u32]) -> Result<()> {
        let bytes: Vec<u8> = history.iter().flat_map(|token| token.to_ne_bytes()).collect();
        Ok(self.step.write(Role::of(Name::History, 0), 0, &bytes)?)
    }

    /// One token for every row.
    pub(super) fn run(&mut self, states: &[RowState]) -> Result<()> {
        self.step.run(states)?;
        if self.launching == Launching::Graph && self.recording == Recording::None {
            self.recording = match self.step.capture() {
                Ok(()) => Recording::Replayed,
                Err(error) => Recording::Refused {
                    reason: error.to_string(),
                },
            };
        }
        Ok(())
    }

    /// The logits of the last run, row after row.
    pub(super) fn logits(&mut self) -> Result<Vec<f32>> {
        let bytes = self.step.read(Role::of(Name::Logits, 0))?;
        let words = bytes.as_chunks::<4>().0;
        Ok(words.iter().map(|&word| f32::from_ne_bytes(word)).collect())
    }
}

/// What a step is told of a row that takes `token` at `position`.
pub(super) fn row_state(window: Window, position: usize, token: u32) -> RowState {
    RowState {
        token,
        position: position as u32,
        slot: window.slot(position) as u32,
        filled: (position + 1).min(window.capacity()) as u32,
    }
}
