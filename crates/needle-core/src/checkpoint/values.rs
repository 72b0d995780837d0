//! Float values in little-endian bytes: checks and reordering, without a tensor in between.

use candle_core::DType;
use half::{bf16, f16};

/// The first value that is infinite or not a number, with its place. Other types than floats have none.
pub(super) fn first_not_finite(bytes: &[u8], dtype: DType) -> Option<(usize, f64)> {
    // A maximum over the bits without the sign first: it needs no branch, and nearly always settles it.
    match dtype {
        DType::F32 => {
            let values = bytes.as_chunks::<4>().0;
            let largest = values
                .iter()
                .fold(0, |most, &value| (u32::from_le_bytes(value) << 1).max(most));
            let find = || locate(values, |value| f32::from_le_bytes(value).into());
            (largest >= 0xFF00_0000).then(find).flatten()
        }
        DType::F64 => locate(bytes.as_chunks::<8>().0, f64::from_le_bytes),
        DType::F16 | DType::BF16 => {
            let values = bytes.as_chunks::<2>().0;
            let (infinite, widen): (u16, fn([u8; 2]) -> f64) = match dtype {
                DType::F16 => (0xF800, |value| f16::from_le_bytes(value).to_f64()),
                _ => (0xFF00, |value| bf16::from_le_bytes(value).to_f64()),
            };
            let largest = values
                .iter()
                .fold(0, |most, &value| (u16::from_le_bytes(value) << 1).max(most));
            (largest >= infinite).then(|| locate(values, widen)).flatten()
        }
        _ => None,
    }
}

fn locate<const N: usize>(values: &[[u8; N]], widen: impl Fn([u8; N]) -> f64) -> Option<(usize, f64)> {
    let widened = values.iter().map(|&value| widen(value));
    widened.enumerate().find(|(_, value)| !value.is_finite())
}

/// The bytes of a row-major `[rows, cols]` matrix as `[cols, rows]`; a value takes `size` bytes.
pub(super) fn transpose(bytes: &[u8], rows: usize, cols: usize, size: usize) -> Vec<u8> {
    let mut transposed = Vec::with_capacity(bytes.len());
    for col in 0..cols {
        for row in 0..rows {
            transposed.extend_from_slice(&bytes[(row * cols + col) * size..][..size]);
        }
    }
    transposed
}

/// How many values a shape holds; `None` where no integer can say it.
pub(super) fn count(shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1usize, |product, &size| product.checked_mul(size))
}
