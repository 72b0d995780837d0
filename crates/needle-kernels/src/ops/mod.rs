//! One operation a file: a struct of named buffers, and `launch`, which makes a [`Launch`](crate::Launch) of it.

mod attention;
mod block;
mod embed;
mod engram;
mod hadamard;
mod lanes;
mod linear;
mod rms_norm;
mod rope;

pub use attention::Attention;
pub use block::BlockBack;
pub use embed::Embed;
pub use engram::{EngramGather, EngramHash, EngramRecall};
pub use hadamard::{Hadamard, HadamardResidual, hadamard_size};
pub use lanes::{LanesFront, LanesMix, LanesRecall, LanesShape, Recall, mix_len};
pub use linear::{Linear, LinearShape, NormLinear};
pub use rms_norm::{RmsNorm, RmsNormAdd};
pub use rope::{HeadsShape, Rope};

/// Added to every mean square.
pub const EPSILON: f32 = 1e-6;

/// Threads of a SIMD group, on NVIDIA's and on Apple's GPUs.
pub const SIMD: u32 = 32;

/// Bytes of `count` floats.
const fn floats(count: u32) -> u32 {
    4 * count
}
