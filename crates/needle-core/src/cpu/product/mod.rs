//! The products `y = x·Wᵀ` over interleaved matrices, for one position or a tile of them.
//!
//! A row's sum goes over the groups in order, and within a group over its columns in order; it never depends on how many
//! positions or rows are computed beside it. So a prefill gives the bits that single steps give, and any number of threads
//! those of one.

mod dense;
mod packed;
mod sixteen;

use std::ops::Range;

use super::{
    columns::Columns,
    matrix::{CodeBits, Matrix, PANEL_BLOCKS, Values},
    prepared::{Form, Prepared},
    simd::{Isa, LANES, Line, Simd},
};

/// Panels of a matrix, the activations they are to meet, and where the results go.
pub(super) struct Job<'a, 'b> {
    pub(super) matrix: &'a Matrix,
    /// Lines of all matrices.
    pub(super) lines: &'a [Line],
    pub(super) panels: Range<usize>,
    pub(super) prepared: &'a Prepared,
    pub(super) out: &'a mut Columns<'b>,
    /// Row of the output that the matrix begins at.
    pub(super) first_row: usize,
}

/// The job's rows for all prepared positions.
pub(super) fn product(isa: Isa, form: Form, job: Job<'_, '_>) {
    match (&job.matrix.values, form) {
        (Values::Dense, _) => dense::run(isa, job),
        (Values::Packed(codes), Form::Sixteen(..)) => match codes.bits {
            CodeBits::Two => sixteen::run_2(isa, codes, job),
            CodeBits::Four => sixteen::run_4(isa, codes, job),
        },
        (Values::Packed(codes), _) => match codes.bits {
            CodeBits::Two => packed::run_2(isa, codes, job),
            CodeBits::Four => packed::run_4(isa, codes, job),
        },
    }
}

/// A tile's results for some blocks of a panel.
struct Place {
    first_token: usize,
    /// Positions that count.
    live: usize,
    /// Row of the output that the first block begins at.
    row: usize,
}

impl Place {
    #[inline(always)]
    fn write<S: Simd, const R: usize, const N: usize>(&self, s: S, sums: &[[S::F; N]; R], out: &mut Columns<'_>) {
        for (r, sums) in sums.iter().enumerate() {
            for (n, sum) in sums.iter().enumerate().take(self.live) {
                let mut values = [0.0; LANES];
                s.store(*sum, &mut values);
                out.write(self.first_token + n, self.row + r * LANES, &values);
            }
        }
    }
}

/// First row of the output of a block.
fn row(job: &Job<'_, '_>, panel: usize, block: usize) -> usize {
    job.first_row + (panel * PANEL_BLOCKS + block) * LANES
}

/// Blocks side by side in float32 for a tile of `n` positions: as many sums as the registers hold, at least four where there
/// is one position, so that one addition need not wait for the one before.
const fn side_by_side(n: usize, widest: usize) -> usize {
    match (n, widest) {
        (1, _) | (4, 12) => 4,
        _ => 1,
    }
}
