//! Root-mean-square norms of one row: `y = (1 + s) ∘ r·x`, `r = 1/√(mean(x²) + ε)`.
//!
//! With `g = (1 + s) ∘ dy` and `x̂ = r·x`: `dx = r·(g − x̂·mean(g ∘ x̂))`, `ds = dy ∘ x̂`.

use super::vector::dot;
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

/// `dx += r·(g − x̂·mean(g ∘ x̂))`.
#[inline(always)]
pub(super) fn add_gradient(dx: &mut [f32], x: &[f32], s: &[f32], r: f32, dy: &[f32]) {
    let mut sums = [0.0f32; super::vector::WIDTH];
    let whole = x.len() / sums.len() * sums.len();
    for at in (0..whole).step_by(sums.len()) {
        for i in 0..sums.len() {
            sums[i] += (1.0 + s[at + i]) * dy[at + i] * x[at + i];
        }
    }
    let mut along = super::vector::sum(&sums);
    for at in whole..x.len() {
        along += (1.0 + s[at]) * dy[at] * x[at];
    }
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
