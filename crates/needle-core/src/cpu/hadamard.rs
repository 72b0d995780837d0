//! The orthonormal Walsh-Hadamard transform in registers.

use super::{
    simd::{LANES, Simd, kernel},
    vector::load_part,
};

/// Values transformed in registers at once.
pub(super) const CHUNK: usize = 8 * LANES;

kernel!(
    /// `x ← H·x` for the whole of `x`, whose length is a power of two.
    pub(super) fn rotate = rotate_in(x: &mut [f32])
);

#[inline(always)]
pub(super) fn rotate_in<S: Simd>(s: S, x: &mut [f32]) {
    let scale = 1.0 / (x.len() as f32).sqrt();
    match x.len() {
        ..LANES => small(x, scale),
        LANES => whole::<S, 1>(s, x, scale),
        32 => whole::<S, 2>(s, x, scale),
        64 => whole::<S, 4>(s, x, scale),
        _ => {
            for x in x.chunks_exact_mut(CHUNK) {
                whole::<S, 8>(s, x, scale);
            }
            rounds(s, x);
        }
    }
}

/// `N` vectors transformed in registers, multiplied by `scale`; missing values at the end of `x` are zero.
#[inline(always)]
pub(super) fn registers<S: Simd, const N: usize>(s: S, x: &[f32], scale: f32) -> [S::F; N] {
    let mut v = [s.splat(0.0); N];
    let scale = s.splat(scale);
    for (v, x) in v.iter_mut().zip(x.chunks(LANES)) {
        let y = s.butterfly::<1>(s.mul(load_part(s, x), scale));
        let y = s.butterfly::<2>(y);
        let y = s.butterfly::<4>(y);
        *v = s.butterfly::<8>(y);
    }
    let mut half = 1;
    while half < N {
        let mut i = 0;
        while i < N {
            if i & half == 0 {
                (v[i], v[i + half]) = (s.add(v[i], v[i + half]), s.sub(v[i], v[i + half]));
            }
            i += 1;
        }
        half *= 2;
    }
    v
}

#[inline(always)]
fn whole<S: Simd, const N: usize>(s: S, x: &mut [f32], scale: f32) {
    let v = registers::<S, N>(s, x, scale);
    for (v, x) in v.iter().zip(x.as_chunks_mut().0) {
        s.store(*v, x);
    }
}

/// Fewer values than a vector has lanes.
fn small(x: &mut [f32], scale: f32) {
    let mut half = 1;
    while half < x.len() {
        for pair in x.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    x.iter_mut().for_each(|x| *x *= scale);
}

/// The rounds between chunks.
#[inline(always)]
fn rounds<S: Simd>(s: S, x: &mut [f32]) {
    let mut half = CHUNK;
    while half < x.len() {
        for pair in x.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (low, high) in low.as_chunks_mut().0.iter_mut().zip(high.as_chunks_mut().0) {
                let (a, b) = (s.load(low), s.load(high));
                s.store(s.add(a, b), low);
                s.store(s.sub(a, b), high);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cpu::Isa, quant::walsh_hadamard};

    #[test]
    fn every_size_on_every_instruction_set() {
        for isa in Isa::all() {
            for n in [8, 16, 32, 64, 128, 256, 1024] {
                let x: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.03).collect();
                let (mut y, mut expected) = (x.clone(), x);
                rotate(isa, &mut y);
                walsh_hadamard(&mut expected);
                for (y, expected) in y.iter().zip(&expected) {
                    assert!((y - expected).abs() < 1e-5, "{isa}, {n}: {y} and {expected}");
                }
            }
        }
    }
}
