//! The orthonormal Walsh-Hadamard transform in registers.

use super::simd::{LANES, Simd, kernel};

/// Values transformed in registers at once.
const CHUNK: usize = 8 * LANES;

kernel!(
    /// `x ← H·x` for every group of `group` values, a power of two.
    pub(super) fn rotate_groups = rotate_groups_in(x: &mut [f32], group: usize)
);

#[inline(always)]
fn rotate_groups_in<S: Simd>(s: S, x: &mut [f32], group: usize) {
    let scale = 1.0 / (group as f32).sqrt();
    for x in x.chunks_exact_mut(group) {
        match group {
            ..LANES => small(x, scale),
            LANES => registers::<S, 1>(s, x, scale),
            32 => registers::<S, 2>(s, x, scale),
            64 => registers::<S, 4>(s, x, scale),
            CHUNK => registers::<S, 8>(s, x, scale),
            _ => {
                x.chunks_exact_mut(CHUNK).for_each(|x| registers::<S, 8>(s, x, scale));
                rounds(s, x);
            }
        }
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

/// `N` vectors: the rounds inside each, then the rounds between them.
#[inline(always)]
fn registers<S: Simd, const N: usize>(s: S, x: &mut [f32], scale: f32) {
    let mut v = [s.splat(0.0); N];
    let scale = s.splat(scale);
    for (v, x) in v.iter_mut().zip(x.as_chunks().0) {
        let y = s.butterfly::<1>(s.mul(s.load(x), scale));
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
    for (v, x) in v.iter().zip(x.as_chunks_mut().0) {
        s.store(*v, x);
    }
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
    use crate::cpu::Isa;
    use crate::quant::walsh_hadamard;

    #[test]
    fn every_size_on_every_instruction_set() {
        for isa in Isa::all() {
            for n in [8, 16, 32, 64, 128, 256, 1024] {
                let x: Vec<f32> = (0..2 * n).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.03).collect();
                let (mut y, mut expected) = (x.clone(), x);
                rotate_groups(isa, &mut y, n);
                expected.chunks_exact_mut(n).for_each(walsh_hadamard);
                for (y, expected) in y.iter().zip(&expected) {
                    assert!((y - expected).abs() < 1e-5, "{isa}, {n}: {y} and {expected}");
                }
            }
        }
    }
}
