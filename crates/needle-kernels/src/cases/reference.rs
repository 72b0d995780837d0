//! The operations in plain float64 arithmetic, written from their equations and from nothing else: what the kernels are
//! held to. Slow on purpose: matrices where the kernels have butterflies, whole softmaxes where they go step by step.

const EPSILON: f64 = 1e-6;

/// `1 / (1 + e^{-z})`.
pub fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

/// `x / sqrt(mean(x²) + ε)`.
pub fn rms_unit(x: &[f64]) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    x.iter().map(|x| x / (mean + EPSILON).sqrt()).collect()
}

/// `(1 + s) ∘ rms_unit(x)`.
pub fn zcrms(x: &[f64], s: &[f64]) -> Vec<f64> {
    rms_unit(x).iter().zip(s).map(|(x, s)| (1.0 + s) * x).collect()
}

/// `H·x`, `H[i, j] = (−1)^popcount(i & j) / sqrt(n)`.
pub fn walsh_hadamard(x: &[f64]) -> Vec<f64> {
    let scale = 1.0 / (x.len() as f64).sqrt();
    let entry = |i: usize, j: usize| {
        if (i & j).count_ones().is_multiple_of(2) {
            scale
        } else {
            -scale
        }
    };
    (0..x.len())
        .map(|i| x.iter().enumerate().map(|(j, x)| entry(i, j) * x).sum())
        .collect()
}

/// `(d₃ ∘ H·silu(d₂ ∘ H·(d₁ ∘ x)))[..d]`, `x` zero-padded to the diagonals' width.
pub fn hadamard_mlp(x: &[f64], d1: &[f64], d2: &[f64], d3: &[f64]) -> Vec<f64> {
    let mut z = x.to_vec();
    z.resize(d1.len(), 0.0);
    z.iter_mut().zip(d1).for_each(|(z, d)| *z *= d);
    let mut z = walsh_hadamard(&z);
    z.iter_mut().zip(d2).for_each(|(z, d)| *z = *z * d * sigmoid(*z * d));
    let z = walsh_hadamard(&z);
    z.iter().zip(d3).take(x.len()).map(|(z, d)| z * d).collect()
}

/// 20 rounds in log space, of rows and then columns; `m: [n, n]`.
pub fn sinkhorn(m: &[f64], n: usize) -> Vec<f64> {
    let log_sum_exp = |values: &[f64]| {
        let peak = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        peak + values.iter().map(|v| (v - peak).exp()).sum::<f64>().ln()
    };
    let mut log = m.to_vec();
    for _ in 0..20 {
        for row in log.chunks_exact_mut(n) {
            let sum = log_sum_exp(row);
            row.iter_mut().for_each(|x| *x -= sum);
        }
        for column in 0..n {
            let values: Vec<f64> = (0..n).map(|row| log[row * n + column]).collect();
            let sum = log_sum_exp(&values);
            (0..n).for_each(|row| log[row * n + column] -= sum);
        }
    }
    log.iter().map(|x| x.exp()).collect()
}

/// What the lanes of one row decide.
pub struct Mix {
    /// `[n]`.
    pub pre: Vec<f64>,
    /// `[n]`.
    pub post: Vec<f64>,
    /// `[n, n]`.
    pub res: Vec<f64>,
}

impl Mix {
    /// pre, post and R in a row.
    pub fn joined(&self) -> Vec<f64> {
        [&self.pre[..], &self.post, &self.res].concat()
    }
}

/// `x: [n, d]`, `phi: [n + n + n·n, n·d]`, `bias` with the home lane's offsets added.
pub fn lanes_decide(x: &[f64], phi: &[f64], bias: &[f64], scale: &[f64], n: usize) -> Mix {
    let nx = rms_unit(x);
    let z: Vec<f64> = phi
        .chunks_exact(x.len())
        .zip(bias)
        .enumerate()
        .map(|(o, (phi, bias))| {
            let a = scale[if o < n { 0 } else { usize::from(o >= 2 * n) + 1 }];
            a * phi.iter().zip(&nx).map(|(phi, nx)| phi * nx).sum::<f64>() + bias
        })
        .collect();
    Mix {
        pre: z[..n].iter().map(|&z| sigmoid(z)).collect(),
        post: z[n..2 * n].iter().map(|&z| 2.0 * sigmoid(z)).collect(),
        res: sinkhorn(&z[2 * n..], n),
    }
}

/// `u = Σ_i pre_i X_i`.
pub fn lanes_read(x: &[f64], pre: &[f64]) -> Vec<f64> {
    let d = x.len() / pre.len();
    (0..d)
        .map(|i| pre.iter().enumerate().map(|(l, pre)| pre * x[l * d + i]).sum())
        .collect()
}

/// `X_i ← Σ_j R_ij X_j + post_i·(y − u)`.
pub fn lanes_mix(x: &[f64], y: &[f64], mix: &Mix) -> Vec<f64> {
    let (n, d) = (mix.pre.len(), y.len());
    let u = lanes_read(x, &mix.pre);
    let entry = |at: usize| {
        let (lane, i) = (at / d, at % d);
        let mixed: f64 = (0..n).map(|j| mix.res[lane * n + j] * x[j * d + i]).sum();
        mixed + mix.post[lane] * (y[i] - u[i])
    };
    (0..n * d).map(entry).collect()
}

/// `x + α·v`, `α = σ(⟨rms_unit(x), rms_unit(k)⟩ / sqrt(d))`.
pub fn recall(x: &[f64], key: &[f64], value: &[f64]) -> Vec<f64> {
    let agreement: f64 = rms_unit(x).iter().zip(rms_unit(key)).map(|(x, k)| x * k).sum();
    let alpha = sigmoid(agreement / (x.len() as f64).sqrt());
    x.iter().zip(value).map(|(x, v)| x + alpha * v).collect()
}

/// Half-split rotation; `angles`: cosines, then sines.
pub fn rope(x: &[f64], angles: &[f64]) -> Vec<f64> {
    let half = x.len() / 2;
    let (cos, sin) = angles.split_at(half);
    let first = (0..half).map(|i| x[i] * cos[i] - x[half + i] * sin[i]);
    let second = (0..half).map(|i| x[half + i] * cos[i] + x[i] * sin[i]);
    first.chain(second).collect()
}

/// One query over keys and values: `softmax(q·K / sqrt(k))·V`.
pub fn attend(q: &[f64], keys: &[Vec<f64>], values: &[Vec<f64>]) -> Vec<f64> {
    let scale = (q.len() as f64).sqrt();
    let scores: Vec<f64> = keys
        .iter()
        .map(|key| q.iter().zip(key).map(|(q, k)| q * k).sum::<f64>() / scale)
        .collect();
    let peak = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - peak).exp()).collect();
    let total: f64 = weights.iter().sum();
    let width = values.first().map_or(0, Vec::len);
    (0..width)
        .map(|i| weights.iter().zip(values).map(|(w, v)| w * v[i]).sum::<f64>() / total)
        .collect()
}

/// `W·x`, `W: [n_out, n_in]` row-major.
pub fn linear(w: &[f64], x: &[f64]) -> Vec<f64> {
    w.chunks_exact(x.len())
        .map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum())
        .collect()
}

/// The hash of the n-gram that ends at `t`: which row of its table it reads.
pub fn engram_slot(tokens: &[u32], t: usize, order: usize, seed: u32, slots: u32) -> u32 {
    let mut a = 0x9E37_79B9u32.wrapping_mul(seed);
    for r in 0..order {
        let token = if r <= t { tokens[t - r] } else { 0 };
        a = (a ^ token).wrapping_mul(0x0100_0193);
    }
    (a ^ (a >> 15)) % slots
}

/// One packed group widened: `(norm·level[code])·H`.
pub fn widen(codes: &[u8], norm: f64, levels: &[f64]) -> Vec<f64> {
    let rotated: Vec<f64> = codes.iter().map(|&code| norm * levels[usize::from(code)]).collect();
    walsh_hadamard(&rotated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_is_its_own_inverse() {
        let x: Vec<f64> = (0..16).map(f64::from).collect();
        let back = walsh_hadamard(&walsh_hadamard(&x));
        assert!(x.iter().zip(&back).all(|(x, y)| (x - y).abs() < 1e-12));
    }

    #[test]
    fn sinkhorn_is_doubly_stochastic() {
        let m = [0.0, 3.0, -2.0, 1.0, 1.0, 0.5, 2.0, -1.0, 0.0];
        let y = sinkhorn(&m, 3);
        for i in 0..3 {
            let column: f64 = (0..3).map(|row| y[row * 3 + i]).sum();
            assert!((column - 1.0).abs() < 1e-12);
        }
    }
}
