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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_finds_the_first_fault() {
        let good = [0.0f64, -0.0, 1.0, -2.5, 6e4, 1e-30];
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for place in 0..=good.len() {
                let mut values = good.to_vec();
                values.insert(place, bad);
                values.push(f64::NAN);
                let write =
                    |bytes: fn(f64) -> Vec<u8>| values.iter().flat_map(|&value| bytes(value)).collect::<Vec<u8>>();
                for (dtype, bytes) in [
                    (DType::F16, write(|value| f16::from_f64(value).to_le_bytes().into())),
                    (DType::BF16, write(|value| bf16::from_f64(value).to_le_bytes().into())),
                    (DType::F32, write(|value| (value as f32).to_le_bytes().into())),
                    (DType::F64, write(|value| value.to_le_bytes().into())),
                ] {
                    let (found, value) = first_not_finite(&bytes, dtype).unwrap();
                    assert_eq!((found, value.to_string()), (place, bad.to_string()), "{dtype:?}");
                    assert_eq!(
                        first_not_finite(&bytes[..place * dtype.size_in_bytes()], dtype),
                        None,
                        "{dtype:?}"
                    );
                }
            }
        }
        assert_eq!(first_not_finite(&[0xFF; 8], DType::I64), None);
    }

    #[test]
    fn transposing_twice_changes_nothing() {
        let bytes: Vec<u8> = (0..24).collect();
        let once = transpose(&bytes, 3, 4, 2);
        assert_eq!(&once[..6], [0, 1, 8, 9, 16, 17]);
        assert_eq!(transpose(&once, 4, 3, 2), bytes);
    }
}
