//! One sequence on the engine.

use std::{
    borrow::{Borrow, BorrowMut},
    sync::Arc,
    time::Instant,
};

use super::{
    Numerics,
    heads::{Pooling, ProbeHead},
    memory::{EngramMemory, Memory},
    model::CpuModel,
    pass::{DESK_TOKENS, Work},
    stored::{CachePrecision, Stored},
    tools::Tools,
};
use crate::{
    error::{Error, Result},
    model::Window,
};

/// A sequence that grows token by token, with all its buffers. `Send`, one thread at a time.
#[derive(Debug)]
pub struct CpuState {
    model: Arc<CpuModel>,
    memory: Memory,
    work: Work,
    /// `[V]`, after the last token.
    logits: Vec<f32>,
}

/// A place in a sequence to come back to.
#[derive(Clone, Debug)]
pub struct CpuMark {
    position: usize,
    engram: EngramMemory,
    pooling: Option<Pooling>,
}

impl CpuMark {
    /// Tokens before it.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl CpuState {
    /// An empty sequence that keeps the last `window.size` positions and the first `window.sinks`. All memory it will need is
    /// set aside here; the system hands out the pages as they are used.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a window of nothing.
    pub fn new(model: &Arc<CpuModel>, window: Window) -> Result<Self> {
        let own = match model.options().numerics {
            Numerics::Exact => CachePrecision::Float,
            Numerics::Fast => CachePrecision::Half,
        };
        Self::with_precision(model, window, model.options().cache.unwrap_or(own))
    }

    /// The same with keys and values stored in another precision.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a window of nothing.
    pub fn with_precision(model: &Arc<CpuModel>, window: Window, precision: CachePrecision) -> Result<Self> {
        if window.size == 0 {
            return Err(Error::Unsupported("a window keeps at least one position".into()));
        }
        let memory = Memory::new(model, window, precision)?;
        Ok(Self {
            work: Work::new(model, memory.cache.blocks()),
            memory,
            logits: vec![0.0; model.config().vocab_size],
            model: model.clone(),
        })
    }

    /// The model.
    pub fn model(&self) -> &Arc<CpuModel> {
        &self.model
    }

    /// Tokens taken so far.
    pub fn position(&self) -> usize {
        self.memory.cache.position()
    }

    /// What is kept of the past.
    pub fn window(&self) -> Window {
        self.memory.cache.window()
    }

    /// The stored keys and values.
    pub(super) fn stored(&self) -> &Stored {
        &self.memory.cache.stored
    }

    pub(super) fn stored_mut(&mut self) -> &mut Stored {
        &mut self.memory.cache.stored
    }

    /// Logits `[V]` after the last token taken by [`CpuState::extend`] or [`decode_batch`].
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// Takes tokens and returns the logits `[V]` after the last of them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for no tokens or an id outside the vocabulary; nothing is taken then.
    pub fn extend(&mut self, tokens: &[u32]) -> Result<&[f32]> {
        expect_tokens(&self.model, tokens)?;
        let wanted = Wanted::Last(&mut self.logits);
        take(&self.model, &mut self.memory, &mut self.work, tokens, wanted);
        Ok(&self.logits)
    }

    /// Takes tokens and hands out the logits `[V]` after each of them, with the token's place in `tokens`.
    ///
    /// # Errors
    /// As [`CpuState::extend`].
    pub fn extend_all(&mut self, tokens: &[u32], mut each: impl FnMut(usize, &[f32])) -> Result<()> {
        expect_tokens(&self.model, tokens)?;
        take(
            &self.model,
            &mut self.memory,
            &mut self.work,
            tokens,
            Wanted::All(&mut each),
        );
        Ok(())
    }

    /// Takes tokens and hands out their hidden cells `[D]`, with the token's place in `tokens` and the depth: 0 for the scaled
    /// embedding, `l + 1` for the mean of the lanes after layer `l`.
    ///
    /// # Errors
    /// As [`CpuState::extend`].
    pub fn extend_cells(&mut self, tokens: &[u32], mut each: impl FnMut(usize, usize, &[f32])) -> Result<()> {
        expect_tokens(&self.model, tokens)?;
        take(
            &self.model,
            &mut self.memory,
            &mut self.work,
            tokens,
            Wanted::Cells(&mut each),
        );
        Ok(())
    }

    /// Takes tokens without asking for logits.
    ///
    /// # Errors
    /// As [`CpuState::extend`].
    pub fn absorb(&mut self, tokens: &[u32]) -> Result<()> {
        expect_tokens(&self.model, tokens)?;
        take(&self.model, &mut self.memory, &mut self.work, tokens, Wanted::Nothing);
        Ok(())
    }

    /// From now on pools what a probe head reads, forgetting what was pooled before.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the weights have no such head.
    pub fn watch(&mut self, head: ProbeHead) -> Result<()> {
        let Some(probes) = self.model.head(head) else {
            return Err(Error::Unsupported(format!("the weights have no {head:?} head")));
        };
        self.memory.pooling = Some(probes.pooling(head));
        Ok(())
    }

    /// What the watched head makes of all tokens taken since [`CpuState::watch`]: a logit, or a vector of length 1; `None`
    /// where none is watched or nothing was taken.
    pub fn verdict(&self) -> Option<Vec<f32>> {
        let pooling = self.memory.pooling.as_ref()?;
        self.model.head(pooling.head)?.read(self.model.isa, pooling)
    }

    /// A place to come back to with [`CpuState::rewind`].
    pub fn mark(&self) -> CpuMark {
        CpuMark {
            position: self.position(),
            engram: self.memory.engram.clone(),
            pooling: self.memory.pooling.clone(),
        }
    }

    /// Forgets what came after a mark of this sequence. [`CpuState::logits`] stay as they are.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the window has moved past what the mark saw.
    pub fn rewind(&mut self, mark: &CpuMark) -> Result<()> {
        if !self.memory.cache.can_rewind(mark.position) {
            let (to, from) = (mark.position, self.position());
            return Err(Error::Unsupported(format!(
                "the window has moved: position {to} cannot be restored from {from}"
            )));
        }
        self.memory.cache.rewind(mark.position);
        self.memory.engram.clone_from(&mark.engram);
        self.memory.pooling.clone_from(&mark.pooling);
        Ok(())
    }

    /// A copy that goes its own way.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the system has no room for it.
    pub fn fork(&self) -> Result<Self> {
        Ok(Self {
            model: self.model.clone(),
            memory: self.memory.fork(&self.model)?,
            work: Work::new(&self.model, self.memory.cache.blocks()),
            logits: self.logits.clone(),
        })
    }
}

/// Several sequences of one model take one token each; the weights are read once for all. The logits are then in each
/// state's [`CpuState::logits`], equal to the last bit to those of single steps.
///
/// # Errors
/// [`Error::Unsupported`] when the states are not of one model, their number is not that of the tokens, or an id is outside
/// the vocabulary; nothing is taken then.
pub fn decode_batch(states: &mut [&mut CpuState], tokens: &[u32]) -> Result<()> {
    if states.len() != tokens.len() {
        let (states, tokens) = (states.len(), tokens.len());
        return Err(Error::Unsupported(format!(
            "{states} states cannot take {tokens} tokens"
        )));
    }
    let Some(first) = states.first() else { return Ok(()) };
    let model = first.model.clone();
    if states.iter().any(|state| !Arc::ptr_eq(&state.model, &model)) {
        return Err(Error::Unsupported("the states of a batch must share one model".into()));
    }
    expect_tokens(&model, tokens)?;
    let blocks = states
        .iter()
        .map(|state| state.memory.cache.blocks())
        .max()
        .unwrap_or(0);
    timed(&model, tokens.len(), |tools| {
        let most = tools.hands.count() * DESK_TOKENS;
        for (states, tokens) in states.chunks_mut(most).zip(tokens.chunks(most)) {
            // The first state's buffers serve all; it gets them back below.
            let mut work = std::mem::take(&mut states[0].work);
            work.widen(blocks);
            work.run(&model, tools, states, tokens, tokens.iter().map(|_| 1), &mut None);
            work.logits(&model, tools, 0..tokens.len(), |i, row| {
                states[i].logits.copy_from_slice(row);
            });
            states[0].work = work;
        }
        tokens.len()
    });
    Ok(())
}

/// What is asked for while tokens are taken.
enum Wanted<'a> {
    Nothing,
    /// The logits after the last token.
    Last(&'a mut [f32]),
    /// The logits after each token, with its place.
    All(&'a mut dyn FnMut(usize, &[f32])),
    /// Every token's cells, with its place and the depth.
    Cells(&'a mut dyn FnMut(usize, usize, &[f32])),
}

/// Does some work over at most `positions` positions with as many threads as prove fastest; `work` gives the number of
/// positions that it did.
fn timed(model: &CpuModel, positions: usize, work: impl FnOnce(&Tools<'_>) -> usize) -> usize {
    let tuner = model.tuner(positions);
    let choice = tuner.choose();
    let start = Instant::now();
    let hands = model.crew.hands(choice.threads);
    let done = work(&model.tools(&hands));
    // Where another pass had the helpers, nothing was learnt.
    if hands.count() == choice.threads {
        tuner.note(choice, done, start.elapsed());
    }
    done
}

fn take(model: &CpuModel, memory: &mut Memory, work: &mut Work, tokens: &[u32], mut wanted: Wanted<'_>) {
    let mut taken = 0;
    while taken < tokens.len() {
        let left = &tokens[taken..];
        // Every part may have other hands than the one before.
        taken += timed(model, left.len(), |tools| {
            let room = memory.cache.room().min(tools.hands.count() * DESK_TOKENS);
            let part = &left[..left.len().min(room)];
            let (count, counts) = (part.len(), std::iter::once(part.len()));
            match &mut wanted {
                Wanted::Cells(each) => {
                    let mut placed = |token: usize, depth: usize, cell: &[f32]| each(taken + token, depth, cell);
                    work.run(model, tools, &mut [&mut *memory], part, counts, &mut Some(&mut placed));
                }
                _ => work.run(model, tools, &mut [&mut *memory], part, counts, &mut None),
            }
            match &mut wanted {
                Wanted::Last(logits) if count == left.len() => {
                    work.logits(model, tools, count - 1..count, |_, row| logits.copy_from_slice(row));
                }
                Wanted::All(each) => work.logits(model, tools, 0..count, |i, row| each(taken + i, row)),
                _ => {}
            }
            count
        });
    }
}

fn expect_tokens(model: &CpuModel, tokens: &[u32]) -> Result<()> {
    if tokens.is_empty() {
        return Err(Error::Unsupported("the model needs at least one token".into()));
    }
    let vocabulary = model.config().vocab_size;
    match tokens.iter().find(|&&id| id as usize >= vocabulary) {
        Some(id) => Err(Error::Unsupported(format!(
            "token id {id} is outside the vocabulary of {vocabulary}"
        ))),
        None => Ok(()),
    }
}

impl Borrow<Memory> for &mut CpuState {
    fn borrow(&self) -> &Memory {
        &self.memory
    }
}

impl BorrowMut<Memory> for &mut CpuState {
    fn borrow_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }
}
