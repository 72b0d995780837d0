//! Codes times rotated activations in 16 bits, sums in 32-bit integers.
//!
//! For one position the levels are looked up and used at once. For more, a group's levels of sixteen rows are looked up into
//! the first-level cache and used by all tiles of positions.

use super::{Job, Place, row};
use crate::cpu::{
    matrix::Codes,
    prepared::{Tile, USUAL},
    simd::{Line, Simd, integer_kernel},
};

integer_kernel!(pub(super) fn run_2 = run_in_2(codes: &Codes, job: Job<'_, '_>));
integer_kernel!(pub(super) fn run_4 = run_in_4(codes: &Codes, job: Job<'_, '_>));

/// Steps of a group that are looked up at once: 64 pairs of columns or more.
const STEPS: usize = 64;
/// Tiles whose sums are kept while a group is at hand.
const TILES: usize = 4;
/// Positions of the widest tile of any set.
const MOST: usize = 12;

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
    for panel in job.panels.clone() {
        let (lines, blocks) = job.matrix.panel(job.lines, panel);
        let mut block = 0;
        while block < blocks {
            let place = Place {
                first_token: 0,
                live: 1,
                row: row(&job, panel, block),
            };
            let panel = Panel {
                codes,
                lines,
                blocks,
                block,
            };
            let mut tiles = job.prepared.tiles();
            let first = tiles.next();
            block += match (first, blocks - block) {
                (Some(tile @ Tile { width: 1, first: 0, .. }), left) => {
                    let x = (job.prepared.pairs(tile), job.prepared.scales(tile));
                    match left {
                        4.. if S::BLOCKS_16 == 4 => {
                            place.write(s, &panel.single::<S, BITS, 4>(s, x), job.out);
                            4
                        }
                        2.. if S::BLOCKS_16 == 4 => {
                            place.write(s, &panel.single::<S, BITS, 2>(s, x), job.out);
                            2
                        }
                        _ => {
                            place.write(s, &panel.single::<S, BITS, 1>(s, x), job.out);
                            1
                        }
                    }
                }
                _ => {
                    panel.tiled::<S, BITS>(s, &mut job, place.row);
                    1
                }
            };
        }
    }
}

/// A panel's groups, from block `block` of its `blocks` on.
struct Panel<'a> {
    codes: &'a Codes,
    lines: &'a [Line],
    blocks: usize,
    block: usize,
}

impl Panel<'_> {
    /// `R` blocks for one position. Fewer than four blocks keep several sums each, so that one addition need not wait for the
    /// one before: integers add up in any order.
    #[inline(always)]
    fn single<S: Simd, const BITS: i32, const R: usize>(&self, s: S, (x, scales): (&[i32], &[f32])) -> [[S::F; 1]; R] {
        let levels = s.levels16(&self.codes.levels16.levels);
        let step = s.splat(self.codes.levels16.step);
        let mut total = [[s.splat(0.0)]; R];
        let own = self.block..self.block + R;
        let groups = self.lines.chunks_exact(self.blocks * (1 + self.codes.words()));
        let x = x.chunks_exact(self.codes.group / 2).zip(scales);
        for (lines, (x, scale)) in groups.zip(x) {
            let (norms, words) = lines.split_at(self.blocks);
            let mut sums = [[s.zero_sums(); 4]; R];
            let words = words.chunks_exact(self.blocks);
            for (words, x) in words.zip(x.chunks_exact(16 / BITS as usize)) {
                let mut word = [s.load_codes(&words[self.block]); R];
                for (word, line) in word.iter_mut().zip(&words[own.clone()]) {
                    *word = s.load_codes(line);
                    s.prefetch(line, AHEAD_BYTES);
                }
                for (i, x) in x.chunks_exact(S::STEP_PAIRS).enumerate() {
                    for (sums, word) in sums.iter_mut().zip(&mut word) {
                        let sum = &mut sums[i % (4 / R).max(1)];
                        *sum = s.dot(*sum, s.look_up16::<BITS>(levels, *word), x);
                        *word = s.shift::<BITS>(*word);
                    }
                }
            }
            for ((total, [a, b, c, d]), norm) in total.iter_mut().zip(sums).zip(&norms[own.clone()]) {
                let sum = s.add_sums(s.add_sums(a, b), s.add_sums(c, d));
                let sum = s.mul(s.to_f32(s.total(sum)), s.splat(*scale));
                total[0] = s.fma(s.mul(s.load_bits(norm), step), sum, total[0]);
            }
        }
        total
    }

    /// One block for all positions, [`TILES`] tiles at a time, into the output's row `row` and after.
    #[inline(always)]
    fn tiled<S: Simd, const BITS: i32>(&self, s: S, job: &mut Job<'_, '_>, row: usize) {
        let mut tiles = job.prepared.tiles();
        while let Some(first) = tiles.next() {
            let mut some = [first; TILES];
            let mut count = 1;
            for (place, tile) in some[1..].iter_mut().zip(tiles.by_ref().take(TILES - 1)) {
                *place = tile;
                count += 1;
            }
            let tiles = &some[..count];
            let mut totals = [[s.splat(0.0); MOST]; TILES];
            for (group, lines) in self
                .lines
                .chunks_exact(self.blocks * (1 + self.codes.words()))
                .enumerate()
            {
                let sums = self.group_sums::<S, BITS>(s, job, (group, lines), tiles);
                let norm = s.mul(s.load_bits(&lines[self.block]), s.splat(self.codes.levels16.step));
                for ((tile, sums), totals) in tiles.iter().zip(&sums).zip(&mut totals) {
                    let scales = &job.prepared.scales(*tile)[group * tile.width..];
                    for ((total, sum), scale) in totals.iter_mut().zip(sums).zip(&scales[..tile.width]) {
                        let sum = s.mul(s.to_f32(s.total(*sum)), s.splat(*scale));
                        *total = s.fma(norm, sum, *total);
                    }
                }
            }
            for (tile, totals) in tiles.iter().zip(totals) {
                let place = Place {
                    first_token: tile.first,
                    live: tile.live,
                    row,
                };
                place.write(s, &[totals], job.out);
            }
        }
    }

    /// The sums of one group for some tiles.
    #[inline(always)]
    fn group_sums<S: Simd, const BITS: i32>(
        &self,
        s: S,
        job: &Job<'_, '_>,
        (group, lines): (usize, &[Line]),
        tiles: &[Tile],
    ) -> [[S::Sums; MOST]; TILES] {
        let levels = s.levels16(&self.codes.levels16.levels);
        let steps_of_word = 16 / BITS as usize / S::STEP_PAIRS;
        let words_at_once = STEPS / steps_of_word;
        let mut sums = [[s.zero_sums(); MOST]; TILES];
        let words = lines[self.blocks..].chunks(words_at_once * self.blocks);
        for (part, words) in words.enumerate() {
            let mut steps = [s.look_up16::<BITS>(levels, s.load_codes(&words[self.block])); STEPS];
            let mut count = 0;
            for (steps, words) in steps
                .chunks_exact_mut(steps_of_word)
                .zip(words.chunks_exact(self.blocks))
            {
                let mut word = s.load_codes(&words[self.block]);
                for step in steps {
                    *step = s.look_up16::<BITS>(levels, word);
                    word = s.shift::<BITS>(word);
                    count += 1;
                }
            }
            let steps = &steps[..count];
            let half = self.codes.group / 2;
            for (tile, sums) in tiles.iter().zip(&mut sums) {
                let x = &job.prepared.pairs(*tile)[group * half * tile.width..][..half * tile.width];
                let from = part * STEPS * S::STEP_PAIRS;
                match (tile.width, half == USUAL / 2) {
                    (1, _) => dots::<S, 1>(s, steps, (x, half, from), sums),
                    (4, true) => dots::<S, 4>(s, steps, (x, USUAL / 2, 0), sums),
                    (4, false) => dots::<S, 4>(s, steps, (x, half, from), sums),
                    (8, _) if S::WIDEST > 4 => dots::<S, 8>(s, steps, (x, USUAL / 2, 0), sums),
                    (12, _) if S::WIDEST > 8 => dots::<S, 12>(s, steps, (x, USUAL / 2, 0), sums),
                    (width, _) => unreachable!("a tile of {width} positions"),
                }
            }
        }
        sums
    }
}

/// `sums + Σ level·x` for `N` positions, whose pairs begin at `from` in each `half` of `x`.
#[inline(always)]
fn dots<S: Simd, const N: usize>(
    s: S,
    steps: &[S::Step],
    (x, half, from): (&[i32], usize, usize),
    sums: &mut [S::Sums; MOST],
) {
    let Some(kept) = sums.first_chunk_mut::<N>() else {
        return;
    };
    let mut sums = *kept;
    for (k, step) in steps.iter().enumerate() {
        for (n, sum) in sums.iter_mut().enumerate() {
            *sum = s.dot(*sum, *step, &x[n * half + from + k * S::STEP_PAIRS..][..S::STEP_PAIRS]);
        }
    }
    *kept = sums;
}

/// How far ahead of their use lines are fetched: the matrix comes from a cache far away.
const AHEAD_BYTES: usize = 6 << 10;
