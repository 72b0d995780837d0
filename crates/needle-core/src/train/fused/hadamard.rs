//! The MLP without weight matrices, one row: `t = H(d₁∘z)`, `b = d₂∘t`, `w = H(silu(b))`, `y = (d₃∘w)[..D]`.

use super::vector::sigmoid;

/// The intermediate rows of one position, `[m]` each.
pub(super) struct Rows {
    /// `d₂∘H(d₁∘z)`
    b: Vec<f32>,
    /// `H(d₁∘z)`
    t: Vec<f32>,
    /// `H(silu(b))`
    w: Vec<f32>,
    /// For the way back.
    slope: Vec<f32>,
}

/// The three diagonals, `[m]` each.
#[derive(Clone, Copy)]
pub(super) struct Diagonals<'a> {
    pub(super) d1: &'a [f32],
    pub(super) d2: &'a [f32],
    pub(super) d3: &'a [f32],
}

/// Where their gradients are added up.
pub(super) struct DiagonalGradients<'a> {
    pub(super) d1: &'a mut [f32],
    pub(super) d2: &'a mut [f32],
    pub(super) d3: &'a mut [f32],
}

impl Rows {
    pub(super) fn new(m: usize) -> Self {
        Self {
            b: vec![0.0; m],
            t: vec![0.0; m],
            w: vec![0.0; m],
            slope: vec![0.0; m],
        }
    }

    /// Adds the MLP of `z: [D]` to `y: [D]`.
    #[inline(always)]
    pub(super) fn add(&mut self, y: &mut [f32], z: &[f32], diagonals: Diagonals<'_>) {
        let Self { b, t, w, .. } = self;
        let Diagonals { d1, d2, d3 } = diagonals;
        t[z.len()..].fill(0.0);
        for ((t, z), d1) in t.iter_mut().zip(z).zip(d1) {
            *t = d1 * z;
        }
        transform(t);
        for ((b, t), d2) in b.iter_mut().zip(t.iter()).zip(d2) {
            *b = d2 * t;
        }
        for (w, b) in w.iter_mut().zip(b.iter()) {
            *w = b * sigmoid(*b);
        }
        transform(w);
        for ((y, w), d3) in y.iter_mut().zip(w.iter()).zip(d3) {
            *y += d3 * w;
        }
    }

    /// `dz` from `dy`, after [`Rows::add`] of the same row.
    #[inline(always)]
    pub(super) fn gradient(
        &mut self,
        dz: &mut [f32],
        dy: &[f32],
        z: &[f32],
        diagonals: Diagonals<'_>,
        gradients: Option<DiagonalGradients<'_>>,
    ) {
        let Diagonals { d1, d2, d3 } = diagonals;
        let mut gradients = gradients;
        let Self { b, t, w, slope } = self;
        slope[dy.len()..].fill(0.0);
        for ((slope, dy), d3) in slope.iter_mut().zip(dy).zip(d3) {
            *slope = d3 * dy;
        }
        transform(slope);
        for (slope, b) in slope.iter_mut().zip(b.iter()) {
            let gate = sigmoid(*b);
            *slope *= gate * (1.0 + b * (1.0 - gate));
        }
        if let Some(gradients) = &mut gradients {
            for ((d3, dy), w) in gradients.d3.iter_mut().zip(dy).zip(w.iter()) {
                *d3 += dy * w;
            }
            for ((d2, slope), t) in gradients.d2.iter_mut().zip(slope.iter()).zip(t.iter()) {
                *d2 += slope * t;
            }
        }
        for (slope, d2) in slope.iter_mut().zip(d2) {
            *slope *= d2;
        }
        transform(slope);
        if let Some(gradients) = &mut gradients {
            for ((d1, slope), z) in gradients.d1.iter_mut().zip(slope.iter()).zip(z) {
                *d1 += slope * z;
            }
        }
        for ((dz, slope), d1) in dz.iter_mut().zip(slope.iter()).zip(d1) {
            *dz = d1 * slope;
        }
    }
}

/// The orthonormal Walsh-Hadamard transform in place; the length is a power of two.
#[inline(always)]
fn transform(row: &mut [f32]) {
    const SHORT: usize = 16;
    let scale = 1.0 / (row.len() as f32).sqrt();
    let (blocks, rest) = row.as_chunks_mut::<SHORT>();
    if blocks.is_empty() {
        butterflies(rest, 1);
    } else {
        for block in blocks {
            short(block);
        }
        butterflies(row, SHORT);
    }
    row.iter_mut().for_each(|x| *x *= scale);
}

/// All stages within 16 entries.
#[inline(always)]
fn short(block: &mut [f32; 16]) {
    *block = stage::<8>(stage::<4>(stage::<2>(stage::<1>(*block))));
}

/// Pairs `i` with `i ⊕ HALF`; the upper of the two gets the difference. Without a branch, so that it becomes a permutation, a
/// product and a sum.
#[inline(always)]
fn stage<const HALF: usize>(x: [f32; 16]) -> [f32; 16] {
    let mut y = [0.0; 16];
    for i in 0..16 {
        let sign = 1.0 - 2.0 * ((i / HALF) % 2) as f32;
        y[i] = x[i ^ HALF] + sign * x[i];
    }
    y
}

#[inline(always)]
fn butterflies(row: &mut [f32], first: usize) {
    let mut half = first;
    while half < row.len() {
        for pair in row.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}
