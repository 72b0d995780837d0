//! One sequence in progress: a shared model, what it remembers, and where it stands.
//!
//! Where the weights live decides how it computes: on tensors, on any device, or on the engine for the CPU or for GPUs. All give
//! the same answers; the tests hold one against the other.

use std::sync::Arc;

use crate::{
    config::Config,
    cpu::{CpuMark, CpuModel, CpuState},
    error::{Error, Result},
    gpu::{GpuMark, GpuModel, GpuState},
    model::{EngramMark, KvCache, Memory, Model, Window},
};

/// A sequence that grows token by token. Cheap to make; `Send`, one thread at a time.
#[derive(Debug)]
pub struct Session(Form);

#[derive(Debug)]
enum Form {
    Tensors { model: Arc<Model>, memory: Memory },
    Cpu(Box<CpuState>),
    Gpu(Box<GpuState>),
}

/// A place in a session to come back to.
#[derive(Clone, Debug)]
pub struct Mark(Place);

#[derive(Clone, Debug)]
enum Place {
    Tensors { position: usize, engram: EngramMark },
    Cpu(CpuMark),
    Gpu(GpuMark),
}

impl Mark {
    /// Tokens before it.
    pub fn position(&self) -> usize {
        match &self.0 {
            Place::Tensors { position, .. } => *position,
            Place::Cpu(mark) => mark.position(),
            Place::Gpu(mark) => mark.position(),
        }
    }
}

impl Session {
    /// An empty sequence with the model's own window and nothing pinned.
    ///
    /// # Errors
    /// [`Error::Candle`] when the device has no memory for the cache.
    pub fn new(model: &Arc<Model>) -> Result<Self> {
        let size = model.config().effective_kv_window();
        Self::with_window(model, Window { size, sinks: 0 })
    }

    /// An empty sequence that keeps the last `window.size` positions and the first `window.sinks`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a window of nothing, [`Error::Candle`] when the device has no memory for the cache.
    pub fn with_window(model: &Arc<Model>, window: Window) -> Result<Self> {
        if window.size == 0 {
            return Err(Error::Unsupported("a window keeps at least one position".into()));
        }
        let config = model.config();
        let cache = KvCache::new(config, window, model.dtype(), model.device())?;
        let reach = config.engram.orders.iter().max().map_or(0, |order| order - 1);
        let memory = Memory::new(cache, config.engram.layers.len(), reach);
        Ok(Self(Form::Tensors {
            model: model.clone(),
            memory,
        }))
    }

    /// An empty sequence on the engine for the CPU.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a window of nothing.
    pub fn on_cpu(model: &Arc<CpuModel>, window: Window) -> Result<Self> {
        Ok(Self(Form::Cpu(Box::new(CpuState::new(model, window)?))))
    }

    /// An empty sequence on the engine for GPUs.
    ///
    /// # Errors
    /// As [`GpuState::new`].
    pub fn on_gpu(model: &Arc<GpuModel>, window: Window) -> Result<Self> {
        Ok(Self(Form::Gpu(Box::new(GpuState::new(model, window)?))))
    }

    /// The sequence itself, where it is on the engine for GPUs: to see how it is launched, or to put it into a batch.
    pub fn gpu(&self) -> Option<&GpuState> {
        match &self.0 {
            Form::Gpu(state) => Some(state),
            Form::Tensors { .. } | Form::Cpu(_) => None,
        }
    }

    /// The model's geometry.
    pub fn config(&self) -> &Config {
        match &self.0 {
            Form::Tensors { model, .. } => model.config(),
            Form::Cpu(state) => state.model().config(),
            Form::Gpu(state) => state.config(),
        }
    }

    /// Tokens taken so far.
    pub fn position(&self) -> usize {
        match &self.0 {
            Form::Tensors { memory, .. } => memory.cache.position(),
            Form::Cpu(state) => state.position(),
            Form::Gpu(state) => state.position(),
        }
    }

    /// What is kept of the past.
    pub fn window(&self) -> Window {
        match &self.0 {
            Form::Tensors { memory, .. } => memory.cache.window(),
            Form::Cpu(state) => state.window(),
            Form::Gpu(state) => state.window(),
        }
    }

    /// Takes tokens and returns the logits `[V]` after the last of them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for no tokens or an id outside the vocabulary.
    pub fn extend(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        match &mut self.0 {
            Form::Cpu(state) => Ok(state.extend(tokens)?.to_vec()),
            Form::Gpu(state) => state.extend(tokens),
            Form::Tensors { model, memory } => {
                let x = model.extend(tokens, memory)?;
                let last = x.narrow(1, tokens.len() - 1, 1)?;
                let row = model.logits_f32(&last)?.pop();
                row.ok_or_else(|| Error::Unsupported("the model needs at least one token".into()))
            }
        }
    }

    /// Takes tokens and returns the logits `[T][V]` after each of them.
    ///
    /// # Errors
    /// As [`Session::extend`].
    pub fn extend_all(&mut self, tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        match &mut self.0 {
            Form::Cpu(state) => {
                let mut rows = Vec::with_capacity(tokens.len());
                state.extend_all(tokens, |_, row| rows.push(row.to_vec()))?;
                Ok(rows)
            }
            Form::Gpu(state) => state.extend_all(tokens),
            Form::Tensors { model, memory } => {
                let x = model.extend(tokens, memory)?;
                model.logits_f32(&x)
            }
        }
    }

    /// Takes tokens without asking for logits.
    ///
    /// # Errors
    /// As [`Session::extend`].
    pub fn absorb(&mut self, tokens: &[u32]) -> Result<()> {
        match &mut self.0 {
            Form::Cpu(state) => state.absorb(tokens),
            Form::Gpu(state) => state.absorb(tokens),
            Form::Tensors { model, memory } => model.extend(tokens, memory).map(drop),
        }
    }

    /// A place to come back to with [`Session::rewind`].
    pub fn mark(&self) -> Mark {
        Mark(match &self.0 {
            Form::Tensors { memory, .. } => Place::Tensors {
                position: memory.cache.position(),
                engram: memory.engram_mark(),
            },
            Form::Cpu(state) => Place::Cpu(state.mark()),
            Form::Gpu(state) => Place::Gpu(state.mark()),
        })
    }

    /// Forgets what came after a mark of this session.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the window has moved past what the mark saw, or for a mark of another kind of session.
    pub fn rewind(&mut self, mark: &Mark) -> Result<()> {
        match (&mut self.0, &mark.0) {
            (Form::Cpu(state), Place::Cpu(mark)) => state.rewind(mark),
            (Form::Gpu(state), Place::Gpu(mark)) => state.rewind(mark),
            (Form::Tensors { memory, .. }, Place::Tensors { position, engram }) => {
                if !memory.cache.can_rewind(*position) {
                    let from = memory.cache.position();
                    let what = format!("the window has moved: position {position} cannot be restored from {from}");
                    return Err(Error::Unsupported(what));
                }
                memory.cache.rewind(*position);
                memory.restore_engram(engram);
                Ok(())
            }
            _ => Err(Error::Unsupported("the mark is of another session".into())),
        }
    }

    /// A copy that goes its own way.
    ///
    /// # Errors
    /// [`Error::Candle`] when the device has no memory for it.
    pub fn fork(&self) -> Result<Self> {
        Ok(Self(match &self.0 {
            Form::Tensors { model, memory } => Form::Tensors {
                model: model.clone(),
                memory: memory.fork()?,
            },
            Form::Cpu(state) => Form::Cpu(Box::new(state.fork()?)),
            Form::Gpu(state) => Form::Gpu(Box::new(state.fork()?)),
        }))
    }
}
