//! What a pass may look back on: the whole of its own text under a mask, or what a session remembers.

use candle_core::Tensor;

use super::kv_cache::{KvCache, Placement};
use crate::{error::Result, ops::Mask};

/// Everything that one sequence's cached decoding keeps between passes.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) cache: KvCache,
    /// The last tokens, as many as an n-gram reaches back.
    tokens: Vec<u32>,
    /// The last engram values of each site before their filter, `[1, reach, D]`.
    engram_values: Vec<Option<Tensor>>,
    /// Tokens that an n-gram reaches back.
    reach: usize,
}

/// The engram's part of a [`Memory`] at one position; cheap to keep.
#[derive(Clone, Debug)]
pub(crate) struct EngramMark {
    tokens: Vec<u32>,
    engram_values: Vec<Option<Tensor>>,
}

impl Memory {
    pub(crate) fn new(cache: KvCache, sites: usize, reach: usize) -> Self {
        Self {
            cache,
            tokens: Vec::new(),
            engram_values: vec![None; sites],
            reach,
        }
    }

    /// A copy that goes its own way.
    pub(crate) fn fork(&self) -> Result<Self> {
        let Self {
            tokens,
            engram_values,
            reach,
            ..
        } = self;
        Ok(Self {
            cache: self.cache.fork()?,
            tokens: tokens.clone(),
            engram_values: engram_values.clone(),
            reach: *reach,
        })
    }

    /// Joins the tokens of a finished pass to what is remembered.
    pub(crate) fn advance(&mut self, tokens: &[u32]) {
        self.cache.advance(tokens.len());
        self.tokens.extend_from_slice(tokens);
        let surplus = self.tokens.len().saturating_sub(self.reach);
        self.tokens.drain(..surplus);
    }

    pub(crate) fn engram_mark(&self) -> EngramMark {
        self.engram_mark_of(self.engram_values.clone())
    }

    /// A mark of the present tokens, with values that are kept elsewhere.
    pub(crate) fn engram_mark_of(&self, engram_values: Vec<Option<Tensor>>) -> EngramMark {
        EngramMark {
            tokens: self.tokens.clone(),
            engram_values,
        }
    }

    /// The last tokens, as many as an n-gram reaches back.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The last values of site `s` before their filter, `[1, reach, D]`; `None` before the first pass.
    pub(crate) fn engram_values(&self, s: usize) -> Option<&Tensor> {
        self.engram_values[s].as_ref()
    }

    pub(crate) fn restore_engram(&mut self, mark: &EngramMark) {
        self.tokens.clone_from(&mark.tokens);
        self.engram_values.clone_from(&mark.engram_values);
    }
}

/// The view of one pass.
pub(crate) enum Sight<'a> {
    /// All positions at once; the mask says what each may see.
    Whole(Mask),
    /// Positions after those that a session remembers.
    Cached {
        /// The session's memory.
        memory: &'a mut Memory,
        /// Where the new positions go, and what they see.
        placement: Placement,
    },
}

impl<'a> Sight<'a> {
    /// The view of `count` new positions after what `memory` holds.
    pub(crate) fn after(memory: &'a mut Memory, count: usize) -> Self {
        let placement = memory.cache.place(count);
        Self::Cached { memory, placement }
    }

    /// The first position of the pass.
    pub(super) fn first_position(&self) -> usize {
        match self {
            Self::Whole(_) => 0,
            Self::Cached { memory, .. } => memory.cache.position(),
        }
    }

    /// The keys and values that the pass attends to at layer `l`, its own among them, and the mask over them.
    pub(super) fn keys_values(&mut self, l: usize, k: Tensor, v: Tensor) -> Result<(Tensor, Tensor, Mask)> {
        match self {
            Self::Whole(mask) => Ok((k, v, mask.clone())),
            Self::Cached { memory, placement } => {
                let (k, v) = memory.cache.store(l, &k, &v, placement)?;
                Ok((k, v, placement.mask().clone()))
            }
        }
    }

    /// `tokens` with the remembered ones before them.
    pub(super) fn with_history(&self, tokens: &[u32]) -> Vec<u32> {
        match self {
            Self::Whole(_) => tokens.to_vec(),
            Self::Cached { memory, .. } => memory.tokens.iter().chain(tokens).copied().collect(),
        }
    }

    /// Whether position `t` of row `b` sees the position `back` before it. A session's n-grams reach back to its start
    /// whatever its window is, as the reference's cached pass does.
    pub(super) fn reaches(&self, b: usize, t: usize, back: usize) -> bool {
        match self {
            Self::Whole(mask) => back <= t && mask.allows(b, t, t - back),
            Self::Cached { memory, .. } => back <= memory.cache.position() + t,
        }
    }

    /// Engram values `[B, T, D]` of site `s` with the `reach` earlier ones before them, zero where the text had not begun.
    pub(super) fn engram_values(&mut self, s: usize, values: &Tensor, reach: usize) -> Result<Tensor> {
        let (b, t, d) = values.dims3()?;
        let nothing = || Tensor::zeros((b, reach, d), values.dtype(), values.device());
        match self {
            Self::Whole(_) => Ok(Tensor::cat(&[&nothing()?, values], 1)?),
            Self::Cached { memory, .. } => {
                let earlier = match memory.engram_values[s].take() {
                    Some(earlier) => earlier,
                    None => nothing()?,
                };
                let all = Tensor::cat(&[&earlier, values], 1)?;
                memory.engram_values[s] = Some(all.narrow(1, t, reach)?.contiguous()?);
                Ok(all)
            }
        }
    }

    /// `[B, T, 1]`: zero where a position does not see the one `delay` before it; `None` where nothing needs hiding,
    /// because the values themselves are zero there.
    pub(super) fn delayed(&self, b: usize, t: usize, delay: usize, like: &Tensor) -> Result<Option<Tensor>> {
        match self {
            Self::Cached { .. } => Ok(None),
            Self::Whole(_) if delay == 0 => Ok(None),
            Self::Whole(_) => {
                let seen = (0..b).flat_map(|b| (0..t).map(move |t| (b, t)));
                let seen: Vec<f32> = seen
                    .map(|(b, t)| if self.reaches(b, t, delay) { 1.0 } else { 0.0 })
                    .collect();
                Ok(Some(
                    Tensor::from_vec(seen, (b, t, 1), like.device())?.to_dtype(like.dtype())?,
                ))
            }
        }
    }
}
