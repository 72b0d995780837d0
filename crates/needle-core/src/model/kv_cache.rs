//! Keys and values of one sequence: the pinned first positions, then a ring of the last ones.
//!
//! Position `p` lives in slot `p` while `p < sinks`, after that in slot `sinks + (p − sinks) mod size`. Until the ring turns,
//! slot and position are the same number.

use std::ops::Range;

use candle_core::{DType, Device, Tensor};

use crate::{config::Config, error::Result, ops::Mask};

/// How much of the past a sequence keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Last positions that are kept, the present one included.
    pub size: usize,
    /// First positions that are kept for ever.
    pub sinks: usize,
}

impl Window {
    /// Positions kept at most.
    pub fn capacity(self) -> usize {
        self.size + self.sinks
    }

    /// Where a position's key and value lie.
    pub(crate) fn slot(self, position: usize) -> usize {
        if position < self.sinks {
            position
        } else {
            self.sinks + (position - self.sinks) % self.size
        }
    }

    /// Whether a query at `t` may see a key at `s`.
    fn shows(self, t: usize, s: usize) -> bool {
        s <= t && (t - s < self.size || s < self.sinks)
    }
}

/// Slots are allocated this many at a time at first, then doubled.
const FIRST_SLOTS: usize = 64;

#[derive(Debug)]
pub(crate) struct KvCache {
    /// `[1, slots, G, K]` and `[1, slots, G, Kv]` per layer.
    layers: Vec<(Tensor, Tensor)>,
    /// Slots allocated.
    slots: usize,
    window: Window,
    /// Positions seen so far.
    position: usize,
}

/// Where the new positions of a pass go, and what they see.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    mask: Mask,
    /// Runs of new positions and the slot that each starts at; those that the pass itself overwrites are left out.
    runs: Vec<(Range<usize>, usize)>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Write first, then attend to the first `filled` slots: nothing still needed is overwritten.
    InPlace { filled: usize },
    /// Attend to the `filled` slots and the new positions side by side, then write.
    Beside { filled: usize },
}

impl Placement {
    pub(crate) fn mask(&self) -> &Mask {
        &self.mask
    }
}

impl KvCache {
    pub(crate) fn new(config: &Config, window: Window, dtype: DType, device: &Device) -> Result<Self> {
        Self::with_slots(FIRST_SLOTS.min(window.capacity()), config, window, dtype, device)
    }

    /// All slots at once: the tensors stay the same for the cache's whole life.
    pub(crate) fn whole(config: &Config, window: Window, dtype: DType, device: &Device) -> Result<Self> {
        Self::with_slots(window.capacity(), config, window, dtype, device)
    }

    fn with_slots(slots: usize, config: &Config, window: Window, dtype: DType, device: &Device) -> Result<Self> {
        let g = config.num_kv_heads;
        let zeros = |width| Tensor::zeros((1, slots, g, width), dtype, device);
        let layer = |_| Ok((zeros(config.qk_head_dim)?, zeros(config.v_head_dim)?));
        let layers = (0..config.num_layers).map(layer).collect::<Result<_>>()?;
        Ok(Self {
            layers,
            slots,
            window,
            position: 0,
        })
    }

    /// A copy that shares no storage: the tensors are written in place.
    pub(crate) fn fork(&self) -> Result<Self> {
        let layers = self
            .layers
            .iter()
            .map(|(k, v)| Ok((k.copy()?, v.copy()?)))
            .collect::<Result<_>>()?;
        Ok(Self { layers, ..*self })
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Keys `[1, slots, G, K]` and values `[1, slots, G, Kv]` of every layer, as they lie.
    pub(crate) fn layers(&self) -> &[(Tensor, Tensor)] {
        &self.layers
    }

    pub(crate) fn window(&self) -> Window {
        self.window
    }

    pub(crate) fn advance(&mut self, count: usize) {
        self.position += count;
    }

    /// Whether going back to `position` finds everything it saw: no slot before it was given to a later position.
    pub(crate) fn can_rewind(&self, position: usize) -> bool {
        position <= self.position && self.position <= self.window.capacity()
    }

    /// Forgets what came after `position`.
    pub(crate) fn rewind(&mut self, position: usize) {
        self.position = position;
    }

    /// Places `count` new positions.
    pub(crate) fn place(&self, count: usize) -> Placement {
        let (window, first) = (self.window, self.position);
        let capacity = window.capacity();
        let end = first + count;
        if end <= capacity {
            let mask = Mask::new(1, count, end, |_, t, s| window.shows(first + t, s));
            return Placement {
                mask,
                runs: vec![(0..count, first)],
                kind: Kind::InPlace { filled: end },
            };
        }
        let filled = first.min(capacity);
        let runs = runs(window, first, end);
        if count == 1 {
            let held: Vec<usize> = (0..capacity).map(|slot| last_in(window, slot, end)).collect();
            let mask = Mask::new(1, 1, capacity, |_, _, slot| window.shows(first, held[slot]));
            return Placement {
                mask,
                runs,
                kind: Kind::InPlace { filled: capacity },
            };
        }
        let held: Vec<usize> = (0..filled)
            .map(|slot| last_in(window, slot, first))
            .chain(first..end)
            .collect();
        let mask = Mask::new(1, count, held.len(), |_, t, key| window.shows(first + t, held[key]));
        Placement {
            mask,
            runs,
            kind: Kind::Beside { filled },
        }
    }

    /// Stores the keys and values of a pass, `[1, T, G, K]` and `[1, T, G, Kv]`, and returns those it attends to.
    pub(crate) fn store(
        &mut self,
        l: usize,
        k: &Tensor,
        v: &Tensor,
        placement: &Placement,
    ) -> Result<(Tensor, Tensor)> {
        let end = placement
            .runs
            .iter()
            .map(|(run, slot)| slot + run.len())
            .max()
            .unwrap_or(0);
        self.grow_to(end)?;
        let (keys, values) = &self.layers[l];
        let attended = match placement.kind {
            Kind::InPlace { filled } => (keys.narrow(1, 0, filled)?, values.narrow(1, 0, filled)?),
            Kind::Beside { filled } => (
                Tensor::cat(&[&keys.narrow(1, 0, filled)?, k], 1)?,
                Tensor::cat(&[&values.narrow(1, 0, filled)?, v], 1)?,
            ),
        };
        for (run, slot) in &placement.runs {
            keys.slice_set(&k.narrow(1, run.start, run.len())?.contiguous()?, 1, *slot)?;
            values.slice_set(&v.narrow(1, run.start, run.len())?.contiguous()?, 1, *slot)?;
        }
        Ok(attended)
    }

    fn grow_to(&mut self, slots: usize) -> Result<()> {
        if slots <= self.slots {
            return Ok(());
        }
        let slots = slots.next_power_of_two().min(self.window.capacity());
        for pair in &mut self.layers {
            *pair = (widen(&pair.0, slots)?, widen(&pair.1, slots)?);
        }
        self.slots = slots;
        Ok(())
    }
}

/// `[1, slots, G, K]` with zeros after what it holds.
fn widen(tensor: &Tensor, slots: usize) -> Result<Tensor> {
    let (_, held, _, _) = tensor.dims4()?;
    Ok(tensor.pad_with_zeros(1, 0, slots - held)?.contiguous()?)
}

/// The latest position before `end` that lives in `slot`.
fn last_in(window: Window, slot: usize, end: usize) -> usize {
    if slot < window.sinks || end <= window.capacity() {
        return slot;
    }
    let turns = (end - 1 - slot) / window.size;
    slot + turns * window.size
}

/// The new positions `first..end` as runs of consecutive slots, counted from `first`, without those that a later one of them
/// overwrites.
fn runs(window: Window, first: usize, end: usize) -> Vec<(Range<usize>, usize)> {
    let mut runs: Vec<(Range<usize>, usize)> = Vec::new();
    for position in (first..end).filter(|&p| p < window.sinks || p + window.size >= end) {
        let (at, slot) = (position - first, window.slot(position));
        match runs.last_mut() {
            Some((run, start)) if run.end == at && *start + run.len() == slot => run.end += 1,
            _ => runs.push((at..at + 1, slot)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_hold_the_sinks_and_the_last_positions() {
        let window = Window { size: 5, sinks: 3 };
        for end in 1..40 {
            let mut held = vec![None; window.capacity()];
            (0..end).for_each(|position| held[window.slot(position)] = Some(position));
            for (slot, position) in held.iter().enumerate() {
                if let Some(position) = position {
                    assert_eq!(last_in(window, slot, end), *position, "slot {slot} before {end}");
                }
            }
        }
    }

    #[test]
    fn runs_write_what_single_steps_would() {
        let window = Window { size: 5, sinks: 3 };
        for first in 0..20 {
            for end in first + 1..first + 20 {
                let mut one_by_one = vec![None; window.capacity()];
                (first..end).for_each(|position| one_by_one[window.slot(position)] = Some(position));
                let mut at_once = vec![None; window.capacity()];
                for (run, slot) in runs(window, first, end) {
                    run.clone()
                        .for_each(|at| at_once[slot + at - run.start] = Some(first + at));
                }
                assert_eq!(at_once, one_by_one, "{first}..{end}");
            }
        }
    }
}
