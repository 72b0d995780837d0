//! Rounding a float matrix to codes and norms.

use half::f16;

use super::{CodeWidth, Packed, codebook::levels, hadamard::walsh_hadamard, packed::sizes};
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
    let mut rotated = vec![0.0; group];
    for (row, values) in values.chunks_exact(cols).enumerate() {
        for (index, values) in values.chunks(group).enumerate() {
            rotated.fill(0.0);
            rotated[..values.len()].copy_from_slice(values);
            walsh_hadamard(&mut rotated);
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
