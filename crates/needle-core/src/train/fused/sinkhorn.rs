//! Sinkhorn scaling and its gradient for 16 positions at a time.
//!
//! Forward as in `ops::sinkhorn`, by divisions. On the way back one works with logarithms: where a round divides rows (or
//! columns) by their sums, `g ← g − y ∘ Σ g` over the row (or column), `y` being the round's result and `g` the gradient of the
//! logarithms.

use super::vector::{WIDTH, exp};
use crate::ops::SINKHORN_ROUNDS;

/// The same number of 16 positions.
pub(super) type Lanes = [f32; WIDTH];

/// What one call needs, for matrices of `n × n`.
pub(super) struct Scaling {
    n: usize,
    /// The matrix after each half round, `[2·rounds, n·n]`.
    stages: Vec<Lanes>,
}

impl Scaling {
    pub(super) fn new(n: usize) -> Self {
        Self {
            n,
            stages: vec![[0.0; WIDTH]; 2 * SINKHORN_ROUNDS * n * n],
        }
    }

    /// `m`: logits in, doubly stochastic matrices out.
    #[inline(always)]
    pub(super) fn forward(&mut self, m: &mut [Lanes]) {
        let n = self.n;
        for row in m.chunks_exact_mut(n) {
            let mut peak = [f32::NEG_INFINITY; WIDTH];
            for entry in row.iter() {
                for i in 0..WIDTH {
                    peak[i] = if entry[i] > peak[i] { entry[i] } else { peak[i] };
                }
            }
            for entry in row.iter_mut() {
                for i in 0..WIDTH {
                    entry[i] = exp(entry[i] - peak[i]);
                }
            }
        }
        for stages in self.stages.chunks_exact_mut(2 * n * n) {
            let (rows, columns) = stages.split_at_mut(n * n);
            (0..n).for_each(|row| divide(m, row * n, 1, n));
            rows.copy_from_slice(m);
            (0..n).for_each(|column| divide(m, column, n, n));
            columns.copy_from_slice(m);
        }
    }

    /// `g`: the gradient of the result in, that of the logits out; after [`Scaling::forward`] of the same matrices.
    #[inline(always)]
    pub(super) fn backward(&self, g: &mut [Lanes]) {
        let n = self.n;
        if let Some(last) = self.stages.chunks_exact(n * n).next_back() {
            for (g, y) in g.iter_mut().zip(last) {
                for i in 0..WIDTH {
                    g[i] *= y[i];
                }
            }
        }
        for stages in self.stages.chunks_exact(2 * n * n).rev() {
            let (rows, columns) = stages.split_at(n * n);
            (0..n).for_each(|column| take_share(g, columns, column, n, n));
            (0..n).for_each(|row| take_share(g, rows, row * n, 1, n));
        }
    }
}

/// Divides the `n` entries from `first` on, `step` apart, by their sum.
#[inline(always)]
fn divide(m: &mut [Lanes], first: usize, step: usize, n: usize) {
    let mut sum = [0.0f32; WIDTH];
    for at in 0..n {
        let entry = &m[first + at * step];
        for i in 0..WIDTH {
            sum[i] += entry[i];
        }
    }
    let mut inverse = [0.0f32; WIDTH];
    for i in 0..WIDTH {
        inverse[i] = 1.0 / sum[i];
    }
    for at in 0..n {
        let entry = &mut m[first + at * step];
        for i in 0..WIDTH {
            entry[i] *= inverse[i];
        }
    }
}

/// `g ← g − y·Σg` over the same entries.
#[inline(always)]
fn take_share(g: &mut [Lanes], y: &[Lanes], first: usize, step: usize, n: usize) {
    let mut sum = [0.0f32; WIDTH];
    for at in 0..n {
        let entry = &g[first + at * step];
        for i in 0..WIDTH {
            sum[i] += entry[i];
        }
    }
    for at in 0..n {
        let (g, y) = (&mut g[first + at * step], &y[first + at * step]);
        for i in 0..WIDTH {
            g[i] -= y[i] * sum[i];
        }
    }
}
