//! Codes times rotated activations in 16 bits, sums in 32-bit integers.
//!
//! For one position the levels are looked up and used at once. For more, a group's levels of one or two blocks of sixteen rows
//! are looked up into the first-level cache and used by all tiles of positions. Two blocks share each activation that is
//! loaded; a sum in integers does not mind.

use super::{Job, Place, row};
use crate::cpu::{
    matrix::Codes,
    prepared::{Tile, USUAL},
    simd::{Line, Simd, integer_kernel},
};

integer_kernel!(pub(super) fn run_2 = run_in_2(codes: &Codes, job: Job<'_, '_>));
integer_kernel!(pub(super) fn run_4 = run_in_4(codes: &Codes, job: Job<'_, '_>));

/// Pairs of columns of a usual group.
const PAIRS: usize = USUAL / 2;
/// Tiles whose sums are kept while a group is at hand.
const TILES: usize = 4;
/// Positions of the widest tile of any set.
const MOST: usize = 12;
/// How far ahead of their use lines are fetched: the matrix comes from a cache far away.
const AHEAD_BYTES: usize = 6 << 10;

#[inline(always)]
fn run_in_2<S: Simd>(s: S, codes: &Codes, job: Job<'_, '_>) {
    run_in::<S, 2>(s, codes, job);
}

#[inline(always)]
fn run_in_4<S: Simd>(s: S, codes: &Codes, job: Job<'_, '_>) {
    run_in::<S, 4>(s, codes, job);
}

#[inline(always)]
fn run_in<S: Simd, const BITS: i32>(s: S, codes: &Codes, mut job: Job<'_, '_>) {
    let nothing = s.look_up16::<BITS>(s.levels16(&codes.levels16.levels), s.load_codes(&Line([0; 16])));
    let mut steps = [[nothing; PAIRS]; 2];
    let single = job.prepared.tiles().all(|tile| tile.width == 1 && tile.first == 0);
    for panel in job.panels.clone() {
        let (lines, blocks) = job.matrix.panel(job.lines, panel);
        let mut block = 0;
        while block < blocks {
            let row = row(&job, panel, block);
            let panel = Panel {
                codes,
                lines,
                blocks,
                block,
            };
            block += match (single, blocks - block, S::BLOCKS_16) {
                (true, 4.., 4) => panel.single::<S, BITS, 4>(s, &mut job, row),
                (true, 2.., 4) => panel.single::<S, BITS, 2>(s, &mut job, row),
                (true, ..) => panel.single::<S, BITS, 1>(s, &mut job, row),
                (false, 2.., 4) if codes.group == USUAL => panel.tiled::<S, BITS, 2>(s, &mut job, row, &mut steps),
                (false, ..) if codes.group == USUAL => panel.tiled::<S, BITS, 1>(s, &mut job, row, &mut steps),
                (false, ..) => panel.unusual::<S, BITS>(s, &mut job, row),
            };
        }
    }
}

/// A panel's groups, from block `block` of its `blocks` on. The functions give the number of blocks that they did.
struct Panel<'a> {
    codes: &'a Codes,
    lines: &'a [Line],
    blocks: usize,
    block: usize,
}

impl<'a> Panel<'a> {
    /// The norms of each group's blocks, and its words.
    #[inline(always)]
    fn groups(&self) -> impl Iterator<Item = (&'a [Line], &'a [Line])> + use<'a> {
        let blocks = self.blocks;
        let groups = self.lines.chunks_exact(blocks * (1 + self.codes.words()));
        groups.map(move |lines| lines.split_at(blocks))
    }

    /// `R` blocks for one position. Fewer than four blocks keep several sums each, so that one addition need not wait for the
    /// one before: integers add up in any order.
    #[inline(always)]
    fn single<S: Simd, const BITS: i32, const R: usize>(&self, s: S, job: &mut Job<'_, '_>, row: usize) -> usize {
        let levels = s.levels16(&self.codes.levels16.levels);
        let step = s.splat(self.codes.levels16.step);
        let mut total = [[s.splat(0.0)]; R];
        let own = self.block..self.block + R;
        let Some(tile) = job.prepared.tiles().next() else {
            return R;
        };
        let x = job.prepared.pairs(tile).chunks_exact(self.codes.group / 2);
        for ((norms, words), (x, scale)) in self.groups().zip(x.zip(job.prepared.scales(tile))) {
            let mut sums = [[s.zero_sums(); 4]; R];
            let words = words.chunks_exact(self.blocks);
            for (words, x) in words.zip(x.chunks_exact(16 / BITS as usize)) {
                let mut word = [s.load_codes(&words[self.block]); R];
                for (word, line) in word.iter_mut().zip(&words[own.clone()]) {
                    *word = s.load_codes(line);
                    s.prefetch(line, AHEAD_BYTES);
                }
                for (i, x) in x.chunks_exact(2 * S::STEP_PAIRS).enumerate() {
                    let (x, y) = x.split_at(S::STEP_PAIRS);
                    for (sums, word) in sums.iter_mut().zip(&mut word) {
                        let (first, second, rest) = s.look_up16_twice::<BITS>(levels, *word);
                        *word = rest;
                        let sum = &mut sums[2 * i % (4 / R).max(1)];
                        *sum = s.dot(*sum, first, x[0], x[S::STEP_PAIRS - 1]);
                        let sum = &mut sums[(2 * i + 1) % (4 / R).max(1)];
                        *sum = s.dot(*sum, second, y[0], y[S::STEP_PAIRS - 1]);
                    }
                }
            }
            for ((total, [a, b, c, d]), norm) in total.iter_mut().zip(sums).zip(&norms[own.clone()]) {
                let sum = s.add_sums(s.add_sums(a, b), s.add_sums(c, d));
                let sum = s.mul(s.to_f32(s.total(sum)), s.splat(*scale));
                total[0] = s.fma(s.mul(s.load_bits(norm), step), sum, total[0]);
            }
        }
        place(tile, row).write(s, &total, job.out);
        R
    }

    /// `R` blocks, one or two, for all positions, [`TILES`] tiles at a time; `steps` is scratch.
    #[inline(always)]
    fn tiled<S: Simd, const BITS: i32, const R: usize>(
        &self,
        s: S,
        job: &mut Job<'_, '_>,
        row: usize,
        steps: &mut [[S::Step; PAIRS]; 2],
    ) -> usize {
        let levels = s.levels16(&self.codes.levels16.levels);
        let step = s.splat(self.codes.levels16.step);
        let own = self.block..self.block + R;
        let mut tiles = job.prepared.tiles();
        while let Some(first) = tiles.next() {
            let mut some = [first; TILES];
            let mut count = 1;
            for (place, tile) in some[1..].iter_mut().zip(tiles.by_ref().take(TILES - 1)) {
                *place = tile;
                count += 1;
            }
            let mut totals = [[[s.splat(0.0); MOST]; R]; TILES];
            for (group, (norms, words)) in self.groups().enumerate() {
                for (steps, block) in steps.iter_mut().zip(own.clone()) {
                    let of_word = steps.chunks_exact_mut(16 / BITS as usize / S::STEP_PAIRS);
                    for (steps, words) in of_word.zip(words.chunks_exact(self.blocks)) {
                        let mut word = s.load_codes(&words[block]);
                        s.prefetch(&words[block], AHEAD_BYTES);
                        for steps in steps.as_chunks_mut::<2>().0 {
                            (steps[0], steps[1], word) = s.look_up16_twice::<BITS>(levels, word);
                        }
                    }
                }
                let mut scaled = [step; R];
                for (scaled, norm) in scaled.iter_mut().zip(&norms[own.clone()]) {
                    *scaled = s.mul(s.load_bits(norm), step);
                }
                for (tile, totals) in some[..count].iter().zip(&mut totals) {
                    let x = &job.prepared.pairs(*tile).as_chunks::<PAIRS>().0[group * tile.width..];
                    let scales = &job.prepared.scales(*tile)[group * tile.width..];
                    match tile.width {
                        1 => join::<S, 1, R>(s, steps, x, (&scaled, scales), totals),
                        4 => join::<S, 4, R>(s, steps, x, (&scaled, scales), totals),
                        8 if S::WIDEST > 4 => join::<S, 8, R>(s, steps, x, (&scaled, scales), totals),
                        12 if S::WIDEST > 8 => join::<S, 12, R>(s, steps, x, (&scaled, scales), totals),
                        width => unreachable!("a tile of {width} positions"),
                    }
                }
            }
            for (tile, totals) in some[..count].iter().zip(&totals) {
                place(*tile, row).write(s, totals, job.out);
            }
        }
        R
    }

    /// One block for all positions, whatever the size of the groups.
    #[inline(always)]
    fn unusual<S: Simd, const BITS: i32>(&self, s: S, job: &mut Job<'_, '_>, row: usize) -> usize {
        let levels = s.levels16(&self.codes.levels16.levels);
        let step = s.splat(self.codes.levels16.step);
        let half = self.codes.group / 2;
        for tile in job.prepared.tiles() {
            let mut totals = [[s.splat(0.0); 4]];
            let x = job.prepared.pairs(tile).chunks_exact(half * tile.width);
            let scales = job.prepared.scales(tile).chunks_exact(tile.width);
            for ((norms, words), (x, scales)) in self.groups().zip(x.zip(scales)) {
                let mut sums = [s.zero_sums(); 4];
                for (word, words) in words.chunks_exact(self.blocks).enumerate() {
                    let mut codes = s.load_codes(&words[self.block]);
                    let first = word * 16 / BITS as usize;
                    for pair in (first..first + 16 / BITS as usize).step_by(S::STEP_PAIRS) {
                        let levels = s.look_up16::<BITS>(levels, codes);
                        codes = s.shift::<BITS>(codes);
                        for (sum, x) in sums.iter_mut().zip(x.chunks_exact(half)) {
                            *sum = s.dot(*sum, levels, x[pair], x[pair + S::STEP_PAIRS - 1]);
                        }
                    }
                }
                let norm = s.mul(s.load_bits(&norms[self.block]), step);
                for ((total, sum), scale) in totals[0].iter_mut().zip(sums).zip(scales) {
                    *total = s.fma(norm, s.mul(s.to_f32(s.total(sum)), s.splat(*scale)), *total);
                }
            }
            place(tile, row).write(s, &totals, job.out);
        }
        1
    }
}

/// Adds one group's products of `N` positions and `R` blocks to their totals.
#[inline(always)]
fn join<S: Simd, const N: usize, const R: usize>(
    s: S,
    steps: &[[S::Step; PAIRS]; 2],
    x: &[[i32; PAIRS]],
    (norms, scales): (&[S::F; R], &[f32]),
    totals: &mut [[S::F; MOST]; R],
) {
    let Some(x) = x.first_chunk::<N>() else {
        return;
    };
    let mut sums = [[s.zero_sums(); N]; R];
    for k in 0..PAIRS / S::STEP_PAIRS {
        let (first, last) = (k * S::STEP_PAIRS, (k + 1) * S::STEP_PAIRS - 1);
        for (n, x) in x.iter().enumerate() {
            for (sums, steps) in sums.iter_mut().zip(steps) {
                sums[n] = s.dot(sums[n], steps[k], x[first], x[last]);
            }
        }
    }
    for ((totals, sums), norm) in totals.iter_mut().zip(&sums).zip(norms) {
        for ((total, sum), scale) in totals.iter_mut().zip(sums).zip(scales) {
            *total = s.fma(*norm, s.mul(s.to_f32(s.total(*sum)), s.splat(*scale)), *total);
        }
    }
}

/// Where a tile's results go.
fn place(tile: Tile, row: usize) -> Place {
    Place {
        first_token: tile.first,
        live: tile.live,
        row,
    }
}
