//! Hyper-connections: `N` lanes of the residual stream, read, written and mixed around each block.
//!
//! With `nx = X/rms(X)` over all lanes together and `home = l mod N`:
//! `pre = σ(a_pre·nx·Φ_pre + b_pre + 8·onehot(home) − 4)`, `post = 2σ(a_post·nx·Φ_post + b_post − 4·(1 − onehot(home)))`,
//! `R = sinkhorn(a_res·nx·Φ_res + b_res)`.

use super::{
    loader::Loader,
    simd::{Isa, LANES, Simd, kernel},
    stack::Stack,
    vector::{inverse_rms, load_part, sigmoid_of, store_part},
};
use crate::{config::Config, error::Result};

/// Rounds of rows, then columns.
const SINKHORN_ROUNDS: usize = 20;
/// Lanes at most; the configuration allows no more.
const MOST_LANES: usize = 64;

/// One layer's connections.
#[derive(Debug)]
pub(super) struct Hyper {
    /// `Φ_pre`, `Φ_post`, `Φ_res`, over all lanes.
    pub(super) phi: Stack,
    lanes: usize,
    /// `a_pre`, `a_post`, `a_res`.
    scales: [f32; 3],
    /// Offsets, the home lane's among them: `[N]`, `[N]`, `[N·N]`.
    offsets: [Vec<f32>; 3],
}

impl Hyper {
    pub(super) fn load(loader: &Loader<'_>, prefix: &str, config: &Config, l: usize) -> Result<Self> {
        let (n, d) = (config.mhc_lanes, config.d_model);
        let name = |part: &str| format!("{prefix}.{part}");
        let rows = [(name("phi_pre"), n), (name("phi_post"), n), (name("phi_res"), n * n)];
        let mut pre = loader.floats(&name("b_pre"), &[n])?;
        let mut post = loader.floats(&name("b_post"), &[n])?;
        for lane in 0..n {
            let home = if lane == l % n { 1.0 } else { 0.0 };
            pre[lane] += 8.0 * home - 4.0;
            post[lane] += 4.0 * home - 4.0;
        }
        Ok(Self {
            phi: Stack::load(loader, &rows, n * d)?,
            lanes: n,
            scales: [
                loader.scalar(&name("a_pre"))?,
                loader.scalar(&name("a_post"))?,
                loader.scalar(&name("a_res"))?,
            ],
            offsets: [pre, post, loader.floats(&name("b_res"), &[n, n])?],
        })
    }

    /// Numbers that [`Hyper::decide`] makes for a position: `pre`, `post`, `R`.
    pub(super) fn mix_len(lanes: usize) -> usize {
        lanes * (2 + lanes)
    }

    /// The decisions of one position from its lanes `x: [N, D]` and `products = x·[Φ_pre, Φ_post, Φ_res]`.
    pub(super) fn decide(&self, isa: Isa, x: &[f32], products: &[f32], mix: &mut [f32]) {
        let n = self.lanes;
        let inverse = inverse_rms(isa, x);
        let (pre, rest) = mix.split_at_mut(n);
        let (post, res) = rest.split_at_mut(n);
        for (which, out) in [pre, post, res].into_iter().enumerate() {
            let products = &products[self.phi.first_row(which)..];
            let scale = self.scales[which] * inverse;
            for ((out, product), offset) in out.iter_mut().zip(products).zip(&self.offsets[which]) {
                *out = scale * product + offset;
            }
        }
        let (pre, rest) = mix.split_at_mut(n);
        let (post, res) = rest.split_at_mut(n);
        pre.iter_mut().for_each(|x| *x = sigmoid_of(*x));
        post.iter_mut().for_each(|x| *x = 2.0 * sigmoid_of(*x));
        match n {
            2 => sinkhorn::<2>(res),
            3 => sinkhorn::<3>(res),
            4 => sinkhorn::<4>(res),
            _ => sinkhorn_any(res, n),
        }
    }
}

/// `exp(m)` made doubly stochastic, by divisions instead of logarithms. In float64, whose exponents reach as far as any
/// float32 logits differ; each row's largest entry is taken out first, which the first row round would do anyhow.
fn sinkhorn<const N: usize>(matrix: &mut [f32]) {
    let mut wide = [[0.0f64; N]; N];
    for (wide, row) in wide.iter_mut().zip(matrix.as_chunks::<N>().0) {
        let peak = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for (wide, x) in wide.iter_mut().zip(row) {
            *wide = f64::from(x - peak).exp().max(f64::MIN_POSITIVE);
        }
    }
    for _ in 0..SINKHORN_ROUNDS {
        for row in &mut wide {
            let inverse = 1.0 / row.iter().sum::<f64>();
            row.iter_mut().for_each(|x| *x *= inverse);
        }
        let mut sums = [0.0; N];
        for row in &wide {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        let inverses = sums.map(|sum| 1.0 / sum);
        for row in &mut wide {
            row.iter_mut().zip(&inverses).for_each(|(x, inverse)| *x *= inverse);
        }
    }
    for (row, wide) in matrix.as_chunks_mut::<N>().0.iter_mut().zip(&wide) {
        row.iter_mut().zip(wide).for_each(|(x, wide)| *x = *wide as f32);
    }
}

/// The same for any number of lanes.
fn sinkhorn_any(matrix: &mut [f32], n: usize) {
    let mut wide = [0.0f64; MOST_LANES * MOST_LANES];
    let wide = &mut wide[..n * n];
    for (wide, row) in wide.chunks_exact_mut(n).zip(matrix.chunks_exact(n)) {
        let peak = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for (wide, x) in wide.iter_mut().zip(row) {
            *wide = f64::from(x - peak).exp().max(f64::MIN_POSITIVE);
        }
    }
    for _ in 0..SINKHORN_ROUNDS {
        for row in wide.chunks_exact_mut(n) {
            let inverse = 1.0 / row.iter().sum::<f64>();
            row.iter_mut().for_each(|x| *x *= inverse);
        }
        for column in 0..n {
            let inverse = 1.0 / wide.iter().skip(column).step_by(n).sum::<f64>();
            wide.iter_mut().skip(column).step_by(n).for_each(|x| *x *= inverse);
        }
    }
    matrix.iter_mut().zip(wide).for_each(|(x, wide)| *x = *wide as f32);
}

kernel!(
    /// `u = Σ_i h_i X_i` for lanes `x: [N, D]`.
    pub(super) fn read_lanes = read_lanes_in(x: &[f32], h: &[f32], u: &mut [f32])
);

#[inline(always)]
fn read_lanes_in<S: Simd>(s: S, x: &[f32], h: &[f32], u: &mut [f32]) {
    let d = u.len();
    for (at, u) in u.chunks_mut(LANES).enumerate() {
        let mut sum = s.splat(0.0);
        for (lane, h) in x.chunks_exact(d).zip(h) {
            let lane = &lane[at * LANES..][..u.len()];
            sum = s.fma(s.splat(*h), load_part(s, lane), sum);
        }
        store_part(s, sum, u);
    }
}

kernel!(
    /// `X_i ← Σ_j R_ij X_j + h_i (b − u)`, in place.
    pub(super) fn write_lanes = write_lanes_in(x: &mut [f32], r: &[f32], h: &[f32], block: (&[f32], &[f32]))
);

#[inline(always)]
fn write_lanes_in<S: Simd>(s: S, x: &mut [f32], r: &[f32], h: &[f32], block: (&[f32], &[f32])) {
    match h.len() {
        2 => write_some::<S, 2>(s, x, r, h, block),
        4 => write_some::<S, 4>(s, x, r, h, block),
        _ => write_some::<S, MOST_LANES>(s, x, r, h, block),
    }
}

/// At most `MOST` lanes.
#[inline(always)]
fn write_some<S: Simd, const MOST: usize>(s: S, x: &mut [f32], r: &[f32], h: &[f32], (b, u): (&[f32], &[f32])) {
    let (n, d) = (h.len().min(MOST), u.len());
    let mut lanes = [s.splat(0.0); MOST];
    for ((at, u), b) in u.chunks(LANES).enumerate().zip(b.chunks(LANES)) {
        let y = s.sub(load_part(s, b), load_part(s, u));
        for (lane, x) in lanes[..n].iter_mut().zip(x.chunks_exact(d)) {
            *lane = load_part(s, &x[at * LANES..][..u.len()]);
        }
        for ((x, r), h) in x.chunks_exact_mut(d).zip(r.chunks_exact(n)).zip(h) {
            let mut sum = s.mul(s.splat(*h), y);
            for (lane, r) in lanes[..n].iter().zip(r) {
                sum = s.fma(s.splat(*r), *lane, sum);
            }
            store_part(s, sum, &mut x[at * LANES..][..u.len()]);
        }
    }
}

kernel!(
    /// The mean of the lanes `x: [N, D]`.
    pub(super) fn mean_lanes = mean_lanes_in(x: &[f32], mean: &mut [f32])
);

#[inline(always)]
fn mean_lanes_in<S: Simd>(s: S, x: &[f32], mean: &mut [f32]) {
    let d = mean.len();
    let n = s.splat((x.len() / d) as f32);
    for (at, mean) in mean.chunks_mut(LANES).enumerate() {
        let mut sum = s.splat(0.0);
        for lane in x.chunks_exact(d) {
            sum = s.add(sum, load_part(s, &lane[at * LANES..][..mean.len()]));
        }
        store_part(s, s.div(sum, n), mean);
    }
}
