//! Keys and values of one sequence: the pinned first positions, then a ring.
//!
//! Position `p` lives in slot `p` while `p < sinks`, after that in slot `sinks + (p − sinks) mod ring`. The ring is somewhat
//! larger than the window, so that a few positions can be stored before the first of them looks back: every query then
//! finds the same keys in the same slots as in single steps, and its sums run in the same order.
//!
//! Slots go by sixteen. A block of keys is stored `[K, 16]`, sixteen slots side by side; values are stored `[slot, Kv]`, each
//! filled up to whole lines of sixteen.

use super::{
    simd::{Isa, LANES, Simd, kernel},
    vector::load_part,
};
use crate::{config::Config, model::Window};

/// Precision of the stored keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePrecision {
    /// As computed.
    Float,
    /// Half-precision numbers; half of the memory.
    Half,
    /// Signed bytes with one scale for 32 values, as the reference's deployment stores them; a quarter of the memory.
    Int8,
}

/// Values that share a scale.
pub(super) const SCALE_GROUP: usize = 32;

/// Positions that can be stored at once after the ring has turned.
const SPARE: usize = 15;

/// One sequence's keys and values.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// `[layers][key heads]`
    layers: Vec<Vec<HeadCache>>,
    /// The position that each slot holds.
    held: Vec<Option<usize>>,
    window: Window,
    position: usize,
}

/// One key head of one layer.
#[derive(Clone, Debug)]
pub(super) struct HeadCache {
    pub(super) stored: Stored,
    pub(super) key_width: usize,
    pub(super) value_width: usize,
}

/// Keys `[blocks, K, 16]` and values `[slots, Kv rounded up to 16]`.
#[derive(Clone, Debug)]
pub(super) enum Stored {
    Float {
        keys: Vec<f32>,
        values: Vec<f32>,
    },
    Half {
        keys: Vec<u16>,
        values: Vec<u16>,
    },
    /// Scales: `[blocks, K/32, 16]` and `[slots, Kv/32]`.
    Int8 {
        keys: Vec<i8>,
        key_scales: Vec<f32>,
        values: Vec<i8>,
        value_scales: Vec<f32>,
    },
}

impl Cache {
    pub(super) fn new(config: &Config, window: Window, precision: CachePrecision) -> Self {
        let slots = (window.capacity() + SPARE).next_multiple_of(LANES);
        let head = || HeadCache::new(config.qk_head_dim, config.v_head_dim, slots, precision);
        let layer = || (0..config.num_kv_heads).map(|_| head()).collect();
        Self {
            layers: (0..config.num_layers).map(|_| layer()).collect(),
            held: vec![None; slots],
            window,
            position: 0,
        }
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

    pub(super) fn heads(&self, l: usize) -> &[HeadCache] {
        &self.layers[l]
    }

    pub(super) fn heads_mut(&mut self, l: usize) -> &mut [HeadCache] {
        &mut self.layers[l]
    }

    fn ring(&self) -> usize {
        self.held.len() - self.window.sinks
    }
}

impl HeadCache {
    fn new(key_width: usize, value_width: usize, slots: usize, precision: CachePrecision) -> Self {
        let stored = match precision {
            CachePrecision::Float => Stored::Float {
                keys: vec![0.0; slots * key_width],
                values: vec![0.0; slots * value_width.next_multiple_of(LANES)],
            },
            CachePrecision::Half => Stored::Half {
                keys: vec![0; slots * key_width],
                values: vec![0; slots * value_width.next_multiple_of(LANES)],
            },
            CachePrecision::Int8 => Stored::Int8 {
                keys: vec![0; slots * key_width],
                key_scales: vec![0.0; slots * key_width.div_ceil(SCALE_GROUP)],
                values: vec![0; slots * value_width.next_multiple_of(LANES)],
                value_scales: vec![0.0; slots * value_width.div_ceil(SCALE_GROUP)],
            },
        };
        Self {
            stored,
            key_width,
            value_width,
        }
    }

    /// Stores one position's key and value.
    pub(super) fn write(&mut self, isa: Isa, slot: usize, key: &[f32], value: &[f32]) {
        let (block, lane) = (slot / LANES, slot % LANES);
        let (key_width, value_width) = (self.key_width, self.value_width);
        match &mut self.stored {
            Stored::Float { keys, values } => {
                let keys = &mut keys[block * LANES * key_width..][..LANES * key_width];
                for (place, key) in keys.as_chunks_mut::<LANES>().0.iter_mut().zip(key) {
                    place[lane] = *key;
                }
                values[slot * value_width.next_multiple_of(LANES)..][..value_width].copy_from_slice(value);
            }
            Stored::Half { keys, values } => {
                let keys = &mut keys[block * LANES * key_width..][..LANES * key_width];
                let values = &mut values[slot * value_width.next_multiple_of(LANES)..][..value_width];
                write_half(isa, key, (keys, lane), value, values);
            }
            Stored::Int8 {
                keys,
                key_scales,
                values,
                value_scales,
            } => {
                let keys = &mut keys[block * LANES * key_width..][..LANES * key_width];
                let groups = key_width.div_ceil(SCALE_GROUP);
                let scales = &mut key_scales[block * LANES * groups..][..LANES * groups];
                let places = keys
                    .chunks_mut(SCALE_GROUP * LANES)
                    .zip(scales.as_chunks_mut::<LANES>().0);
                for ((places, scale), key) in places.zip(key.chunks(SCALE_GROUP)) {
                    scale[lane] = step(key);
                    for (place, key) in places.as_chunks_mut::<LANES>().0.iter_mut().zip(key) {
                        place[lane] = round(*key, scale[lane]);
                    }
                }
                let groups = value_width.div_ceil(SCALE_GROUP);
                let scales = &mut value_scales[slot * groups..][..groups];
                let places = &mut values[slot * value_width.next_multiple_of(LANES)..][..value_width];
                let places = places.chunks_mut(SCALE_GROUP);
                for ((places, scale), value) in places.zip(scales).zip(value.chunks(SCALE_GROUP)) {
                    *scale = step(value);
                    places
                        .iter_mut()
                        .zip(value)
                        .for_each(|(place, x)| *place = round(*x, *scale));
                }
            }
        }
    }
}

kernel!(fn write_half = write_half_in(key: &[f32], keys: (&mut [u16], usize), value: &[f32], values: &mut [u16]));

/// A key into lane `lane` of its block, and a value.
#[inline(always)]
fn write_half_in<S: Simd>(s: S, key: &[f32], (keys, lane): (&mut [u16], usize), value: &[f32], values: &mut [u16]) {
    let mut half = [0; LANES];
    for (places, key) in keys.chunks_mut(LANES * LANES).zip(key.chunks(LANES)) {
        s.store_f16(load_part(s, key), &mut half);
        for (place, half) in places.as_chunks_mut::<LANES>().0.iter_mut().zip(&half) {
            place[lane % LANES] = *half;
        }
    }
    for (places, value) in values.chunks_mut(LANES).zip(value.chunks(LANES)) {
        s.store_f16(load_part(s, value), &mut half);
        places.copy_from_slice(&half[..places.len()]);
    }
}

/// The distance between two bytes' values.
fn step(x: &[f32]) -> f32 {
    x.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 127.0
}

fn round(x: f32, step: f32) -> i8 {
    if step > 0.0 {
        (x / step).round_ties_even() as i8
    } else {
        0
    }
}
