//! Fused operations of needle as functions on candle's CUDA storage.
//!
//! A leaf: it knows storages and layouts, never a layer, a config or a token. What a kernel does, and with how many threads,
//! stands in needle-kernels; here a launch becomes a real one. Without the feature `cuda` the crate is empty, so that the
//! workspace builds on a machine that has no CUDA toolkit.
//!
//! Everything runs on the device's own stream, in order; nothing here waits for the GPU but `Step::read`.
#![cfg(feature = "cuda")]

mod block;
mod engram;
mod hadamard;
mod lanes;
mod launch;
mod libraries;
mod linear;
mod ptx;
mod raw;
mod rms_norm;
mod rope;
mod step;
mod storage;

pub use block::{BlockInputs, block_back};
pub use engram::engram_gather;
pub use hadamard::{hadamard, hadamard_residual};
pub use lanes::{lanes_front, lanes_mix};
pub use libraries::{TOOLKIT, missing_library};
pub use linear::{PackedWeight, packed_linear};
pub use raw::run_on_bytes;
pub use rms_norm::{rms_norm, rms_norm_add};
pub use rope::{RopeInputs, rope, turn};
pub use step::{Step, Weights};
pub use storage::In;

// Sessions move between threads and share what they do not own, and so must these.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Step>();
    shared::<Weights>();
};
