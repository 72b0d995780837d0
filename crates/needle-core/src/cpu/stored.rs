//! The memory of keys and values, in three precisions.
//!
//! Slots go by sixteen. A block of keys is `[K, 16]`, sixteen slots side by side; values are `[slot, Kv]`, each filled up to
//! whole lines of sixteen. Heads follow one another, layer by layer.

use super::{
    lines::{Bytes, Floats, Halves},
    pages::Pages,
    simd::{Isa, LANES, Simd, kernel},
    vector::load_part,
};
use crate::{
    config::Config,
    error::{Error, Result},
};

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

/// Keys and values of all layers and heads.
#[derive(Debug)]
pub(super) struct Stored {
    shape: StoredShape,
    values: Kind,
}

/// What one head's part looks like.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredShape {
    pub(super) heads: usize,
    pub(super) slots: usize,
    pub(super) key_width: usize,
    pub(super) value_width: usize,
}

#[derive(Debug)]
enum Kind {
    Float(Pages<f32>, Pages<f32>),
    Half(Pages<u16>, Pages<u16>),
    /// Scales: `[blocks, K/32, 16]` and `[slots, Kv/32]` of each head.
    Int8 {
        keys: Pages<i8>,
        key_scales: Pages<f32>,
        values: Pages<i8>,
        value_scales: Pages<f32>,
    },
}

/// One head's keys and values.
#[derive(Clone, Copy)]
pub(super) enum Head<'a> {
    Float(Floats<'a>),
    Half(Halves<'a>),
    Int8(Bytes<'a>),
}

impl StoredShape {
    fn key_len(self) -> usize {
        self.slots * self.key_width
    }

    fn value_len(self) -> usize {
        self.slots * self.value_width.next_multiple_of(LANES)
    }

    fn key_scales(self) -> usize {
        self.slots * self.key_width.div_ceil(SCALE_GROUP)
    }

    fn value_scales(self) -> usize {
        self.slots * self.value_width.div_ceil(SCALE_GROUP)
    }
}

impl Stored {
    /// # Errors
    /// [`Error::Unsupported`] when the system has no room for so many slots.
    pub(super) fn new(config: &Config, slots: usize, precision: CachePrecision) -> Result<Self> {
        let shape = StoredShape {
            heads: config.num_kv_heads,
            slots,
            key_width: config.qk_head_dim,
            value_width: config.v_head_dim,
        };
        let all = config.num_layers * shape.heads;
        let kind = || -> std::io::Result<Kind> {
            let (keys, values) = (all * shape.key_len(), all * shape.value_len());
            Ok(match precision {
                CachePrecision::Float => Kind::Float(Pages::new(keys)?, Pages::new(values)?),
                CachePrecision::Half => Kind::Half(Pages::new(keys)?, Pages::new(values)?),
                CachePrecision::Int8 => Kind::Int8 {
                    keys: Pages::new(keys)?,
                    key_scales: Pages::new(all * shape.key_scales())?,
                    values: Pages::new(values)?,
                    value_scales: Pages::new(all * shape.value_scales())?,
                },
            })
        };
        let values = kind().map_err(|error| Error::Unsupported(format!("a cache of {slots} positions: {error}")))?;
        Ok(Self { shape, values })
    }

    pub(super) fn precision(&self) -> CachePrecision {
        match self.values {
            Kind::Float(..) => CachePrecision::Float,
            Kind::Half(..) => CachePrecision::Half,
            Kind::Int8 { .. } => CachePrecision::Int8,
        }
    }

    /// Copies the first `slots` slots of every head.
    pub(super) fn copy_from(&mut self, other: &Self, slots: usize) {
        let shape = self.shape;
        let part = |len: usize| (len, len / shape.slots * slots);
        match (&mut self.values, &other.values) {
            (Kind::Float(k, v), Kind::Float(from_k, from_v)) => {
                copy(k, from_k, part(shape.key_len()));
                copy(v, from_v, part(shape.value_len()));
            }
            (Kind::Half(k, v), Kind::Half(from_k, from_v)) => {
                copy(k, from_k, part(shape.key_len()));
                copy(v, from_v, part(shape.value_len()));
            }
            (
                Kind::Int8 {
                    keys,
                    key_scales,
                    values,
                    value_scales,
                },
                Kind::Int8 {
                    keys: from_keys,
                    key_scales: from_key_scales,
                    values: from_values,
                    value_scales: from_value_scales,
                },
            ) => {
                copy(keys, from_keys, part(shape.key_len()));
                copy(key_scales, from_key_scales, part(shape.key_scales()));
                copy(values, from_values, part(shape.value_len()));
                copy(value_scales, from_value_scales, part(shape.value_scales()));
            }
            _ => {}
        }
    }

    /// Head `g` of layer `l`.
    pub(super) fn head(&self, l: usize, g: usize) -> Head<'_> {
        let shape = self.shape;
        let at = l * shape.heads + g;
        let (key_width, value_lines) = (shape.key_width, shape.value_width.div_ceil(LANES));
        match &self.values {
            Kind::Float(keys, values) => Head::Float(Floats {
                keys: part(keys, at, shape.key_len()),
                values: part(values, at, shape.value_len()),
                key_width,
                value_lines,
            }),
            Kind::Half(keys, values) => Head::Half(Halves {
                keys: part(keys, at, shape.key_len()),
                values: part(values, at, shape.value_len()),
                key_width,
                value_lines,
            }),
            Kind::Int8 {
                keys,
                key_scales,
                values,
                value_scales,
            } => Head::Int8(Bytes {
                keys: part(keys, at, shape.key_len()),
                key_scales: part(key_scales, at, shape.key_scales()),
                values: part(values, at, shape.value_len()),
                value_scales: &value_scales[at * shape.value_scales()..][..shape.value_scales()],
                key_width,
                value_lines,
            }),
        }
    }

    /// Stores one position's key and value of head `g` of layer `l`.
    pub(super) fn write(&mut self, isa: Isa, (l, g): (usize, usize), slot: usize, key: &[f32], value: &[f32]) {
        let shape = self.shape;
        let (at, block, lane) = (l * shape.heads + g, slot / LANES, slot % LANES);
        let block_len = LANES * shape.key_width;
        let first_key = at * shape.key_len() + block * block_len;
        let first_value = at * shape.value_len() + slot * shape.value_width.next_multiple_of(LANES);
        match &mut self.values {
            Kind::Float(keys, values) => {
                let keys = keys[first_key..][..block_len].as_chunks_mut::<LANES>().0;
                for (place, key) in keys.iter_mut().zip(key) {
                    place[lane] = *key;
                }
                values[first_value..][..value.len()].copy_from_slice(value);
            }
            Kind::Half(keys, values) => {
                let keys = &mut keys[first_key..][..block_len];
                write_half(isa, key, (keys, lane), value, &mut values[first_value..][..value.len()]);
            }
            Kind::Int8 {
                keys,
                key_scales,
                values,
                value_scales,
            } => {
                let groups = shape.key_width.div_ceil(SCALE_GROUP);
                let scales = &mut key_scales[at * shape.key_scales() + block * LANES * groups..][..LANES * groups];
                let places = keys[first_key..][..block_len].chunks_mut(SCALE_GROUP * LANES);
                let places = places.zip(scales.as_chunks_mut::<LANES>().0);
                for ((places, scale), key) in places.zip(key.chunks(SCALE_GROUP)) {
                    scale[lane] = step(key);
                    for (place, key) in places.as_chunks_mut::<LANES>().0.iter_mut().zip(key) {
                        place[lane] = round(*key, scale[lane]);
                    }
                }
                let groups = shape.value_width.div_ceil(SCALE_GROUP);
                let scales = &mut value_scales[at * shape.value_scales() + slot * groups..][..groups];
                let places = values[first_value..][..value.len()].chunks_mut(SCALE_GROUP);
                for ((places, scale), value) in places.zip(scales).zip(value.chunks(SCALE_GROUP)) {
                    *scale = step(value);
                    for (place, x) in places.iter_mut().zip(value) {
                        *place = round(*x, *scale);
                    }
                }
            }
        }
    }
}

/// Part `at` of parts of `len` numbers, as lines.
fn part<T>(all: &[T], at: usize, len: usize) -> &[[T; LANES]] {
    all[at * len..][..len].as_chunks().0
}

/// Copies the first `count` of each `len` numbers.
fn copy<T: Copy>(to: &mut [T], from: &[T], (len, count): (usize, usize)) {
    for (to, from) in to.chunks_exact_mut(len).zip(from.chunks_exact(len)) {
        to[..count].copy_from_slice(&from[..count]);
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
