//! Float tensors as plain numbers, whatever their type and order in the file.

use candle_core::DType;
use half::{bf16, f16};

use crate::weights::{Dense, Order};

/// All values, row-major.
pub(super) fn values(dense: &Dense) -> Vec<f32> {
    let count: usize = dense.shape.iter().product();
    let mut stored = vec![0.0; count];
    widen(dense, 0, &mut stored);
    match (dense.order, &dense.shape[..]) {
        (Order::Transposed, [.., rows, cols]) => {
            let mut values = vec![0.0; count];
            let matrices = values
                .chunks_exact_mut(rows * cols)
                .zip(stored.chunks_exact(rows * cols));
            for (values, stored) in matrices {
                for (column, stored) in stored.chunks_exact(*rows).enumerate() {
                    for (row, value) in stored.iter().enumerate() {
                        values[row * cols + column] = *value;
                    }
                }
            }
            values
        }
        _ => stored,
    }
}

/// Fills `out` with consecutive stored values from the one numbered `first` on.
pub(super) fn widen(dense: &Dense, first: usize, out: &mut [f32]) {
    let bytes: &[u8] = &dense.bytes;
    match dense.dtype {
        DType::F32 => each::<4>(bytes, first, out, f32::from_le_bytes),
        DType::F16 => each::<2>(bytes, first, out, |bytes| f16::from_le_bytes(bytes).to_f32()),
        DType::BF16 => each::<2>(bytes, first, out, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        _ => each::<8>(bytes, first, out, |bytes| f64::from_le_bytes(bytes) as f32),
    }
}

fn each<const BYTES: usize>(bytes: &[u8], first: usize, out: &mut [f32], widen: impl Fn([u8; BYTES]) -> f32) {
    for (out, bytes) in out.iter_mut().zip(&bytes.as_chunks::<BYTES>().0[first..]) {
        *out = widen(*bytes);
    }
}
