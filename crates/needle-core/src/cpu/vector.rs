//! Small kernels over one position's numbers: norms, gates, sums, the exponential.

use super::simd::{LANES, Simd, kernel};

/// Added to the mean square, as the reference does.
const RMS_EPSILON: f32 = 1e-6;

/// Up to sixteen numbers; missing ones are zero.
#[inline(always)]
pub(super) fn load_part<S: Simd>(s: S, x: &[f32]) -> S::F {
    match x.first_chunk::<LANES>() {
        Some(x) => s.load(x),
        None => {
            let mut whole = [0.0; LANES];
            whole[..x.len()].copy_from_slice(x);
            s.load(&whole)
        }
    }
}

/// The first lanes into up to sixteen places.
#[inline(always)]
pub(super) fn store_part<S: Simd>(s: S, v: S::F, x: &mut [f32]) {
    match x.first_chunk_mut::<LANES>() {
        Some(x) => s.store(v, x),
        None => {
            let mut whole = [0.0; LANES];
            s.store(v, &mut whole);
            let count = x.len();
            x.copy_from_slice(&whole[..count]);
        }
    }
}

/// `eˣ`, within 10⁻⁷ of it, for `x` from −87 to 88; beyond, the value there.
#[inline(always)]
pub(super) fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    let x = s.max(s.min(x, s.splat(88.0)), s.splat(-87.0));
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let whole = s.to_f32(n);
    // ln 2 in two parts, the first of few bits.
    let r = s.fma(whole, s.splat(-0.693_359_4), x);
    let r = s.fma(whole, s.splat(2.121_944_4e-4), r);
    let mut p = s.splat(1.987_569_1e-4);
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = s.fma(p, r, s.splat(coefficient));
    }
    let y = s.add(s.fma(p, s.mul(r, r), r), s.splat(1.0));
    s.scale_by_power(y, n)
}

/// `1/(1 + e⁻ˣ)`.
#[inline(always)]
fn sigmoid<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    s.div(one, s.add(one, exp(s, s.sub(s.splat(0.0), x))))
}

/// `σ(x)` of one number.
pub(super) fn sigmoid_of(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

kernel!(
    /// `1/sqrt(mean(x²) + ε)`.
    pub(super) fn inverse_rms = inverse_rms_in(x: &[f32]) -> f32
);

#[inline(always)]
fn inverse_rms_in<S: Simd>(s: S, x: &[f32]) -> f32 {
    let mut squares = [s.splat(0.0); 4];
    let mut wide = x.chunks_exact(4 * LANES);
    for x in &mut wide {
        for (squares, x) in squares.iter_mut().zip(x.as_chunks().0) {
            let x = s.load(x);
            *squares = s.fma(x, x, *squares);
        }
    }
    for x in wide.remainder().chunks(LANES) {
        let x = load_part(s, x);
        squares[0] = s.fma(x, x, squares[0]);
    }
    let [a, b, c, d] = squares;
    let mean = s.sum(s.add(s.add(a, b), s.add(c, d))) / x.len() as f32;
    1.0 / (mean + RMS_EPSILON).sqrt()
}

kernel!(
    /// `y = gain ∘ x/sqrt(mean(x²) + ε)`.
    pub(super) fn rms_norm = rms_norm_in(x: &[f32], gain: &[f32], y: &mut [f32])
);

#[inline(always)]
fn rms_norm_in<S: Simd>(s: S, x: &[f32], gain: &[f32], y: &mut [f32]) {
    let inverse = s.splat(inverse_rms_in(s, x));
    for ((y, x), gain) in y.chunks_mut(LANES).zip(x.chunks(LANES)).zip(gain.chunks(LANES)) {
        let normed = s.mul(load_part(s, x), inverse);
        store_part(s, s.mul(load_part(s, gain), normed), y);
    }
}

kernel!(
    /// `y ← y + scale·gain ∘ x/sqrt(mean(x²) + ε)`.
    pub(super) fn add_rms_norm = add_rms_norm_in(x: &[f32], gain: &[f32], scale: f32, y: &mut [f32])
);

#[inline(always)]
fn add_rms_norm_in<S: Simd>(s: S, x: &[f32], gain: &[f32], scale: f32, y: &mut [f32]) {
    let inverse = s.splat(inverse_rms_in(s, x) * scale);
    for ((y, x), gain) in y.chunks_mut(LANES).zip(x.chunks(LANES)).zip(gain.chunks(LANES)) {
        let normed = s.mul(load_part(s, x), inverse);
        store_part(s, s.fma(load_part(s, gain), normed, load_part(s, y)), y);
    }
}

kernel!(
    /// `y ← y ∘ σ(gate)`.
    pub(super) fn gate = gate_in(gate: &[f32], y: &mut [f32])
);

#[inline(always)]
fn gate_in<S: Simd>(s: S, gate: &[f32], y: &mut [f32]) {
    for (y, gate) in y.chunks_mut(LANES).zip(gate.chunks(LANES)) {
        store_part(s, s.mul(load_part(s, y), sigmoid(s, load_part(s, gate))), y);
    }
}

kernel!(
    /// `y ← y + a·x`.
    pub(super) fn add_scaled = add_scaled_in(a: f32, x: &[f32], y: &mut [f32])
);

#[inline(always)]
fn add_scaled_in<S: Simd>(s: S, a: f32, x: &[f32], y: &mut [f32]) {
    let a = s.splat(a);
    for (y, x) in y.chunks_mut(LANES).zip(x.chunks(LANES)) {
        store_part(s, s.fma(a, load_part(s, x), load_part(s, y)), y);
    }
}

kernel!(
    /// `⟨x, y⟩`.
    pub(super) fn dot = dot_in(x: &[f32], y: &[f32]) -> f32
);

#[inline(always)]
fn dot_in<S: Simd>(s: S, x: &[f32], y: &[f32]) -> f32 {
    let mut sum = s.splat(0.0);
    for (x, y) in x.chunks(LANES).zip(y.chunks(LANES)) {
        sum = s.fma(load_part(s, x), load_part(s, y), sum);
    }
    s.sum(sum)
}

kernel!(
    /// `z ← silu(d ∘ z)`.
    pub(super) fn scaled_silu = scaled_silu_in(d: &[f32], z: &mut [f32])
);

#[inline(always)]
fn scaled_silu_in<S: Simd>(s: S, d: &[f32], z: &mut [f32]) {
    for (z, d) in z.chunks_mut(LANES).zip(d.chunks(LANES)) {
        let x = s.mul(load_part(s, d), load_part(s, z));
        store_part(s, s.mul(x, sigmoid(s, x)), z);
    }
}

kernel!(
    /// `z = d ∘ x`, zero beyond the end of `x`.
    pub(super) fn scaled = scaled_in(d: &[f32], x: &[f32], z: &mut [f32])
);

#[inline(always)]
fn scaled_in<S: Simd>(s: S, d: &[f32], x: &[f32], z: &mut [f32]) {
    let (head, tail) = z.split_at_mut(x.len());
    for ((z, x), d) in head.chunks_mut(LANES).zip(x.chunks(LANES)).zip(d.chunks(LANES)) {
        store_part(s, s.mul(load_part(s, d), load_part(s, x)), z);
    }
    tail.fill(0.0);
}

kernel!(
    /// `y ← y + d ∘ z`, over the length of `y`.
    pub(super) fn add_product = add_product_in(d: &[f32], z: &[f32], y: &mut [f32])
);

#[inline(always)]
fn add_product_in<S: Simd>(s: S, d: &[f32], z: &[f32], y: &mut [f32]) {
    for ((y, z), d) in y.chunks_mut(LANES).zip(z.chunks(LANES)).zip(d.chunks(LANES)) {
        let (z, d) = (&z[..y.len()], &d[..y.len()]);
        store_part(s, s.fma(load_part(s, d), load_part(s, z), load_part(s, y)), y);
    }
}

kernel!(
    /// A head after its norm, turned by its position's angles: `x = gain ∘ x/rms(x)`, halves `(x₁, x₂)`,
    /// `(x₁ cos − x₂ sin, x₂ cos + x₁ sin)`.
    pub(super) fn norm_and_turn = norm_and_turn_in(x: &mut [f32], gain: &[f32], cos: &[f32], sin: &[f32])
);

#[inline(always)]
fn norm_and_turn_in<S: Simd>(s: S, x: &mut [f32], gain: &[f32], cos: &[f32], sin: &[f32]) {
    let inverse = s.splat(inverse_rms_in(s, x));
    let half = x.len() / 2;
    let (low, high) = x.split_at_mut(half);
    let (gain_low, gain_high) = gain.split_at(half);
    let gains = gain_low.chunks(LANES).zip(gain_high.chunks(LANES));
    let angles = cos.chunks(LANES).zip(sin.chunks(LANES));
    let halves = low.chunks_mut(LANES).zip(high.chunks_mut(LANES));
    for (((low, high), (gain_low, gain_high)), (cos, sin)) in halves.zip(gains).zip(angles) {
        let a = s.mul(load_part(s, gain_low), s.mul(load_part(s, low), inverse));
        let b = s.mul(load_part(s, gain_high), s.mul(load_part(s, high), inverse));
        let (cos, sin) = (load_part(s, cos), load_part(s, sin));
        store_part(s, s.sub(s.mul(a, cos), s.mul(b, sin)), low);
        store_part(s, s.fma(b, cos, s.mul(a, sin)), high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Isa;

    fn ramp(n: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.03).collect()
    }

    kernel!(fn exp_of = exp_each(x: &mut [f32]));

    #[inline(always)]
    fn exp_each<S: Simd>(s: S, x: &mut [f32]) {
        for x in x.chunks_mut(LANES) {
            store_part(s, exp(s, load_part(s, x)), x);
        }
    }

    #[test]
    fn exponentials() {
        for isa in Isa::all() {
            let x: Vec<f32> = (-8700..8800).map(|i| i as f32 * 0.01).collect();
            let mut y = x.clone();
            exp_of(isa, &mut y);
            for (x, y) in x.iter().zip(&y) {
                let exact = f64::from(*x).exp();
                assert!((f64::from(*y) - exact).abs() <= 2e-7 * exact, "{isa}: e^{x} is {y}");
            }
        }
    }

    #[test]
    fn norms_of_any_length_agree_with_their_definition() {
        for isa in Isa::all() {
            for n in [1, 7, 16, 48, 100, 512] {
                let (x, gain) = (ramp(n), ramp(n + 1)[1..].to_vec());
                let mut y = vec![0.0; n];
                rms_norm(isa, &x, &gain, &mut y);
                let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / n as f64;
                for ((y, x), gain) in y.iter().zip(&x).zip(&gain) {
                    let exact = f64::from(*x) * f64::from(*gain) / (mean + 1e-6).sqrt();
                    assert!((f64::from(*y) - exact).abs() < 1e-5, "{isa}, {n}: {y} and {exact}");
                }
            }
        }
    }
}
