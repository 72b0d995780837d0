//! The model's operations, one a file: a public function, its composed definition in tensor operations, its CPU form.
//!
//! | op | equation |
//! | --- | --- |
//! | [`linear`] | `y = x·Wᵀ` |
//! | [`rms_norm`] | `(1 + s) ∘ x / sqrt(mean(x²) + ε)` |
//! | [`hadamard`] | `y = H·x`, orthonormal Walsh-Hadamard |
//! | [`sinkhorn`] | rows and columns of `exp(m)` scaled to sum to one, in turn |
//! | [`lane_read`], [`lane_mix`] | `u = Σ h_i X_i` and `X' = R·X + h ⊗ y` |
//! | [`Rope`] | rotary position angles, half-split |
//! | [`attention`] | grouped-query softmax attention under a mask |
//! | [`engram_slots`] | hashed n-gram rows |
//!
//! The composed form runs on every device and in every dtype, carries gradients and is the oracle of the tests. The CPU form
//! is taken where nothing needs a gradient and all values are float32. Every CPU form computes a row by itself, in one fixed
//! order of additions, so that a row's result depends neither on the batch nor on the rows beside it: a prefill of `n` tokens
//! equals `n` single steps to the last bit.

mod attention;
mod engram_slots;
mod hadamard;
mod lanes;
mod linear;
mod mask;
mod rms_norm;
mod rope;
mod simd;
mod sinkhorn;

pub use attention::{attention, attention_composed};
pub use engram_slots::{EngramHash, engram_slots};
pub use hadamard::{hadamard, hadamard_composed};
pub use lanes::{lane_mix, lane_mix_composed, lane_read, lane_read_composed};
pub use linear::{linear, linear_composed};
pub use mask::Mask;
pub use rms_norm::{RMS_EPSILON, rms_norm, rms_norm_composed, rms_unit, rms_unit_composed};
pub use rope::{Rope, rope_composed};
pub use sinkhorn::{SINKHORN_ROUNDS, sinkhorn, sinkhorn_composed};

use candle_core::{CpuStorage, DType, Layout, Tensor, bail};

/// Whether the CPU form may stand in for the composed one: float32 on the CPU, and no gradient to carry.
fn cpu_form_applies(inputs: &[&Tensor]) -> bool {
    inputs
        .iter()
        .all(|x| x.device().is_cpu() && x.dtype() == DType::F32 && !x.track_op())
}

/// The float32 values of a contiguous operand.
fn values<'a>(storage: &'a CpuStorage, layout: &Layout, op: &str) -> candle_core::Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((start, end))) => Ok(&values[start..end]),
        (CpuStorage::F32(_), None) => bail!("{op}: the operand must be contiguous"),
        _ => bail!("{op}: the CPU form takes float32"),
    }
}
