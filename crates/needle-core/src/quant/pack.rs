//! Rounding a float matrix to codes and norms.

use half::f16;

use super::{CodeWidth, Packed, codebook::levels, packed::sizes};
use crate::{
    error::{Error, Result},
    weights::Bytes,
};

/// Below this a group counts as zero: its direction means nothing.
const NORM_MIN: f32 = 1e-12;

/// Quantises a row-major matrix of `shape = (rows, cols)` with the standard codebook of this width.
///
/// # Errors
/// [`Error::Packed`] when `values` has another size than `shape`, a group's norm is not a finite float16, or the group is
/// impossible.
pub fn pack(values: &[f32], shape: (usize, usize), group: usize, width: CodeWidth) -> Result<Packed> {
    let (rows, cols) = shape;
    let (code_bytes, norm_bytes) = sizes(shape, group, width)?;
    if rows.checked_mul(cols) != Some(values.len()) {
        let found = values.len();
        return Err(Error::Packed(format!("[{rows}, {cols}] does not hold {found} values")));
    }
    let levels = levels(width, group);
    let mut codes = Vec::with_capacity(code_bytes);
    let mut norms = Vec::with_capacity(norm_bytes);
    let matrix = walsh_matrix(group);
    let mut rotated = vec![0.0; group];
    for (row, values) in values.chunks_exact(cols).enumerate() {
        for (index, values) in values.chunks(group).enumerate() {
            rotate(values, &matrix, &mut rotated);
            let norm = rotated.iter().map(|value| value * value).sum::<f32>().sqrt();
            let stored = f16::from_f32(norm);
            if !stored.is_finite() {
                return Err(Error::Packed(format!(
                    "the norm of row {row}, group {index} is {norm}, more than float16 holds"
                )));
            }
            norms.extend(stored.to_le_bytes());
            let unit = norm.max(NORM_MIN);
            push_codes(
                &mut codes,
                width,
                rotated.iter().map(|value| nearest(&levels, value / unit)),
            );
        }
    }
    Packed::new(shape, group, width, &levels, Bytes::new(codes), Bytes::new(norms))
}

/// `x·H` as a matrix product, summed in the order of `x`. Butterflies would be faster, but where values cancel to nearly
/// zero they leave another remainder, and binary codes then differ from those of the published quantiser.
fn rotate(x: &[f32], matrix: &[f32], rotated: &mut [f32]) {
    rotated.fill(0.0);
    for (&x, row) in x.iter().zip(matrix.chunks_exact(rotated.len())) {
        for (sum, &entry) in rotated.iter_mut().zip(row) {
            *sum += x * entry;
        }
    }
}

/// `H[k][j] = ±1/sqrt(size)`, negative where `k` and `j` share an odd number of bits.
fn walsh_matrix(size: usize) -> Vec<f32> {
    let entry = (1.0 / (size as f64).sqrt()) as f32;
    let sign = |k: usize, j: usize| {
        if (k & j).count_ones().is_multiple_of(2) {
            entry
        } else {
            -entry
        }
    };
    (0..size).flat_map(|k| (0..size).map(move |j| sign(k, j))).collect()
}

/// The place of the level nearest to `value`; of two equally near the lower one.
fn nearest(levels: &[f32], value: f32) -> usize {
    let above = levels
        .partition_point(|&level| level < value)
        .clamp(1, levels.len() - 1);
    if (value - levels[above - 1]).abs() <= (value - levels[above]).abs() {
        above - 1
    } else {
        above
    }
}

/// Appends codes from the lowest bit on; their number is a multiple of eight.
fn push_codes(bytes: &mut Vec<u8>, width: CodeWidth, places: impl Iterator<Item = usize>) {
    let (mut word, mut filled) = (0u32, 0);
    for place in places {
        word |= u32::from(width.code(place)) << filled;
        filled += width.bits();
        while filled >= 8 {
            bytes.push(word as u8);
            word >>= 8;
            filled -= 8;
        }
    }
}
