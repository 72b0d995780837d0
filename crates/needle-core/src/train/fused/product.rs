//! Matrix products on slices: candle's own kernels, with strides, accumulation and without a tensor in between.

use gemm::{Parallelism, gemm};

/// A matrix in a slice: entry `(i, j)` lies at `i·row_step + j·column_step`.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_step: usize,
    column_step: usize,
}

impl<'a> Matrix<'a> {
    /// A row-major `[rows, columns]`.
    pub(super) fn new(data: &'a [f32], columns: usize) -> Self {
        Self::within(data, data.len() / columns, columns, columns)
    }

    /// The first `columns` entries of `rows` rows that lie `row_step` apart.
    pub(super) fn within(data: &'a [f32], rows: usize, columns: usize, row_step: usize) -> Self {
        let matrix = Self {
            data,
            rows,
            columns,
            row_step,
            column_step: 1,
        };
        assert!(matrix.reach() <= data.len());
        matrix
    }

    /// The transpose.
    pub(super) fn t(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_step: self.column_step,
            column_step: self.row_step,
            ..self
        }
    }

    /// Entries from the first to the last.
    fn reach(&self) -> usize {
        if self.rows == 0 || self.columns == 0 {
            return 0;
        }
        (self.rows - 1) * self.row_step + (self.columns - 1) * self.column_step + 1
    }
}

/// Where a product goes: `columns` entries of rows that lie `row_step` apart.
pub(super) struct Out<'a> {
    pub(super) data: &'a mut [f32],
    pub(super) row_step: usize,
    /// What becomes of the entries that are there.
    pub(super) keep: Keep,
}

/// What becomes of the entries of an output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Overwritten,
    AddedTo,
}

/// Who computes a product.
#[derive(Clone, Copy)]
pub(super) enum Crew {
    /// All threads.
    All,
    /// The caller alone: it is one of several tasks already.
    Caller,
}

impl<'a> Out<'a> {
    pub(super) fn over(data: &'a mut [f32], row_step: usize) -> Self {
        Self {
            data,
            row_step,
            keep: Keep::Overwritten,
        }
    }

    pub(super) fn onto(data: &'a mut [f32], row_step: usize) -> Self {
        Self {
            data,
            row_step,
            keep: Keep::AddedTo,
        }
    }
}

/// `out = factor·a·b`, or `out += factor·a·b`.
pub(super) fn product(out: Out<'_>, factor: f32, a: Matrix<'_>, b: Matrix<'_>, crew: Crew) {
    let (m, k, n) = (a.rows, a.columns, b.columns);
    if m == 0 || n == 0 {
        return;
    }
    assert_eq!(k, b.rows);
    assert!((m - 1) * out.row_step + n <= out.data.len() && n <= out.row_step);
    assert!(a.reach() <= a.data.len() && b.reach() <= b.data.len());
    let parallelism = match crew {
        Crew::All if rayon::current_num_threads() > 1 => Parallelism::Rayon(rayon::current_num_threads()),
        _ => Parallelism::None,
    };
    // SAFETY: the three matrices lie within their slices, as was just checked, and the output is borrowed alone.
    unsafe {
        gemm(
            m,
            n,
            k,
            out.data.as_mut_ptr(),
            1,
            out.row_step as isize,
            out.keep == Keep::AddedTo,
            a.data.as_ptr(),
            a.column_step as isize,
            a.row_step as isize,
            b.data.as_ptr(),
            b.column_step as isize,
            b.row_step as isize,
            1.0,
            factor,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_and_accumulation() {
        let a = [1.0, 2.0, 9.0, 3.0, 4.0, 9.0];
        let b = [1.0, 0.0, 2.0, 1.0];
        let mut out = [1.0; 5];
        let a = Matrix::within(&a, 2, 2, 3);
        product(Out::onto(&mut out, 3), 2.0, a, Matrix::new(&b, 2), Crew::Caller);
        assert_eq!(out, [11.0, 5.0, 1.0, 23.0, 9.0]);
        product(Out::over(&mut out, 3), 1.0, a.t(), Matrix::new(&b, 2).t(), Crew::All);
        assert_eq!(out, [1.0, 5.0, 1.0, 2.0, 8.0]);
    }
}
