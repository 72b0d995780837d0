//! One sequence on a GPU.

use std::sync::Arc;

use candle_core::{DType, Tensor};
use needle_kernels::plan::{Name, Role};

use super::{
    GpuModel, Recording,
    replay::{Replay, row_state},
    rings::{history, unwound, wound},
};
use crate::{
    config::Config,
    error::{Error, Result},
    model::{EngramMark, KvCache, Memory, Window},
    ops::Step,
};

/// So many tokens together are taken by steps; more go through a pass on tensors, which costs some hundred launches whatever
/// its length. An estimate, to be measured.
const STEPPED: usize = 8;

/// A sequence that grows token by token. `Send`, one thread at a time.
#[derive(Debug)]
pub struct GpuState {
    pub(super) model: Arc<GpuModel>,
    pub(super) memory: Memory,
    /// Of each engram site that a layer has: its number, and its last values for the steps.
    pub(super) rings: Vec<(usize, Tensor)>,
    engram: Engram,
    step: Option<Replay>,
}

/// Which form of the engram's last values is the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engram {
    Ordered,
    Rings,
}

/// A place in a sequence to come back to.
#[derive(Clone, Debug)]
pub struct GpuMark {
    position: usize,
    /// `Err` where the device had no room for it.
    engram: std::result::Result<EngramMark, String>,
}

impl GpuMark {
    /// Tokens before it.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl GpuState {
    /// An empty sequence that keeps the last `window.size` positions and the first `window.sinks`. Its whole cache is set
    /// aside here.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a window of nothing, or one that the kernels do not reach; [`Error::Candle`] when the
    /// device has no memory for it.
    pub fn new(model: &Arc<GpuModel>, window: Window) -> Result<Self> {
        if window.size == 0 {
            return Err(Error::Unsupported("a window keeps at least one position".into()));
        }
        let plan = model.plan(1, window.capacity())?;
        let (config, tensors) = (model.config(), model.tensors());
        let cache = KvCache::whole(config, window, tensors.dtype(), tensors.device())?;
        let sites = config.engram.layers.len();
        let ring = model
            .blueprint
            .engram()
            .map_or(0, |engram| engram.value_ring() as usize);
        let has_ring = |s: &usize| plan.buffer(Role::of(Name::EngramValues, *s)).is_some();
        let zeros = |s| {
            Ok((
                s,
                Tensor::zeros((1, ring, config.d_model), DType::F32, tensors.device())?,
            ))
        };
        let rings = (0..sites).filter(has_ring).map(zeros).collect::<Result<_>>()?;
        Ok(Self {
            model: model.clone(),
            memory: Memory::new(cache, sites, config.engram_dilation() - 1),
            rings,
            engram: Engram::Ordered,
            step: None,
        })
    }

    /// The model.
    pub fn model(&self) -> &Arc<GpuModel> {
        &self.model
    }

    /// The geometry.
    pub fn config(&self) -> &Config {
        self.model.config()
    }

    /// Tokens taken so far.
    pub fn position(&self) -> usize {
        self.memory.cache.position()
    }

    /// What is kept of the past.
    pub fn window(&self) -> Window {
        self.memory.cache.window()
    }

    /// Whether its steps are replayed.
    pub fn recording(&self) -> Recording {
        self.step
            .as_ref()
            .map_or(Recording::None, |step| step.recording.clone())
    }

    /// Takes tokens and returns the logits `[V]` after the last of them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for no tokens or an id outside the vocabulary; [`Error::Candle`] when the device refuses.
    pub fn extend(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        if self.steps_over(tokens)? {
            self.run(tokens)?;
            return self.logits();
        }
        let x = self.pass(tokens)?;
        let last = x.narrow(1, tokens.len() - 1, 1)?;
        let row = self.model.tensors().logits_f32(&last)?.pop();
        row.ok_or_else(|| Error::Unsupported("the model needs at least one token".into()))
    }

    /// Takes tokens and returns the logits `[T][V]` after each of them.
    ///
    /// # Errors
    /// As [`GpuState::extend`].
    pub fn extend_all(&mut self, tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        if self.steps_over(tokens)? {
            let each = |token: &u32| {
                self.run(&[*token])?;
                self.logits()
            };
            return tokens.iter().map(each).collect();
        }
        let x = self.pass(tokens)?;
        self.model.tensors().logits_f32(&x)
    }

    /// Takes tokens without asking for logits.
    ///
    /// # Errors
    /// As [`GpuState::extend`].
    pub fn absorb(&mut self, tokens: &[u32]) -> Result<()> {
        match self.steps_over(tokens)? {
            true => self.run(tokens),
            false => self.pass(tokens).map(drop),
        }
    }

    /// A place to come back to with [`GpuState::rewind`].
    pub fn mark(&self) -> GpuMark {
        let engram = match self.engram {
            Engram::Ordered => Ok(self.memory.engram_mark()),
            Engram::Rings => self.unwound().map_err(|error| error.to_string()),
        };
        GpuMark {
            position: self.position(),
            engram,
        }
    }

    /// Forgets what came after a mark of this sequence.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the window has moved past what the mark saw, or the mark could not keep what it saw.
    pub fn rewind(&mut self, mark: &GpuMark) -> Result<()> {
        let (to, from) = (mark.position, self.position());
        if !self.memory.cache.can_rewind(to) {
            let what = format!("the window has moved: position {to} cannot be restored from {from}");
            return Err(Error::Unsupported(what));
        }
        match &mark.engram {
            Ok(engram) => self.memory.restore_engram(engram),
            Err(reason) => return Err(Error::Unsupported(format!("the mark is incomplete: {reason}"))),
        }
        self.memory.cache.rewind(to);
        self.engram = Engram::Ordered;
        Ok(())
    }

    /// A copy that goes its own way.
    ///
    /// # Errors
    /// [`Error::Candle`] when the device has no memory for it.
    pub fn fork(&self) -> Result<Self> {
        let rings = self.rings.iter().map(|(s, ring)| Ok((*s, ring.copy()?)));
        Ok(Self {
            model: self.model.clone(),
            memory: self.memory.fork()?,
            rings: rings.collect::<Result<_>>()?,
            engram: self.engram,
            step: None,
        })
    }

    /// Whether steps take these tokens.
    fn steps_over(&self, tokens: &[u32]) -> Result<bool> {
        self.model.tensors().expect_tokens(&[tokens])?;
        Ok(tokens.len() <= STEPPED && self.position() + tokens.len() <= self.model.blueprint.positions())
    }

    /// Takes tokens on tensors.
    fn pass(&mut self, tokens: &[u32]) -> Result<Tensor> {
        if self.engram == Engram::Rings {
            let present = self.unwound()?;
            self.memory.restore_engram(&present);
            self.engram = Engram::Ordered;
        }
        self.model.tensors().extend(tokens, &mut self.memory)
    }

    /// Takes tokens step by step.
    fn run(&mut self, tokens: &[u32]) -> Result<()> {
        for &token in tokens {
            let state = row_state(self.window(), self.position(), token);
            self.ready()?.run(&[state])?;
            self.memory.advance(&[token]);
        }
        Ok(())
    }

    /// The step, with everything before the present position where it looks for it.
    fn ready(&mut self) -> Result<&mut Replay> {
        let (present, history) = (self.engram == Engram::Rings && self.step.is_some(), self.history());
        if self.engram == Engram::Ordered {
            for ((_, ring), (_, wound)) in self.rings.iter().zip(self.wound()?) {
                ring.slice_set(&wound, 0, 0)?;
            }
            self.engram = Engram::Rings;
        }
        let mut step = match self.step.take() {
            Some(step) => step,
            None => Replay::new(self.new_step()?, self.model.options().launching),
        };
        if !present && !history.is_empty() {
            step.remember(&history)?;
        }
        Ok(self.step.insert(step))
    }

    fn new_step(&self) -> Result<Box<dyn Step>> {
        let role = Role::of;
        let layers = self.memory.cache.layers().iter().enumerate();
        let cached = layers.flat_map(|(l, (k, v))| {
            [
                (role(Name::KeyCache, l), k.clone()),
                (role(Name::ValueCache, l), v.clone()),
            ]
        });
        let rings = self
            .rings
            .iter()
            .map(|(s, ring)| (role(Name::EngramValues, *s), ring.clone()));
        let tensors: Vec<(Role, Tensor)> = cached.chain(rings).collect();
        let plan = self.model.plan(1, self.window().capacity())?;
        Ok(self.model.steps().step(plan, &tensors)?)
    }

    /// Logits after the last step.
    fn logits(&mut self) -> Result<Vec<f32>> {
        match &mut self.step {
            Some(step) => step.logits(),
            None => Err(Error::Unsupported("nothing has been decoded".into())),
        }
    }

    /// The last tokens as the steps' history; nothing without an engram.
    pub(super) fn history(&self) -> Vec<u32> {
        let engram = self.model.blueprint.engram();
        engram.map_or_else(Vec::new, |engram| {
            history(self.memory.tokens(), self.position(), engram.hash.ring as usize)
        })
    }

    /// The engram's last values as rings, new ones where the sequence has them in order.
    pub(super) fn wound(&self) -> Result<Vec<(usize, Tensor)>> {
        if self.engram == Engram::Rings {
            return Ok(self.rings.clone());
        }
        let wind = |(s, ring): &(usize, Tensor)| {
            let (_, places, _) = ring.dims3()?;
            let wound = match self.memory.engram_values(*s) {
                Some(values) => wound(values, self.position(), places)?,
                None => ring.zeros_like()?,
            };
            Ok((*s, wound))
        };
        self.rings.iter().map(wind).collect()
    }

    /// The engram's part of the memory out of the rings.
    fn unwound(&self) -> Result<EngramMark> {
        let mut values = vec![None; self.config().engram.layers.len()];
        for (s, ring) in &self.rings {
            values[*s] = Some(unwound(ring, self.position(), self.model.tensors().dtype())?);
        }
        Ok(self.memory.engram_mark_of(values))
    }
}
