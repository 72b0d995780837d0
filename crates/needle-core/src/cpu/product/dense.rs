//! Float32 matrices times float32 activations; sums are closed every [`USUAL`] columns.

use super::{Job, Place, row, side_by_side};
use crate::cpu::{
    prepared::USUAL,
    simd::{Line, Simd, kernel},
};

kernel!(pub(super) fn run = run_in(job: Job<'_, '_>));

#[inline(always)]
fn run_in<S: Simd>(s: S, job: Job<'_, '_>) {
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
                let panel = Panel { lines, blocks, block };
                /// Computes `$r` blocks of `$n` positions.
                macro_rules! sums {
                    ($r:literal, $n:literal) => {{
                        place.write(s, &panel.sums::<S, $r, $n>(s, x), job.out);
                        $r
                    }};
                }
                block += match (tile.width, blocks - block) {
                    (1, 4..) => sums!(4, 1),
                    (1, _) => sums!(1, 1),
                    (4, 4..) if side_by_side(4, S::WIDEST) == 4 => sums!(4, 4),
                    (4, _) => sums!(1, 4),
                    (8, _) if S::WIDEST > 4 => sums!(1, 8),
                    (12, _) if S::WIDEST > 8 => sums!(1, 12),
                    (width, _) => unreachable!("a tile of {width} positions"),
                };
            }
        }
    }
}

/// A panel's columns, from block `block` of its `blocks` on.
struct Panel<'a> {
    lines: &'a [Line],
    blocks: usize,
    block: usize,
}

impl Panel<'_> {
    #[inline(always)]
    fn sums<S: Simd, const R: usize, const N: usize>(&self, s: S, x: &[f32]) -> [[S::F; N]; R] {
        let mut total = [[s.splat(0.0); N]; R];
        let runs = self.lines.chunks(USUAL * self.blocks).zip(x.chunks_exact(USUAL * N));
        for (lines, x) in runs {
            let mut sums = [[s.splat(0.0); N]; R];
            for (lines, column) in lines.chunks_exact(self.blocks).zip(0..USUAL) {
                for (sums, line) in sums.iter_mut().zip(&lines[self.block..self.block + R]) {
                    let w = s.load_bits(line);
                    for (n, sum) in sums.iter_mut().enumerate() {
                        *sum = s.fma(w, s.splat(x[n * USUAL + column]), *sum);
                    }
                }
            }
            for (total, sums) in total.iter_mut().zip(&sums) {
                for (total, sum) in total.iter_mut().zip(sums) {
                    *total = s.add(*total, *sum);
                }
            }
        }
        total
    }
}
