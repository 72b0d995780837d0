//! Softmax attention of a few queries over one key head: `o = Σ_s softmax_s(⟨q, k_s⟩/√K) v_s` over the slots in sight.
//!
//! Sixteen slots are scored side by side. Slots are taken in their order and those out of sight add exact zeros, so a
//! query's result does not depend on the queries beside it.

use super::{
    cache::{HeadCache, SCALE_GROUP, Stored},
    simd::{LANES, Simd, kernel},
    vector::{exp, load_part, store_part},
};

/// Queries at once.
pub(super) const QUERIES: usize = 8;

/// Queries side by side and what each sees.
pub(super) struct Queries<'a> {
    /// `[K, R]`, `R` being the number of sights rounded up to 1, 2, 4 or 8.
    pub(super) values: &'a [f32],
    /// For each query, a bit a slot, a number a block.
    pub(super) sights: &'a [&'a [u16]],
}

/// Width of a tile of `count` queries.
pub(super) fn tile_width(count: usize) -> usize {
    count.next_power_of_two()
}

kernel!(
    /// Results `[queries, Kv]`; `scores` is scratch for [`QUERIES`] times all slots.
    pub(super) fn attend = attend_in(head: &HeadCache, queries: Queries<'_>, scores: &mut [f32], out: &mut [f32])
);

#[inline(always)]
fn attend_in<S: Simd>(s: S, head: &HeadCache, queries: Queries<'_>, scores: &mut [f32], out: &mut [f32]) {
    match &head.stored {
        Stored::Float { keys, values } => {
            let store = Floats {
                keys,
                values,
                key_width: head.key_width,
                value_width: head.value_width,
            };
            sized(s, store, queries, scores, out);
        }
        Stored::Int8 {
            keys,
            key_scales,
            values,
            value_scales,
        } => {
            let store = Bytes {
                keys,
                key_scales,
                values,
                value_scales,
                key_width: head.key_width,
                value_width: head.value_width,
            };
            sized(s, store, queries, scores, out);
        }
    }
}

/// Stored keys and values as vectors.
trait Store: Copy {
    fn widths(self) -> (usize, usize);
    /// Entry `d` of the keys of sixteen slots.
    fn key<S: Simd>(self, s: S, block: usize, d: usize) -> S::F;
    /// Up to sixteen entries of a slot's value, from entry `first` on.
    fn value<S: Simd>(self, s: S, slot: usize, first: usize) -> S::F;
}

#[derive(Clone, Copy)]
struct Floats<'a> {
    keys: &'a [f32],
    values: &'a [f32],
    key_width: usize,
    value_width: usize,
}

impl Store for Floats<'_> {
    #[inline(always)]
    fn widths(self) -> (usize, usize) {
        (self.key_width, self.value_width)
    }
    #[inline(always)]
    fn key<S: Simd>(self, s: S, block: usize, d: usize) -> S::F {
        load_part(s, &self.keys[(block * self.key_width + d) * LANES..][..LANES])
    }
    #[inline(always)]
    fn value<S: Simd>(self, s: S, slot: usize, first: usize) -> S::F {
        let value = &self.values[slot * self.value_width..][..self.value_width];
        load_part(s, &value[first..])
    }
}

#[derive(Clone, Copy)]
struct Bytes<'a> {
    keys: &'a [i8],
    key_scales: &'a [f32],
    values: &'a [i8],
    value_scales: &'a [f32],
    key_width: usize,
    value_width: usize,
}

impl Store for Bytes<'_> {
    #[inline(always)]
    fn widths(self) -> (usize, usize) {
        (self.key_width, self.value_width)
    }
    #[inline(always)]
    fn key<S: Simd>(self, s: S, block: usize, d: usize) -> S::F {
        let groups = self.key_width.div_ceil(SCALE_GROUP);
        let scales = load_part(
            s,
            &self.key_scales[(block * groups + d / SCALE_GROUP) * LANES..][..LANES],
        );
        s.mul(
            bytes(s, &self.keys[(block * self.key_width + d) * LANES..][..LANES]),
            scales,
        )
    }
    #[inline(always)]
    fn value<S: Simd>(self, s: S, slot: usize, first: usize) -> S::F {
        let groups = self.value_width.div_ceil(SCALE_GROUP);
        let scale = self.value_scales[slot * groups + first / SCALE_GROUP];
        let value = &self.values[slot * self.value_width..][..self.value_width];
        s.mul(bytes(s, &value[first..]), s.splat(scale))
    }
}

/// Up to sixteen signed bytes as numbers.
#[inline(always)]
fn bytes<S: Simd>(s: S, x: &[i8]) -> S::F {
    match x.first_chunk::<LANES>() {
        Some(x) => s.load_i8(x),
        None => {
            let mut whole = [0; LANES];
            whole[..x.len()].copy_from_slice(x);
            s.load_i8(&whole)
        }
    }
}

#[inline(always)]
fn sized<S: Simd>(s: S, store: impl Store, queries: Queries<'_>, scores: &mut [f32], out: &mut [f32]) {
    match tile_width(queries.sights.len()) {
        1 => tile::<S, 1, 8>(s, store, queries, scores, out),
        2 => tile::<S, 2, 4>(s, store, queries, scores, out),
        4 => tile::<S, 4, 2>(s, store, queries, scores, out),
        _ => tile::<S, 8, 1>(s, store, queries, scores, out),
    }
}

/// `R` queries; `J` blocks, then `J` vectors of the values, side by side, to keep eight sums in flight.
#[inline(always)]
fn tile<S: Simd, const R: usize, const J: usize>(
    s: S,
    store: impl Store,
    queries: Queries<'_>,
    scores: &mut [f32],
    out: &mut [f32],
) {
    let Some(last) = queries.sights.last() else { return };
    let mut sights = [*last; R];
    for (sight, given) in sights.iter_mut().zip(queries.sights) {
        *sight = given;
    }
    let seen = |block: &usize| sights.iter().any(|sight| sight[*block] != 0);
    let (Some(first), Some(last)) = ((0..last.len()).find(seen), (0..last.len()).rfind(seen)) else {
        return;
    };
    let mut tile = Tile {
        store,
        q: queries.values.as_chunks::<R>().0,
        sights,
        scores,
        first,
        end: last + 1,
        peaks: [s.splat(f32::NEG_INFINITY); R],
    };
    let mut block = tile.first;
    while block < tile.end {
        block += match tile.end - block >= J {
            true => tile.score::<J>(s, block),
            false => tile.score::<1>(s, block),
        };
    }
    let totals = tile.weigh(s);
    let (_, width) = tile.store.widths();
    let mut entry = 0;
    while entry < width {
        let result = (&totals[..queries.sights.len()], &mut *out);
        entry += match width - entry >= J * LANES {
            true => tile.average::<J>(s, entry, result),
            false => tile.average::<1>(s, entry, result),
        };
    }
}

struct Tile<'a, S: Simd, T, const R: usize> {
    store: T,
    q: &'a [[f32; R]],
    sights: [&'a [u16]; R],
    /// `[blocks in sight of any, R, 16]`: scores, then weights.
    scores: &'a mut [f32],
    first: usize,
    end: usize,
    peaks: [S::F; R],
}

impl<S: Simd, T: Store, const R: usize> Tile<'_, S, T, R> {
    /// `⟨q, k⟩/√K` of `J` blocks, minus infinity out of sight.
    #[inline(always)]
    fn score<const J: usize>(&mut self, s: S, block: usize) -> usize {
        let (width, _) = self.store.widths();
        let scale = s.splat(1.0 / (width as f32).sqrt());
        let mut sums = [[s.splat(0.0); R]; J];
        for (d, q) in self.q[..width].iter().enumerate() {
            for (j, sums) in sums.iter_mut().enumerate() {
                let key = self.store.key(s, block + j, d);
                for (sum, q) in sums.iter_mut().zip(q) {
                    *sum = s.fma(key, s.splat(*q), *sum);
                }
            }
        }
        let places = self.scores[(block - self.first) * R * LANES..]
            .as_chunks_mut::<LANES>()
            .0;
        for (j, (sums, places)) in sums.iter().zip(places.chunks_exact_mut(R)).enumerate() {
            for (r, (sum, place)) in sums.iter().zip(places).enumerate() {
                let score = s.keep(s.mul(*sum, scale), self.sights[r][block + j], f32::NEG_INFINITY);
                self.peaks[r] = s.max(self.peaks[r], score);
                s.store(score, place);
            }
        }
        J
    }

    /// `exp(score − peak)`, zero out of sight, in place of the scores; the sum of each query's.
    #[inline(always)]
    fn weigh(&mut self, s: S) -> [f32; R] {
        let mut totals = [s.splat(0.0); R];
        let mut peaks = self.peaks;
        for peak in &mut peaks {
            *peak = s.splat(s.largest(*peak));
        }
        let places = self.scores.as_chunks_mut::<LANES>().0.chunks_exact_mut(R);
        for (block, places) in (self.first..self.end).zip(places) {
            for (r, place) in places.iter_mut().enumerate() {
                let weight = exp(s, s.sub(s.load(place), peaks[r]));
                let weight = s.keep(weight, self.sights[r][block], 0.0);
                totals[r] = s.add(totals[r], weight);
                s.store(weight, place);
            }
        }
        let mut sums = [0.0; R];
        for (sum, total) in sums.iter_mut().zip(totals) {
            *sum = s.sum(total);
        }
        sums
    }

    /// `Σ weight·v / Σ weight` for `J` vectors of the values from entry `entry` on.
    #[inline(always)]
    fn average<const J: usize>(&self, s: S, entry: usize, (totals, out): (&[f32], &mut [f32])) -> usize {
        let (_, width) = self.store.widths();
        let mut sums = [[s.splat(0.0); R]; J];
        let blocks = self.scores.as_chunks::<LANES>().0.chunks_exact(R);
        for (block, weights) in (self.first..self.end).zip(blocks) {
            for lane in 0..LANES {
                for (j, sums) in sums.iter_mut().enumerate() {
                    let value = self.store.value(s, block * LANES + lane, entry + j * LANES);
                    for (sum, weights) in sums.iter_mut().zip(weights) {
                        *sum = s.fma(value, s.splat(weights[lane]), *sum);
                    }
                }
            }
        }
        for (r, (total, out)) in totals.iter().zip(out.chunks_exact_mut(width)).enumerate() {
            for (sums, out) in sums.iter().zip(out[entry..].chunks_mut(LANES)) {
                store_part(s, s.div(sums[r], s.splat(*total)), out);
            }
        }
        J * LANES
    }
}
