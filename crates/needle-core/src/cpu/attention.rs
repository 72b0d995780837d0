//! Softmax attention of a few queries over one key head: `o = Σ_s softmax_s(⟨q, k_s⟩/√K) v_s` over the slots in sight.
//!
//! Sixteen slots are scored side by side. Slots are taken in their order and those out of sight add exact zeros, so a
//! query's result does not depend on the queries beside it.

use super::{
    lines::Store,
    simd::{LANES, Simd, kernel},
    stored::{Head, SCALE_GROUP},
    vector::{exp, store_part},
};

/// Queries at once.
pub(super) const QUERIES: usize = 8;

/// Bytes that come together from memory.
const FETCHED_BYTES: usize = 64;

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
    pub(super) fn attend = attend_in(head: Head<'_>, width: usize, queries: Queries<'_>, scores: &mut [f32], out: &mut [f32])
);

#[inline(always)]
fn attend_in<S: Simd>(s: S, head: Head<'_>, width: usize, queries: Queries<'_>, scores: &mut [f32], out: &mut [f32]) {
    match head {
        Head::Float(store) => sized(s, store, width, queries, scores, out),
        Head::Half(store) => sized(s, store, width, queries, scores, out),
        Head::Int8(store) => sized(s, store, width, queries, scores, out),
    }
}

/// `R` queries with `J` blocks, then `J` lines of the values, side by side: as many sums in flight as there are registers.
#[inline(always)]
fn sized<S: Simd>(
    s: S,
    store: impl Store,
    value_width: usize,
    queries: Queries<'_>,
    scores: &mut [f32],
    out: &mut [f32],
) {
    match (tile_width(queries.sights.len()), S::WIDEST > 4) {
        (1, true) => tile::<S, 1, 8>(s, store, value_width, queries, scores, out),
        (2, true) => tile::<S, 2, 4>(s, store, value_width, queries, scores, out),
        (4, true) => tile::<S, 4, 2>(s, store, value_width, queries, scores, out),
        (_, true) => tile::<S, 8, 2>(s, store, value_width, queries, scores, out),
        (1, false) => tile::<S, 1, 4>(s, store, value_width, queries, scores, out),
        (2, false) => tile::<S, 2, 2>(s, store, value_width, queries, scores, out),
        (4, false) => tile::<S, 4, 1>(s, store, value_width, queries, scores, out),
        (_, false) => tile::<S, 8, 1>(s, store, value_width, queries, scores, out),
    }
}

#[inline(always)]
fn tile<S: Simd, const R: usize, const J: usize>(
    s: S,
    store: impl Store,
    value_width: usize,
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
    let (Some(first), Some(end)) = ((0..last.len()).find(seen), (0..last.len()).rfind(seen)) else {
        return;
    };
    let q = queries.values.as_chunks::<R>().0;
    let mut tile = Tile {
        store,
        q,
        sights,
        scores: scores.as_chunks_mut().0,
        first,
        end: end + 1,
        scale: 1.0 / (q.len() as f32).sqrt(),
        peaks: [s.splat(f32::NEG_INFINITY); R],
    };
    tile.fetch(s);
    let mut block = tile.first;
    while block < tile.end {
        block += match tile.end - block >= J {
            true => tile.score::<J>(s, block),
            false => tile.score::<1>(s, block),
        };
    }
    let totals = tile.weigh(s);
    let lines = value_width.div_ceil(LANES);
    let mut line = 0;
    while line < lines {
        line += match lines - line >= J {
            true => tile.average::<J>(s, line, &totals, (value_width, &mut *out)),
            false => tile.average::<1>(s, line, &totals, (value_width, &mut *out)),
        };
    }
}

struct Tile<'a, S: Simd, T, const R: usize> {
    store: T,
    q: &'a [[f32; R]],
    sights: [&'a [u16]; R],
    /// `[blocks from the first one in sight on, R]`: scores, then weights.
    scores: &'a mut [[f32; LANES]],
    first: usize,
    end: usize,
    scale: f32,
    peaks: [S::F; R],
}

impl<S: Simd, T: Store, const R: usize> Tile<'_, S, T, R> {
    /// Asks for all keys at once: a few queries wait for them longer than they compute.
    #[inline(always)]
    fn fetch(&self, s: S) {
        if R <= 2 {
            let each = (FETCHED_BYTES / size_of::<T::Line>()).max(1);
            for block in self.first..self.end {
                for key in self.store.keys(block).iter().step_by(each) {
                    s.prefetch(key, 0);
                }
            }
        }
    }

    /// `⟨q, k⟩/√K` of `J` blocks, minus infinity out of sight.
    #[inline(always)]
    fn score<const J: usize>(&mut self, s: S, block: usize) -> usize {
        let scale = s.splat(self.scale);
        let mut keys: [&[T::Line]; J] = [&[]; J];
        for (j, keys) in keys.iter_mut().enumerate() {
            *keys = &self.store.keys(block + j)[..self.q.len()];
            // Few queries wait for their values longer than they compute.
            if R <= 2 {
                let each = (FETCHED_BYTES / size_of::<T::Line>()).max(1);
                for value in self.store.values(block + j).iter().step_by(each) {
                    s.prefetch(value, 0);
                }
            }
        }
        let mut totals = [[s.splat(0.0); R]; J];
        if T::SCALED {
            let mut d = 0;
            while d < self.q.len() {
                let end = (d + SCALE_GROUP).min(self.q.len());
                let mut sums = [[s.splat(0.0); R]; J];
                products::<S, T, R, J>(s, &self.q[d..end], keys.map(|keys| &keys[d..end]), &mut sums);
                for (j, (totals, sums)) in totals.iter_mut().zip(&sums).enumerate() {
                    let scales = s.load(self.store.key_scales(block + j, d));
                    for (total, sum) in totals.iter_mut().zip(sums) {
                        *total = s.fma(*sum, scales, *total);
                    }
                }
                d = end;
            }
        } else {
            products::<S, T, R, J>(s, self.q, keys, &mut totals);
        }
        let places = self.scores[(block - self.first) * R..].chunks_exact_mut(R);
        for (j, (totals, places)) in totals.iter().zip(places).enumerate() {
            for (r, (total, place)) in totals.iter().zip(places).enumerate() {
                let score = s.keep(s.mul(*total, scale), self.sights[r][block + j], f32::NEG_INFINITY);
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
        for (block, places) in (self.first..self.end).zip(self.scores.chunks_exact_mut(R)) {
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

    /// `Σ weight·v / Σ weight` for `J` lines of the values from line `line` on.
    #[inline(always)]
    fn average<const J: usize>(
        &self,
        s: S,
        line: usize,
        totals: &[f32; R],
        (width, out): (usize, &mut [f32]),
    ) -> usize {
        let lines = width.div_ceil(LANES);
        let mut sums = [[s.splat(0.0); R]; J];
        for (block, weights) in (self.first..self.end).zip(self.scores.as_chunks::<R>().0) {
            for (lane, values) in self.store.values(block).chunks_exact(lines).enumerate() {
                let Some(values) = values[line..].first_chunk::<J>() else {
                    continue;
                };
                for (j, (value, sums)) in values.iter().zip(&mut sums).enumerate() {
                    let mut value = T::load(s, value);
                    if T::SCALED {
                        value = s.mul(value, s.splat(self.store.value_scale(block * LANES + lane, line + j)));
                    }
                    for (sum, weights) in sums.iter_mut().zip(weights) {
                        *sum = s.fma(value, s.splat(weights[lane % LANES]), *sum);
                    }
                }
            }
        }
        // Queries that only fill up the tile have no place.
        for (r, (total, out)) in totals.iter().zip(out.chunks_exact_mut(width)).enumerate() {
            for (sums, out) in sums.iter().zip(out[line * LANES..].chunks_mut(LANES)) {
                store_part(s, s.div(sums[r], s.splat(*total)), out);
            }
        }
        J
    }
}

/// `sums + Σ_d q_d k_d` of `R` queries and `J` blocks.
#[inline(always)]
fn products<S: Simd, T: Store, const R: usize, const J: usize>(
    s: S,
    q: &[[f32; R]],
    keys: [&[T::Line]; J],
    sums: &mut [[S::F; R]; J],
) {
    let mut own = *sums;
    for (d, q) in q.iter().enumerate() {
        for (keys, sums) in keys.iter().zip(&mut own) {
            let key = T::load(s, &keys[d]);
            for (sum, q) in sums.iter_mut().zip(q) {
                *sum = s.fma(key, s.splat(*q), *sum);
            }
        }
    }
    *sums = own;
}
