//! Several sequences that advance together, one token each a step.

use std::sync::Arc;

use candle_core::Tensor;
use needle_kernels::plan::{Name, Role};

use super::{
    GpuModel, GpuState, Recording,
    replay::{Replay, row_state},
};
use crate::{
    error::{Error, Result},
    model::Window,
};

/// Sequences of one model and one window whose steps read the weights once for all. `Send`, one thread at a time.
#[derive(Debug)]
pub struct GpuBatch {
    model: Arc<GpuModel>,
    window: Window,
    /// Tokens taken, row by row.
    positions: Vec<usize>,
    step: Replay,
}

impl GpuBatch {
    /// Rows that go on from where these sequences stand, on copies of what they remember.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for no sequences, or those of different models or windows; [`Error::Candle`] when the device
    /// has no memory for them.
    pub fn of(states: &[&GpuState]) -> Result<Self> {
        let Some(first) = states.first() else {
            return Err(Error::Unsupported("a batch needs at least one sequence".into()));
        };
        let (model, window) = (first.model().clone(), first.window());
        if states
            .iter()
            .any(|state| !Arc::ptr_eq(state.model(), &model) || state.window() != window)
        {
            return Err(Error::Unsupported(
                "the sequences of a batch share one model and one window".into(),
            ));
        }
        let mut tensors = Vec::new();
        for l in 0..model.config().num_layers {
            let layers: Vec<&(Tensor, Tensor)> = states.iter().map(|state| &state.memory.cache.layers()[l]).collect();
            let (keys, values): (Vec<&Tensor>, Vec<&Tensor>) = layers.iter().map(|(k, v)| (k, v)).unzip();
            tensors.push((Role::of(Name::KeyCache, l), joined(&keys)?));
            tensors.push((Role::of(Name::ValueCache, l), joined(&values)?));
        }
        let rings = states.iter().map(|state| state.wound()).collect::<Result<Vec<_>>>()?;
        for (i, (s, _)) in first.rings.iter().enumerate() {
            let site: Vec<&Tensor> = rings.iter().map(|rings| &rings[i].1).collect();
            tensors.push((Role::of(Name::EngramValues, *s), joined(&site)?));
        }
        let plan = model.plan(states.len(), window.capacity())?;
        let mut step = Replay::new(model.steps().step(plan, &tensors)?, model.options().launching);
        let history: Vec<u32> = states.iter().flat_map(|state| state.history()).collect();
        if !history.is_empty() {
            step.remember(&history)?;
        }
        Ok(Self {
            window,
            positions: states.iter().map(|state| state.position()).collect(),
            model,
            step,
        })
    }

    /// Every row takes one token; the logits `[rows][V]` after it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the tokens are not as many as the rows, an id is outside the vocabulary, or a row has
    /// come to the end of the angles; [`Error::Candle`] when the device refuses.
    pub fn step(&mut self, tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        let rows = self.positions.len();
        if tokens.len() != rows {
            let found = tokens.len();
            return Err(Error::Unsupported(format!("{rows} rows cannot take {found} tokens")));
        }
        self.model.tensors().expect_tokens(&[tokens])?;
        let end = self.model.blueprint.positions();
        if self.positions.iter().any(|&position| position >= end) {
            return Err(Error::Unsupported(format!(
                "a batch goes no further than {end} positions"
            )));
        }
        let rows = self.positions.iter().zip(tokens);
        let states: Vec<_> = rows
            .map(|(&position, &token)| row_state(self.window, position, token))
            .collect();
        self.step.run(&states)?;
        self.positions.iter_mut().for_each(|position| *position += 1);
        let logits = self.step.logits()?;
        Ok(logits
            .chunks_exact(self.model.config().vocab_size)
            .map(<[f32]>::to_vec)
            .collect())
    }

    /// Tokens taken so far, row by row.
    pub fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// Whether its steps are replayed.
    pub fn recording(&self) -> &Recording {
        &self.step.recording
    }
}

/// The tensors of single sequences as the rows of one, which shares no storage with them.
fn joined(rows: &[&Tensor]) -> Result<Tensor> {
    Ok(match rows {
        [one] => one.copy()?,
        rows => Tensor::cat(rows, 0)?,
    })
}
