//! The products `y = x·Wᵀ` over interleaved matrices, for one position or a tile of them.
//!
//! A row's sum goes over the groups in order, and within a group over its columns in order; it never depends on how many
//! positions or rows are computed beside it. So a prefill gives the bits that single steps give, and any number of threads
//! those of one.

use std::ops::Range;

use super::{
    columns::Columns,
    matrix::{CodeBits, Codes, Matrix, PANEL_BLOCKS, Values},
    prepared::{Form, Prepared},
    simd::{Isa, LANES, Line, Simd, kernel},
};

/// Panels of a matrix, the activations they are to meet, and where the results go.
struct Job<'a, 'b> {
    matrix: &'a Matrix,
    panels: Range<usize>,
    form: Form,
    prepared: &'a Prepared,
    out: &'a mut Columns<'b>,
    /// Row of the output that the matrix begins at.
    first_row: usize,
}

/// Rows of `panels` for all prepared positions, into `out` from row `first_row` of it on.
pub(super) fn product(
    isa: Isa,
    matrix: &Matrix,
    panels: Range<usize>,
    (form, prepared): (Form, &Prepared),
    (out, first_row): (&mut Columns<'_>, usize),
) {
    let job = Job {
        matrix,
        panels,
        form,
        prepared,
        out,
        first_row,
    };
    run(isa, job);
}

kernel!(fn run = run_in(job: Job<'_, '_>));

#[inline(always)]
fn run_in<S: Simd>(s: S, job: Job<'_, '_>) {
    for panel in job.panels.clone() {
        for tile in job.prepared.tiles(S::WIDEST) {
            let (lines, blocks) = job.matrix.panel(panel);
            let mut part = Part {
                lines,
                blocks,
                first_token: tile.first,
                live: tile.live,
                row: job.first_row + panel * PANEL_BLOCKS * LANES,
            };
            let (matrix, prepared) = (job.matrix, job.prepared);
            match (&matrix.values, job.form) {
                (Values::Dense, _) => {
                    let x = prepared.floats(tile);
                    widths!(S, tile.width, N => part.dense::<S, N>(s, matrix.cols, x, job.out));
                }
                (Values::Packed(codes), Form::Sixteen(_, bits)) => {
                    let x = (prepared.pairs(tile), prepared.scales(tile, codes.groups));
                    match bits {
                        CodeBits::Two => widths!(S, tile.width, N => part.sixteen::<S, 2, N>(s, codes, x, job.out)),
                        CodeBits::Four => widths!(S, tile.width, N => part.sixteen::<S, 4, N>(s, codes, x, job.out)),
                    }
                }
                (Values::Packed(codes), _) => {
                    let x = prepared.floats(tile);
                    match codes.bits {
                        CodeBits::Two => widths!(S, tile.width, N => part.packed::<S, 2, N>(s, codes, x, job.out)),
                        CodeBits::Four => widths!(S, tile.width, N => part.packed::<S, 4, N>(s, codes, x, job.out)),
                    }
                }
            }
        }
    }
}

/// Calls with the tile's width as a constant.
macro_rules! widths {
    ($s:ident, $width:expr, $n:ident => $call:expr) => {
        match $width {
            1 => {
                const $n: usize = 1;
                $call
            }
            4 => {
                const $n: usize = 4;
                $call
            }
            8 if $s::WIDEST > 4 => {
                const $n: usize = 8;
                $call
            }
            _ if $s::WIDEST > 8 => {
                const $n: usize = 12;
                $call
            }
            _ => unreachable!("a tile of {} positions", $width),
        }
    };
}
use widths;

/// One panel and one tile.
struct Part<'a> {
    lines: &'a [Line],
    blocks: usize,
    first_token: usize,
    live: usize,
    row: usize,
}

/// Blocks side by side for a tile of `n` positions: as many sums as the registers hold, at least four where there is one
/// position, so that one addition need not wait for the one before.
const fn side_by_side(n: usize, widest: usize) -> usize {
    match (n, widest) {
        (1, _) => 4,
        (4, 12) => 4,
        (8 | 12, _) => 1,
        _ => 1,
    }
}

impl Part<'_> {
    /// All blocks of the panel, `R` at a time as far as they go, the rest two and one at a time.
    #[inline(always)]
    fn dense<S: Simd, const N: usize>(&mut self, s: S, cols: usize, x: &[f32], out: &mut Columns<'_>) {
        let most = side_by_side(N, S::WIDEST);
        let mut block = 0;
        while block < self.blocks {
            block += match self.blocks - block {
                4.. if most >= 4 => self.dense_blocks::<S, 4, N>(s, block, cols, x, out),
                2.. if most >= 2 => self.dense_blocks::<S, 2, N>(s, block, cols, x, out),
                _ => self.dense_blocks::<S, 1, N>(s, block, cols, x, out),
            };
        }
    }

    #[inline(always)]
    fn packed<S: Simd, const BITS: i32, const N: usize>(
        &mut self,
        s: S,
        codes: &Codes,
        x: &[f32],
        out: &mut Columns<'_>,
    ) {
        let most = side_by_side(N, S::WIDEST);
        let mut block = 0;
        while block < self.blocks {
            block += match self.blocks - block {
                4.. if most >= 4 => self.packed_blocks::<S, BITS, 4, N>(s, block, codes, x, out),
                2.. if most >= 2 => self.packed_blocks::<S, BITS, 2, N>(s, block, codes, x, out),
                _ => self.packed_blocks::<S, BITS, 1, N>(s, block, codes, x, out),
            };
        }
    }

    #[inline(always)]
    fn sixteen<S: Simd, const BITS: i32, const N: usize>(
        &mut self,
        s: S,
        codes: &Codes,
        x: (&[i32], &[f32]),
        out: &mut Columns<'_>,
    ) {
        let most = if N == 1 {
            S::BLOCKS_16
        } else {
            side_by_side(N, S::WIDEST)
        };
        let mut block = 0;
        while block < self.blocks {
            block += match self.blocks - block {
                4.. if most >= 4 => self.sixteen_blocks::<S, BITS, 4, N>(s, block, codes, x, out),
                2.. if most >= 2 => self.sixteen_blocks::<S, BITS, 2, N>(s, block, codes, x, out),
                _ => self.sixteen_blocks::<S, BITS, 1, N>(s, block, codes, x, out),
            };
        }
    }

    /// Float32 values; sums are closed every [`DENSE_RUN`] columns.
    #[inline(always)]
    fn dense_blocks<S: Simd, const R: usize, const N: usize>(
        &mut self,
        s: S,
        block: usize,
        cols: usize,
        x: &[f32],
        out: &mut Columns<'_>,
    ) -> usize {
        let mut total = [[s.splat(0.0); N]; R];
        let runs = self.lines[..cols * self.blocks].chunks(DENSE_RUN * self.blocks);
        for (lines, x) in runs.zip(x.chunks(DENSE_RUN * N)) {
            let mut sums = [[s.splat(0.0); N]; R];
            for (lines, x) in lines.chunks_exact(self.blocks).zip(x.as_chunks::<N>().0) {
                for (sums, line) in sums.iter_mut().zip(&lines[block..block + R]) {
                    let w = s.load_bits(line);
                    for (sum, x) in sums.iter_mut().zip(x) {
                        *sum = s.fma(w, s.splat(*x), *sum);
                    }
                }
            }
            for (total, sums) in total.iter_mut().zip(&sums) {
                for (total, sum) in total.iter_mut().zip(sums) {
                    *total = s.add(*total, *sum);
                }
            }
        }
        self.write(s, block, &total, out);
        R
    }

    /// Codes times rotated float32 activations.
    #[inline(always)]
    fn packed_blocks<S: Simd, const BITS: i32, const R: usize, const N: usize>(
        &mut self,
        s: S,
        block: usize,
        codes: &Codes,
        x: &[f32],
        out: &mut Columns<'_>,
    ) -> usize {
        let levels = s.levels(&codes.levels);
        let mut total = [[s.splat(0.0); N]; R];
        let groups = self.lines.chunks_exact(self.blocks * (1 + codes.words()));
        for (lines, x) in groups.zip(x.chunks_exact(codes.group * N)) {
            let (norms, words) = lines.split_at(self.blocks);
            let mut sums = [[s.splat(0.0); N]; R];
            let words = words.chunks_exact(self.blocks);
            for (words, x) in words.zip(x.chunks_exact(32 / BITS as usize * N)) {
                let mut word = [s.load_codes(&words[block]); R];
                for (word, line) in word.iter_mut().zip(&words[block..block + R]) {
                    *word = s.load_codes(line);
                }
                for x in x.as_chunks::<N>().0 {
                    for (sums, word) in sums.iter_mut().zip(&mut word) {
                        let level = s.look_up::<BITS>(levels, *word);
                        *word = s.shift::<BITS>(*word);
                        for (sum, x) in sums.iter_mut().zip(x) {
                            *sum = s.fma(level, s.splat(*x), *sum);
                        }
                    }
                }
            }
            for ((total, sums), norm) in total.iter_mut().zip(&sums).zip(&norms[block..block + R]) {
                let norm = s.load_bits(norm);
                for (total, sum) in total.iter_mut().zip(sums) {
                    *total = s.fma(norm, *sum, *total);
                }
            }
        }
        self.write(s, block, &total, out);
        R
    }

    /// Codes times rotated activations in 16 bits.
    #[inline(always)]
    fn sixteen_blocks<S: Simd, const BITS: i32, const R: usize, const N: usize>(
        &mut self,
        s: S,
        block: usize,
        codes: &Codes,
        (x, scales): (&[i32], &[f32]),
        out: &mut Columns<'_>,
    ) -> usize {
        let levels = s.levels16(&codes.levels16.levels);
        let step = s.splat(codes.levels16.step);
        let mut total = [[s.splat(0.0); N]; R];
        let groups = self.lines.chunks_exact(self.blocks * (1 + codes.words()));
        let x = x.chunks_exact(codes.group / 2 * N).zip(scales.as_chunks::<N>().0);
        for (lines, (x, scales)) in groups.zip(x) {
            let (norms, words) = lines.split_at(self.blocks);
            let mut sums = [[s.zero_sums(); N]; R];
            let words = words.chunks_exact(self.blocks);
            for (words, x) in words.zip(x.chunks_exact(16 / BITS as usize * N)) {
                let mut word = [s.load_codes(&words[block]); R];
                for (word, line) in word.iter_mut().zip(&words[block..block + R]) {
                    *word = s.load_codes(line);
                }
                for x in x.chunks_exact(N * S::STEP_PAIRS) {
                    for (sums, word) in sums.iter_mut().zip(&mut word) {
                        let levels = s.look_up16::<BITS>(levels, *word);
                        *word = s.shift::<BITS>(*word);
                        for (sum, x) in sums.iter_mut().zip(x.chunks_exact(S::STEP_PAIRS)) {
                            *sum = s.dot(*sum, levels, x);
                        }
                    }
                }
            }
            for ((total, sums), norm) in total.iter_mut().zip(&sums).zip(&norms[block..block + R]) {
                let norm = s.mul(s.load_bits(norm), step);
                for ((total, sum), scale) in total.iter_mut().zip(sums).zip(scales) {
                    let sum = s.mul(s.to_f32(s.total(*sum)), s.splat(*scale));
                    *total = s.fma(norm, sum, *total);
                }
            }
        }
        self.write(s, block, &total, out);
        R
    }

    #[inline(always)]
    fn write<S: Simd, const R: usize, const N: usize>(
        &self,
        s: S,
        block: usize,
        total: &[[S::F; N]; R],
        out: &mut Columns<'_>,
    ) {
        for (r, total) in total.iter().enumerate() {
            for (n, total) in total.iter().enumerate().take(self.live) {
                let mut values = [0.0; LANES];
                s.store(*total, &mut values);
                out.write(self.first_token + n, self.row + (block + r) * LANES, &values);
            }
        }
    }
}

/// Columns of a dense matrix that are summed before they join the rest.
const DENSE_RUN: usize = 128;
