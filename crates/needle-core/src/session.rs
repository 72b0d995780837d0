//! One sequence in progress: a shared model, what it remembers, and where it stands.

use std::sync::Arc;

use candle_core::{DType, Tensor};

use crate::{
    error::{Error, Result},
    model::{EngramMark, KvCache, Memory, Model, Window},
};

/// A sequence that grows token by token. Cheap to make; `Send`, one thread at a time.
#[derive(Debug)]
pub struct Session {
    model: Arc<Model>,
    memory: Memory,
}

/// A place in a session to come back to.
#[derive(Clone, Debug)]
pub struct Mark {
    position: usize,
    engram: EngramMark,
}

impl Mark {
    /// Tokens before it.
    pub fn position(&self) -> usize {
        self.position
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
        Ok(Self {
            model: model.clone(),
            memory,
        })
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
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

    /// Takes tokens and returns the logits `[V]` after the last of them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for no tokens or an id outside the vocabulary.
    pub fn extend(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let x = self.model.extend(tokens, &mut self.memory)?;
        let last = x.narrow(1, tokens.len() - 1, 1)?;
        self.logits(&last)?
            .pop()
            .ok_or_else(|| Error::Unsupported("the model needs at least one token".into()))
    }

    /// Takes tokens and returns the logits `[T][V]` after each of them.
    ///
    /// # Errors
    /// As [`Session::extend`].
    pub fn extend_all(&mut self, tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        let x = self.model.extend(tokens, &mut self.memory)?;
        self.logits(&x)
    }

    /// A place to come back to with [`Session::rewind`].
    pub fn mark(&self) -> Mark {
        Mark {
            position: self.position(),
            engram: self.memory.engram_mark(),
        }
    }

    /// Forgets what came after a mark of this session.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the window has moved past what the mark saw.
    pub fn rewind(&mut self, mark: &Mark) -> Result<()> {
        if !self.memory.cache.can_rewind(mark.position) {
            let (to, from) = (mark.position, self.position());
            return Err(Error::Unsupported(format!(
                "the window has moved: position {to} cannot be restored from {from}"
            )));
        }
        self.memory.cache.rewind(mark.position);
        self.memory.restore_engram(&mark.engram);
        Ok(())
    }

    /// A copy that goes its own way.
    ///
    /// # Errors
    /// [`Error::Candle`] when the device has no memory for it.
    pub fn fork(&self) -> Result<Self> {
        Ok(Self {
            model: self.model.clone(),
            memory: self.memory.fork()?,
        })
    }

    fn logits(&self, x: &Tensor) -> Result<Vec<Vec<f32>>> {
        Ok(self.model.logits(x)?.squeeze(0)?.to_dtype(DType::F32)?.to_vec2()?)
    }
}
