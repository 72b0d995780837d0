//! Numbers to try kernels with: the same on every machine, without a generator's state.

use crate::{
    emulator::{Memory, decode, encode},
    storage::Elem,
};

/// `count` numbers spread evenly over `−scale/2..scale/2`, a row of them for each salt.
pub(super) fn noise(count: usize, salt: u32, scale: f32) -> Vec<f32> {
    let mixed = |i: u32| {
        let mut z = i.wrapping_mul(0x9E37_79B1).wrapping_add(salt.wrapping_mul(0x9E37_79B9));
        z = (z ^ (z >> 16)).wrapping_mul(0x85EB_CA6B);
        z = (z ^ (z >> 13)).wrapping_mul(0xC2B2_AE35);
        z ^ (z >> 16)
    };
    (0..count as u32)
        .map(|i| ((f64::from(mixed(i)) / 4_294_967_296.0 - 0.5) as f32) * scale)
        .collect()
}

/// `count` whole numbers below `limit`.
pub(super) fn whole(count: usize, salt: u32, limit: u32) -> Vec<u32> {
    noise(count, salt, 1.0)
        .iter()
        .map(|x| ((x + 0.5) * limit as f32) as u32)
        .map(|x| x.min(limit - 1))
        .collect()
}

/// A buffer of noise in `elem`, and the numbers as stored.
pub(super) fn buffer(memory: &mut Memory, elem: Elem, count: usize, salt: u32, scale: f32) -> (usize, Vec<f64>) {
    stored(memory, elem, &noise(count, salt, scale))
}

/// A buffer of these numbers in `elem`, and the numbers as stored.
pub(super) fn stored(memory: &mut Memory, elem: Elem, values: &[f32]) -> (usize, Vec<f64>) {
    (memory.elems(elem, values), rounded(elem, values))
}

/// Numbers as `elem` stores them.
pub(super) fn rounded(elem: Elem, values: &[f32]) -> Vec<f64> {
    decode(elem, &encode(elem, values)).into_iter().map(f64::from).collect()
}

/// A table of angles `[positions, k]`: cosines, then sines.
pub(super) fn angles(positions: usize, k: usize) -> Vec<f32> {
    let angle = |p: usize, i: usize| p as f32 * 1.0 / 100_000f32.powf(2.0 * i as f32 / k as f32);
    (0..positions)
        .flat_map(|p| {
            let cosines = (0..k / 2).map(move |i| angle(p, i).cos());
            cosines.chain((0..k / 2).map(move |i| angle(p, i).sin()))
        })
        .collect()
}
