//! Codes times rotated float32 activations.

use super::{Job, Place, row, side_by_side};
use crate::cpu::{
    matrix::Codes,
    prepared::USUAL,
    simd::{Line, Simd, kernel},
};

kernel!(pub(super) fn run_2 = run_in_2(codes: &Codes, job: Job<'_, '_>));
kernel!(pub(super) fn run_4 = run_in_4(codes: &Codes, job: Job<'_, '_>));

#[inline(always)]
fn run_in_2<S: Simd>(s: S, codes: &Codes, job: Job<'_, '_>) {
    run_in::<S, 2>(s, codes, job);
}

#[inline(always)]
fn run_in_4<S: Simd>(s: S, codes: &Codes, job: Job<'_, '_>) {
    run_in::<S, 4>(s, codes, job);
}

#[inline(always)]
fn run_in<S: Simd, const BITS: i32>(s: S, codes: &Codes, job: Job<'_, '_>) {
    for panel in job.panels.clone() {
        let (lines, blocks) = job.matrix.panel(job.lines, panel);
        for tile in job.prepared.tiles() {
            let x = job.prepared.floats(tile);
            let mut block = 0;
            while block < blocks {
                let place = Place {
                    first_token: tile.first,
                    live: tile.live,
                    row: row(&job, panel, block),
                };
                let panel = Panel {
                    codes,
                    lines,
                    blocks,
                    block,
                };
                /// Computes `$r` blocks of `$n` positions in groups of `$g`, 0 for whatever the matrix has.
                macro_rules! sums {
                    ($r:literal, $n:literal, $g:expr) => {{
                        place.write(s, &panel.sums::<S, BITS, $r, $n, { $g }>(s, x), job.out);
                        $r
                    }};
                }
                block += match (codes.group == USUAL, tile.width, blocks - block) {
                    (true, 1, 4..) => sums!(4, 1, USUAL),
                    (true, 1, 2..) => sums!(2, 1, USUAL),
                    (true, 1, _) => sums!(1, 1, USUAL),
                    (true, 4, 4..) if side_by_side(4, S::WIDEST) == 4 => sums!(4, 4, USUAL),
                    (true, 4, _) => sums!(1, 4, USUAL),
                    (true, 8, _) if S::WIDEST > 4 => sums!(1, 8, USUAL),
                    (true, 12, _) if S::WIDEST > 8 => sums!(1, 12, USUAL),
                    (false, 1, _) => sums!(1, 1, 0),
                    (false, 4, _) => sums!(1, 4, 0),
                    (_, width, _) => unreachable!("a tile of {width} positions"),
                };
            }
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
    #[inline(always)]
    fn sums<S: Simd, const BITS: i32, const R: usize, const N: usize, const GROUP: usize>(
        &self,
        s: S,
        x: &[f32],
    ) -> [[S::F; N]; R] {
        let group = if GROUP == 0 { self.codes.group } else { GROUP };
        let levels = s.levels(&self.codes.levels);
        let mut total = [[s.splat(0.0); N]; R];
        let own = self.block..self.block + R;
        let groups = self.lines.chunks_exact(self.blocks * (1 + self.codes.words()));
        for (lines, x) in groups.zip(x.chunks_exact(group * N)) {
            let (norms, words) = lines.split_at(self.blocks);
            let mut sums = [[s.splat(0.0); N]; R];
            for (words, column) in words
                .chunks_exact(self.blocks)
                .zip((0..group).step_by(32 / BITS as usize))
            {
                let mut word = [s.load_codes(&words[self.block]); R];
                for (word, line) in word.iter_mut().zip(&words[own.clone()]) {
                    *word = s.load_codes(line);
                }
                for column in column..column + 32 / BITS as usize {
                    for (sums, word) in sums.iter_mut().zip(&mut word) {
                        let level = s.look_up::<BITS>(levels, *word);
                        *word = s.shift::<BITS>(*word);
                        for (n, sum) in sums.iter_mut().enumerate() {
                            *sum = s.fma(level, s.splat(x[n * group + column]), *sum);
                        }
                    }
                }
            }
            for ((total, sums), norm) in total.iter_mut().zip(&sums).zip(&norms[own.clone()]) {
                let norm = s.load_bits(norm);
                for (total, sum) in total.iter_mut().zip(sums) {
                    *total = s.fma(norm, *sum, *total);
                }
            }
        }
        total
    }
}
