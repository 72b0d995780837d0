//! Causal grouped-query attention within each row of a batch, a block of queries at a time.
//!
//! A key/value head and its query heads are one task: `S = Q·Kᵀ` for some queries and the keys they may see, softmax, `O = P·V`.
//! Nothing of `S` is kept but each query's `log Σ exp`; the way back forms `P` again:
//! `dV = Pᵀ·dO`, `dS = P ∘ (dO·Vᵀ − ⟨dO, O⟩)`, `dQ = dS·K`, `dK = dSᵀ·Q`.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    norm,
    places::Sizes,
    product::{Crew, Matrix, Out, product},
    vector::{dot, exp, peak, vectorised},
};

/// Queries of one block.
const BLOCK: usize = 64;

/// What all heads of a layer share.
#[derive(Clone, Copy)]
pub(super) struct Heads<'a> {
    pub(super) sizes: Sizes,
    /// `[K]` each.
    pub(super) q_norm: &'a [f32],
    pub(super) k_norm: &'a [f32],
    /// `[places, K/2]` each.
    pub(super) cos: &'a [f32],
    pub(super) sin: &'a [f32],
    /// The rows of the batch, as ranges of positions.
    pub(super) texts: &'a [Range<usize>],
    /// `[T, P]`: queries, keys, values, gates.
    pub(super) projected: &'a [f32],
}

/// What the way back of all heads gives, each `[G, T, …]`.
#[derive(Default)]
pub(super) struct Slopes {
    pub(super) q: Vec<f32>,
    pub(super) k: Vec<f32>,
    pub(super) v: Vec<f32>,
}

/// One key/value head over one text.
struct Task<'a> {
    heads: Heads<'a>,
    g: usize,
    text: Range<usize>,
}

impl<'a> Heads<'a> {
    /// `out: [G, T, group·Kv]` and `peaks: [G, T, group]`, the `log Σ exp` of every query.
    pub(super) fn forward(self, out: &mut [f32], peaks: &mut [f32]) {
        let Sizes { group, kv, .. } = self.sizes;
        let tasks = self.tasks();
        let parts = split(out, group * kv, &tasks)
            .into_par_iter()
            .zip(split(peaks, group, &tasks));
        tasks
            .par_iter()
            .zip(parts)
            .for_each(|(task, (out, peaks))| task.forward(out, peaks));
    }

    /// The gradients of queries, keys and values from that of the output; those of the norms' scales, `[2K]`, are returned.
    pub(super) fn back(self, slopes: &mut Slopes, d_out: &[f32], out: &[f32], peaks: &[f32]) -> Vec<f32> {
        let Sizes { g, group, k, kv, .. } = self.sizes;
        let tasks = self.tasks();
        let t = peaks.len() / (g * group);
        slopes.q.resize(g * t * group * k, 0.0);
        slopes.k.resize(g * t * k, 0.0);
        slopes.v.resize(g * t * kv, 0.0);
        let q = split(&mut slopes.q, group * k, &tasks).into_par_iter();
        let parts = q
            .zip(split(&mut slopes.k, k, &tasks))
            .zip(split(&mut slopes.v, kv, &tasks));
        let gradients: Vec<Vec<f32>> = tasks
            .par_iter()
            .zip(parts)
            .map(|(task, ((dq, dk), dv))| {
                let from = task.g * t + task.text.start;
                let count = task.text.len();
                let d_out = &d_out[from * group * kv..][..count * group * kv];
                let out = &out[from * group * kv..][..count * group * kv];
                task.back(dq, dk, dv, d_out, out, &peaks[from * group..][..count * group])
            })
            .collect();
        let mut sum = vec![0.0; 2 * k];
        for gradient in gradients {
            sum.iter_mut().zip(gradient).for_each(|(sum, part)| *sum += part);
        }
        sum
    }

    fn tasks(self) -> Vec<Task<'a>> {
        let texts = |g| self.texts.iter().map(move |text| (g, text.clone()));
        let task = |(g, text)| Task { heads: self, g, text };
        (0..self.sizes.g).flat_map(texts).map(task).collect()
    }
}

/// The parts of a `[G, T, width]` that belong to each task.
fn split<'b>(mut data: &'b mut [f32], width: usize, tasks: &[Task<'_>]) -> Vec<&'b mut [f32]> {
    let mut parts = Vec::with_capacity(tasks.len());
    for task in tasks {
        let (part, rest) = data.split_at_mut(task.text.len() * width);
        parts.push(part);
        data = rest;
    }
    parts
}

impl Task<'_> {
    fn forward(&self, out: &mut [f32], peaks: &mut [f32]) {
        let Sizes { group, k, kv, .. } = self.heads.sizes;
        let (queries, keys) = self.turned();
        let values = self.values();
        let n = self.text.len();
        let mut scores = vec![0.0; BLOCK.min(n) * group * n];
        for first in (0..n).step_by(BLOCK) {
            let seen = (first + BLOCK).min(n);
            let rows = (seen - first) * group;
            let scores = &mut scores[..rows * seen];
            let block = Matrix::new(&queries[first * group * k..][..rows * k], k);
            let visible = Matrix::new(&keys[..seen * k], k);
            product(Out::over(scores, seen), 1.0, block, visible.t(), Crew::Caller);
            softmax(scores, &mut peaks[first * group..][..rows], first, group, seen);
            let out = &mut out[first * group * kv..][..rows * kv];
            let values = self.visible(values, seen);
            product(Out::over(out, kv), 1.0, Matrix::new(scores, seen), values, Crew::Caller);
        }
    }

    fn back(
        &self,
        dq: &mut [f32],
        dk: &mut [f32],
        dv: &mut [f32],
        d_out: &[f32],
        out: &[f32],
        peaks: &[f32],
    ) -> Vec<f32> {
        let Sizes { group, k, kv, .. } = self.heads.sizes;
        let (queries, keys) = self.turned();
        let values = self.values();
        let n = self.text.len();
        let mut scores = vec![0.0; BLOCK.min(n) * group * n];
        let mut slopes = scores.clone();
        dk.fill(0.0);
        dv.fill(0.0);
        for first in (0..n).step_by(BLOCK) {
            let seen = (first + BLOCK).min(n);
            let rows = (seen - first) * group;
            let (scores, slopes) = (&mut scores[..rows * seen], &mut slopes[..rows * seen]);
            let block = Matrix::new(&queries[first * group * k..][..rows * k], k);
            let visible = Matrix::new(&keys[..seen * k], k);
            let d_out = &d_out[first * group * kv..][..rows * kv];
            let out = &out[first * group * kv..][..rows * kv];
            let d_block = Matrix::new(d_out, kv);
            product(Out::over(scores, seen), 1.0, block, visible.t(), Crew::Caller);
            product(
                Out::over(slopes, seen),
                1.0,
                d_block,
                self.visible(values, seen).t(),
                Crew::Caller,
            );
            unsoftmax(
                scores,
                slopes,
                &peaks[first * group..][..rows],
                d_out,
                out,
                first,
                group,
                seen,
            );
            let (weights, slopes) = (Matrix::new(scores, seen), Matrix::new(slopes, seen));
            product(Out::onto(dv, kv), 1.0, weights.t(), d_block, Crew::Caller);
            let dq = &mut dq[first * group * k..][..rows * k];
            product(Out::over(dq, k), 1.0, slopes, visible, Crew::Caller);
            product(Out::onto(dk, k), 1.0, slopes.t(), block, Crew::Caller);
        }
        let mut gradient = vec![0.0; 2 * k];
        let (q_gradient, k_gradient) = gradient.split_at_mut(k);
        self.unturn(
            dq,
            group,
            self.g * group * k,
            self.heads.q_norm,
            (k as f32).sqrt().recip(),
            q_gradient,
        );
        let offset = self.heads.sizes.outputs()[0] + self.g * k;
        self.unturn(dk, 1, offset, self.heads.k_norm, 1.0, k_gradient);
        gradient
    }

    /// Queries `[n·group, K]`, divided by `√K`, and keys `[n, K]`, both normalised and turned.
    fn turned(&self) -> (Vec<f32>, Vec<f32>) {
        let Sizes { group, k, .. } = self.heads.sizes;
        let n = self.text.len();
        let (mut queries, mut keys) = (vec![0.0; n * group * k], vec![0.0; n * k]);
        self.turn(
            &mut queries,
            group,
            self.g * group * k,
            self.heads.q_norm,
            (k as f32).sqrt().recip(),
        );
        let offset = self.heads.sizes.outputs()[0] + self.g * k;
        self.turn(&mut keys, 1, offset, self.heads.k_norm, 1.0);
        (queries, keys)
    }

    /// The task's rows of `projected`.
    fn rows(&self) -> &[f32] {
        let width = self.heads.sizes.projected();
        &self.heads.projected[self.text.start * width..self.text.end * width]
    }

    /// Where the task's values begin.
    fn values(&self) -> &[f32] {
        let [q, k, ..] = self.heads.sizes.outputs();
        &self.rows()[q + k + self.g * self.heads.sizes.kv..]
    }

    /// The first `seen` of them.
    fn visible<'b>(&self, values: &'b [f32], seen: usize) -> Matrix<'b> {
        Matrix::within(values, seen, self.heads.sizes.kv, self.heads.sizes.projected())
    }

    fn turn(&self, to: &mut [f32], heads: usize, offset: usize, scale: &[f32], factor: f32) {
        let Heads { cos, sin, sizes, .. } = self.heads;
        turn(
            to,
            self.rows(),
            heads,
            offset,
            sizes.projected(),
            scale,
            cos,
            sin,
            factor,
        );
    }

    fn unturn(&self, slope: &mut [f32], heads: usize, offset: usize, scale: &[f32], factor: f32, gradient: &mut [f32]) {
        let Heads { cos, sin, sizes, .. } = self.heads;
        unturn(
            slope,
            self.rows(),
            heads,
            offset,
            sizes.projected(),
            scale,
            cos,
            sin,
            factor,
            gradient,
        );
    }
}

vectorised! {
    /// `heads` heads from column `offset` on of every row of `from`, normalised, turned by the row's place, times `factor`.
    fn turn(to: &mut [f32], from: &[f32], heads: usize, offset: usize, width: usize, scale: &[f32], cos: &[f32], sin: &[f32], factor: f32) {
        let k = scale.len();
        let half = k / 2;
        for (place, (to, from)) in to.chunks_exact_mut(heads * k).zip(from.chunks_exact(width)).enumerate() {
            let (cos, sin) = (&cos[place * half..][..half], &sin[place * half..][..half]);
            for (to, x) in to.chunks_exact_mut(k).zip(from[offset..].chunks_exact(k)) {
                let r = norm::inverse(x) * factor;
                norm::scaled(to, x, scale, r);
                let (low, high) = to.split_at_mut(half);
                for i in 0..half {
                    let (x1, x2) = (low[i], high[i]);
                    low[i] = x1 * cos[i] - x2 * sin[i];
                    high[i] = x2 * cos[i] + x1 * sin[i];
                }
            }
        }
    }
}

vectorised! {
    /// The gradient of `from` in the place of that of `to`; `gradient` collects that of `scale`.
    fn unturn(slope: &mut [f32], from: &[f32], heads: usize, offset: usize, width: usize, scale: &[f32], cos: &[f32], sin: &[f32], factor: f32, gradient: &mut [f32]) {
        let k = scale.len();
        let half = k / 2;
        let mut straight = vec![0.0; k];
        for (place, (slope, from)) in slope.chunks_exact_mut(heads * k).zip(from.chunks_exact(width)).enumerate() {
            let (cos, sin) = (&cos[place * half..][..half], &sin[place * half..][..half]);
            for (slope, x) in slope.chunks_exact_mut(k).zip(from[offset..].chunks_exact(k)) {
                for i in 0..half {
                    let (y1, y2) = (slope[i], slope[half + i]);
                    straight[i] = factor * (y1 * cos[i] + y2 * sin[i]);
                    straight[half + i] = factor * (y2 * cos[i] - y1 * sin[i]);
                }
                let r = norm::inverse(x);
                norm::add_scale_gradient(gradient, x, r, &straight);
                slope.fill(0.0);
                norm::add_gradient(slope, x, scale, r, &straight);
            }
        }
    }
}

vectorised! {
    /// Scores to weights, `[rows, seen]`; row `i` belongs to query `first + i/group`, which sees itself and what is before it.
    fn softmax(scores: &mut [f32], peaks: &mut [f32], first: usize, group: usize, seen: usize) {
        for (at, (row, log_sum)) in scores.chunks_exact_mut(seen).zip(peaks).enumerate() {
            let (visible, hidden) = row.split_at_mut(first + at / group + 1);
            let highest = peak(visible);
            visible.iter_mut().for_each(|x| *x = exp(*x - highest));
            let total = super::vector::sum(visible);
            let inverse = 1.0 / total;
            visible.iter_mut().for_each(|x| *x *= inverse);
            hidden.fill(0.0);
            *log_sum = highest + total.ln();
        }
    }
}

vectorised! {
    /// Scores to weights again, and the gradient of the weights to that of the scores.
    fn unsoftmax(scores: &mut [f32], slopes: &mut [f32], peaks: &[f32], d_out: &[f32], out: &[f32], first: usize, group: usize, seen: usize) {
        let kv = out.len() / peaks.len();
        let rows = scores.chunks_exact_mut(seen).zip(slopes.chunks_exact_mut(seen)).zip(peaks);
        let rows = rows.zip(d_out.chunks_exact(kv)).zip(out.chunks_exact(kv));
        for (at, ((((scores, slopes), log_sum), d_out), out)) in rows.enumerate() {
            let visible = first + at / group + 1;
            let along = dot(d_out, out);
            for (score, slope) in scores[..visible].iter_mut().zip(&mut slopes[..visible]) {
                *score = exp(*score - log_sum);
                *slope = *score * (*slope - along);
            }
            scores[visible..].fill(0.0);
            slopes[visible..].fill(0.0);
        }
    }
}
