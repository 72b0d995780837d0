//! Root-mean-square norms of one row: `y = (1 + s) ∘ r·x`, `r = 1/√(mean(x²) + ε)`.
//!
//! With `g = (1 + s) ∘ dy` and `x̂ = r·x`: `dx = r·(g − x̂·mean(g ∘ x̂))`, `ds = dy ∘ x̂`.

use super::vector::{WIDTH, dot, sum};
use crate::ops::RMS_EPSILON;

/// `r` of a row.
#[inline(always)]
pub(super) fn inverse(x: &[f32]) -> f32 {
    1.0 / (dot(x, x) / x.len() as f32 + RMS_EPSILON as f32).sqrt()
}

/// `y = (1 + s) ∘ r·x`.
#[inline(always)]
pub(super) fn scaled(y: &mut [f32], x: &[f32], s: &[f32], r: f32) {
    for ((y, x), s) in y.iter_mut().zip(x).zip(s) {
        *y = (1.0 + s) * (r * x);
    }
}

/// `Σ (1 + s)·dy·x`.
#[inline(always)]
fn dot_scaled(x: &[f32], s: &[f32], dy: &[f32]) -> f32 {
    let mut sums = [0.0f32; WIDTH];
    let ((x_whole, x_rest), (s_whole, s_rest)) = (x.as_chunks::<WIDTH>(), s.as_chunks::<WIDTH>());
    let (dy_whole, dy_rest) = dy.as_chunks::<WIDTH>();
    for ((x, s), dy) in x_whole.iter().zip(s_whole).zip(dy_whole) {
        for i in 0..WIDTH {
            sums[i] += (1.0 + s[i]) * dy[i] * x[i];
        }
    }
    let rest = x_rest
        .iter()
        .zip(s_rest)
        .zip(dy_rest)
        .map(|((x, s), dy)| (1.0 + s) * dy * x);
    sum(&sums) + rest.sum::<f32>()
}

/// `dx += r·(g − x̂·mean(g ∘ x̂))`.
#[inline(always)]
pub(super) fn add_gradient(dx: &mut [f32], x: &[f32], s: &[f32], r: f32, dy: &[f32]) {
    let along = dot_scaled(x, s, dy);
    let back = r * r * along / x.len() as f32;
    for (((dx, x), s), dy) in dx.iter_mut().zip(x).zip(s).zip(dy) {
        *dx += r * ((1.0 + s) * dy - back * x);
    }
}

/// `ds += dy ∘ x̂`.
#[inline(always)]
pub(super) fn add_scale_gradient(ds: &mut [f32], x: &[f32], r: f32, dy: &[f32]) {
    for ((ds, x), dy) in ds.iter_mut().zip(x).zip(dy) {
        *ds += dy * (r * x);
    }
}
