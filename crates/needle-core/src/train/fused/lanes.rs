//! Hyper-connections: what each position's lanes decide, and the way back through the decisions.
//!
//! With `x̂ = r·X` over all lanes together: `raw = Φ·x̂`, logits `a·raw + b + offset`, of which the first `N` become `σ` (read), the
//! next `N` become `2σ` (write), the last `N²` are Sinkhorn-scaled (mix).

use rayon::prelude::*;

use super::{
    norm::inverse,
    places::Sizes,
    product::{Crew, Matrix, Out, product},
    sinkhorn::{Lanes, Scaling},
    vector::{WIDTH, dot, sigmoid, vectorised},
};

/// The weights of one layer's decisions.
#[derive(Clone, Copy)]
pub(super) struct Weights<'a> {
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
    pub(super) phi: &'a [f32],
    /// The lane that the layer calls its own.
    pub(super) home: usize,
}

/// The decisions of all positions; `C` numbers each.
#[derive(Default)]
pub(super) struct Decisions {
    /// `Φ·x̂`, `[T, C]`
    pub(super) raw: Vec<f32>,
    /// Read, write and mix, `[T, C]`.
    pub(super) made: Vec<f32>,
    /// `r`, `[T]`
    pub(super) inverse: Vec<f32>,
}

impl Decisions {
    /// Decides for lanes `x: [T, N·D]`.
    pub(super) fn make(&mut self, x: &[f32], weights: Weights<'_>, sizes: Sizes) {
        let (wide, c) = (sizes.n * sizes.d, sizes.decisions());
        let t = x.len() / wide;
        self.raw.resize(t * c, 0.0);
        self.made.resize(t * c, 0.0);
        self.inverse.resize(t, 0.0);
        let phi = Matrix::new(weights.phi, wide).t();
        product(Out::over(&mut self.raw, c), 1.0, Matrix::new(x, wide), phi, Crew::All);
        let rows = self
            .raw
            .par_chunks_mut(WIDTH * c)
            .zip(self.made.par_chunks_mut(WIDTH * c));
        let rows = rows
            .zip(self.inverse.par_chunks_mut(WIDTH))
            .zip(x.par_chunks(WIDTH * wide));
        rows.for_each_init(
            || Scaling::new(sizes.n),
            |scaling, (((raw, made), inverse), x)| decide(raw, made, inverse, x, weights, scaling, sizes.n),
        );
    }

    /// `slope`: the gradient of `made` in, `r` times that of `raw` out. Returns for every position `r²·⟨d x̂, x̂⟩/(N·D)`, the part of
    /// `X` that its gradient loses, and the gradients of `a` and `b` where they are wanted.
    pub(super) fn back(&self, slope: &mut [f32], weights: Weights<'_>, sizes: Sizes) -> (Vec<f32>, Vec<f32>) {
        let c = sizes.decisions();
        let mut lost = vec![0.0; self.inverse.len()];
        let rows = slope.par_chunks_mut(WIDTH * c).zip(lost.par_chunks_mut(WIDTH));
        let rows = rows
            .zip(self.raw.par_chunks(WIDTH * c))
            .zip(self.made.par_chunks(WIDTH * c));
        let rows = rows.zip(self.inverse.par_chunks(WIDTH));
        let parts: Vec<Vec<f32>> = rows
            .map_init(
                || Scaling::new(sizes.n),
                |scaling, ((((slope, lost), raw), made), inverse)| {
                    // Gradients of a, then of b.
                    let mut gradient = vec![0.0; 3 + c];
                    undecide(slope, lost, &mut gradient, raw, made, inverse, weights, scaling, sizes);
                    gradient
                },
            )
            .collect();
        let mut gradient = vec![0.0; 3 + c];
        for part in parts {
            gradient.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
        (lost, gradient)
    }
}

/// The part of the decisions that number `at` belongs to, and its fixed offset.
#[inline(always)]
fn part(at: usize, n: usize, home: usize) -> (usize, f32) {
    match at {
        _ if at < n => (0, if at == home { 4.0 } else { -4.0 }),
        _ if at < 2 * n => (1, if at - n == home { 0.0 } else { -4.0 }),
        _ => (2, 0.0),
    }
}

/// The mix's logits of up to 16 positions, one position a lane; unused lanes are zero.
#[inline(always)]
fn gather(logits: &mut Vec<Lanes>, raw: &[f32], weights: Weights<'_>, n: usize) {
    let c = 2 * n + n * n;
    logits.clear();
    for at in 0..n * n {
        let mut lanes = [0.0; WIDTH];
        for (lane, raw) in lanes.iter_mut().zip(raw.chunks_exact(c)) {
            *lane = weights.a[2] * raw[2 * n + at] + weights.b[2 * n + at];
        }
        logits.push(lanes);
    }
}

vectorised! {
    /// Up to 16 positions.
    fn decide(raw: &mut [f32], made: &mut [f32], inverses: &mut [f32], x: &[f32], weights: Weights<'_>, scaling: &mut Scaling, n: usize) {
        let c = 2 * n + n * n;
        let wide = x.len() / inverses.len();
        let rows = raw.chunks_exact_mut(c).zip(made.chunks_exact_mut(c)).zip(inverses.iter_mut()).zip(x.chunks_exact(wide));
        for (((raw, made), r), x) in rows {
            *r = inverse(x);
            raw.iter_mut().for_each(|raw| *raw *= *r);
            for at in 0..2 * n {
                let (kind, offset) = part(at, n, weights.home);
                let gate = sigmoid(weights.a[kind] * raw[at] + weights.b[at] + offset);
                made[at] = (kind + 1) as f32 * gate;
            }
        }
        let mut mix = Vec::with_capacity(n * n);
        gather(&mut mix, raw, weights, n);
        scaling.forward(&mut mix);
        for (at, lanes) in mix.iter().enumerate() {
            for (made, lane) in made.chunks_exact_mut(c).zip(lanes) {
                made[2 * n + at] = *lane;
            }
        }
    }
}

vectorised! {
    /// Up to 16 positions.
    fn undecide(slope: &mut [f32], lost: &mut [f32], gradient: &mut [f32], raw: &[f32], made: &[f32], inverses: &[f32], weights: Weights<'_>, scaling: &mut Scaling, sizes: Sizes) {
        let (n, wide) = (sizes.n, (sizes.n * sizes.d) as f32);
        let c = sizes.decisions();
        let mut mix = Vec::with_capacity(n * n);
        gather(&mut mix, raw, weights, n);
        scaling.forward(&mut mix);
        for (at, lanes) in mix.iter_mut().enumerate() {
            *lanes = [0.0; WIDTH];
            for (lane, slope) in lanes.iter_mut().zip(slope.chunks_exact(c)) {
                *lane = slope[2 * n + at];
            }
        }
        scaling.backward(&mut mix);
        for (at, lanes) in mix.iter().enumerate() {
            for (slope, lane) in slope.chunks_exact_mut(c).zip(lanes) {
                slope[2 * n + at] = *lane;
            }
        }
        let rows = slope.chunks_exact_mut(c).zip(raw.chunks_exact(c)).zip(made.chunks_exact(c)).zip(inverses).zip(lost);
        for ((((slope, raw), made), r), lost) in rows {
            for at in 0..2 * n {
                // σ' = σ(1 − σ), of which the write gate is twice the σ.
                let share = if at < n { 1.0 } else { 0.5 };
                slope[at] *= made[at] * (1.0 - share * made[at]);
            }
            for at in 0..c {
                let (kind, _) = part(at, n, weights.home);
                gradient[kind] += slope[at] * raw[at];
                gradient[3 + at] += slope[at];
                slope[at] *= weights.a[kind];
            }
            *lost = r * r * dot(slope, raw) / wide;
            slope.iter_mut().for_each(|slope| *slope *= r);
        }
    }
}

/// `u = Σ_i read_i X_i`.
#[inline(always)]
pub(super) fn read(u: &mut [f32], x: &[f32], made: &[f32]) {
    u.fill(0.0);
    let d = u.len();
    for (lane, read) in x.chunks_exact(d).zip(made) {
        u.iter_mut().zip(lane).for_each(|(u, x)| *u += read * x);
    }
}

/// `X'_i = Σ_j mix_ij X_j + write_i y`.
#[inline(always)]
pub(super) fn write(next: &mut [f32], x: &[f32], y: &[f32], made: &[f32], n: usize) {
    let d = y.len();
    for (i, next) in next.chunks_exact_mut(d).enumerate() {
        let write = made[n + i];
        next.iter_mut().zip(y).for_each(|(next, y)| *next = write * y);
        for (x, mix) in x.chunks_exact(d).zip(&made[2 * n + i * n..]) {
            next.iter_mut().zip(x).for_each(|(next, x)| *next += mix * x);
        }
    }
}

/// From the gradient `next` of `X'`: `dy = Σ_i write_i dX'_i`, and the gradients of write and mix.
#[inline(always)]
pub(super) fn write_back(dy: &mut [f32], next: &[f32], made: &[f32], n: usize) {
    dy.fill(0.0);
    let d = dy.len();
    for (i, next) in next.chunks_exact(d).enumerate() {
        let write = made[n + i];
        dy.iter_mut().zip(next).for_each(|(dy, next)| *dy += write * next);
    }
}

/// The gradients of write and mix from that of `X'`.
#[inline(always)]
pub(super) fn decision_slopes(slope: &mut [f32], next: &[f32], x: &[f32], y: &[f32], n: usize) {
    let d = y.len();
    for (i, next) in next.chunks_exact(d).enumerate() {
        slope[n + i] = dot(next, y);
        for (j, x) in x.chunks_exact(d).enumerate() {
            slope[2 * n + i * n + j] = dot(next, x);
        }
    }
}

/// `dX_i = Σ_j mix_ji dX'_j + read_i du − lost·X_i` in the place of `dX'`.
#[inline(always)]
pub(super) fn read_back(next: &mut [f32], x: &[f32], du: &[f32], made: &[f32], lost: f32, n: usize, row: &mut [f32]) {
    let d = du.len();
    row.copy_from_slice(next);
    for (i, (next, x)) in next.chunks_exact_mut(d).zip(x.chunks_exact(d)).enumerate() {
        for ((next, du), x) in next.iter_mut().zip(du).zip(x) {
            *next = made[i] * du - lost * x;
        }
        for (j, row) in row.chunks_exact(d).enumerate() {
            let mix = made[2 * n + j * n + i];
            next.iter_mut().zip(row).for_each(|(next, row)| *next += mix * row);
        }
    }
}
