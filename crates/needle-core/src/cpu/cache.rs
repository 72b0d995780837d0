//! Keys and values of one sequence: the pinned first positions, then a ring.
//!
//! Position `p` lives in slot `p` while `p < sinks`, after that in slot `sinks + (p − sinks) mod ring`. The ring is somewhat
//! larger than the window, so that a few positions can be stored before the first of them looks back: every query then
//! finds the same keys in the same slots as in single steps, and its sums run in the same order.

use super::{
    simd::LANES,
    stored::{CachePrecision, Stored},
};
use crate::{config::Config, error::Result, model::Window};

/// Positions that can be stored at once after the ring has turned.
const SPARE: usize = 15;

/// One sequence's keys and values.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) stored: Stored,
    /// The position that each slot holds.
    held: Vec<Option<usize>>,
    window: Window,
    position: usize,
}

impl Cache {
    /// # Errors
    /// [`crate::Error::Unsupported`] when the system has no room for it.
    pub(super) fn new(config: &Config, window: Window, precision: CachePrecision) -> Result<Self> {
        let slots = (window.capacity() + SPARE).next_multiple_of(LANES);
        Ok(Self {
            stored: Stored::new(config, slots, precision)?,
            held: vec![None; slots],
            window,
            position: 0,
        })
    }

    /// A copy that goes its own way.
    ///
    /// # Errors
    /// As [`Cache::new`].
    pub(super) fn fork(&self, config: &Config) -> Result<Self> {
        let mut stored = Stored::new(config, self.held.len(), self.stored.precision())?;
        let used = self.position.next_multiple_of(LANES).min(self.held.len());
        stored.copy_from(&self.stored, used);
        Ok(Self {
            stored,
            held: self.held.clone(),
            ..*self
        })
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn window(&self) -> Window {
        self.window
    }

    /// Blocks of sixteen slots.
    pub(super) fn blocks(&self) -> usize {
        self.held.len() / LANES
    }

    /// Positions that can be stored at once.
    pub(super) fn room(&self) -> usize {
        let free = self.held.len().saturating_sub(self.position);
        free.max(self.ring() - self.window.size + 1)
    }

    pub(super) fn slot(&self, position: usize) -> usize {
        let sinks = self.window.sinks;
        if position < sinks {
            position
        } else {
            sinks + (position - sinks) % self.ring()
        }
    }

    /// Takes the slots of `count` new positions.
    pub(super) fn place(&mut self, count: usize) {
        for position in self.position..self.position + count {
            let slot = self.slot(position);
            self.held[slot] = Some(position);
        }
    }

    /// Which slots a query at `position` sees, a bit a slot, a number a block.
    pub(super) fn sight(&self, position: usize, blocks: &mut [u16]) {
        let Window { size, sinks } = self.window;
        for (bits, held) in blocks.iter_mut().zip(self.held.chunks_exact(LANES)) {
            *bits = 0;
            for (lane, held) in held.iter().enumerate() {
                let seen = held.is_some_and(|at| at <= position && (position - at < size || at < sinks));
                *bits |= u16::from(seen) << lane;
            }
        }
    }

    pub(super) fn advance(&mut self, count: usize) {
        self.position += count;
    }

    /// Whether going back to `position` finds everything it saw within the window.
    pub(super) fn can_rewind(&self, position: usize) -> bool {
        position <= self.position && self.position <= self.window.capacity()
    }

    /// Forgets what came after `position`.
    pub(super) fn rewind(&mut self, position: usize) {
        self.position = position;
        for held in &mut self.held {
            *held = held.filter(|at| *at < position);
        }
    }

    fn ring(&self) -> usize {
        self.held.len() - self.window.sinks
    }
}
