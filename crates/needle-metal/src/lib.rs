//! Fused operations of needle as functions on candle's Metal storage.
//!
//! A leaf: it knows storages and layouts, never a layer, a config or a token. What a kernel does, and with how many threads,
//! stands in needle-kernels; here a launch becomes a real one. Without the feature `metal` the crate is empty.
//!
//! Metal compiles our texts at run time: `Pipelines` does that once a device and is handed to every operation, because
//! candle's own cache takes candle's own texts alone.
#![cfg(feature = "metal")]

mod block;
mod engram;
mod hadamard;
mod lanes;
mod launch;
mod linear;
mod pipelines;
mod raw;
mod rms_norm;
mod rope;
mod step;
mod storage;

pub use block::{BlockInputs, block_back};
pub use engram::engram_gather;
pub use hadamard::{hadamard, hadamard_residual};
pub use lanes::{lanes_front, lanes_mix};
pub use linear::{PackedWeight, packed_linear};
pub use pipelines::Pipelines;
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
    shared::<Pipelines>();
};
