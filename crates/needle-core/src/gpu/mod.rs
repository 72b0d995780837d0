//! The engine for GPUs: prompts on tensors, then one fused step a token.
//!
//! A prompt is a few large operations, which tensors do well. A token is hundreds of tiny ones, whose launches cost more than
//! their arithmetic: needle-kernels' [`DecodePlan`](needle_kernels::plan::DecodePlan) makes five launches a layer of them. Here
//! a configuration and its weights become such a plan (`blueprint`, `stored`), and a sequence moves between both ways.
//!
//! ```text
//! Model (tensors)  ── pass ──▶  keys, values  ◀── step ──  Step (a plan's launches)
//!                               [1, slots, G, K] a layer, one storage for both
//! ```
//!
//! - Keys and values are the cache's own tensors: a step reads and writes them where they lie, nothing is copied.
//! - The engram's last values lie in rings that both can reach, and change their form on the device (`rings`).
//! - Nothing here names a backend: [`StepDevice`](crate::ops::StepDevice) is whatever runs a plan, needle-kernels' emulator
//!   in the tests.

mod batch;
mod blueprint;
mod model;
mod replay;
mod rings;
mod state;
mod stored;

pub use batch::GpuBatch;
pub use model::{GpuModel, refusal};
pub use replay::Recording;
pub use state::{GpuMark, GpuState};

use crate::ops::OpForm;

/// How a model computes on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuOptions {
    /// How tokens are decoded.
    pub decoding: Decoding,
    /// How a step's weights are kept.
    pub weights: StepWeights,
    /// How a step is launched.
    pub launching: Launching,
    /// Which form the operations of a pass on tensors take.
    pub ops: OpForm,
}

/// How tokens are decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decoding {
    /// One fused step a token, a few launches a layer.
    #[default]
    Steps,
    /// On tensors, as prompts are.
    Tensors,
}

/// How a step's weights are kept on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepWeights {
    /// Packed matrices stay packed, where kernels read them so: the least memory.
    #[default]
    Packed,
    /// Every matrix is widened to the type that the model computes in.
    Widened,
}

/// How a step is launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Launching {
    /// Recorded as a graph after its first run and replayed, where the device can; otherwise one kernel after the other.
    #[default]
    Graph,
    /// One kernel after the other.
    Single,
}
