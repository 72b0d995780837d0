//! The engine for the CPU: decoding and prefill from packed weights, without tensors.
//!
//! It computes what [`crate::model`] defines, which stays the oracle; `layer` reads as the equations do.
//!
//! - Weights keep their 2 to 4 bits. Their words are put in the order in which the kernels read them, once at load
//!   (`matrix`); activations are rotated once for all matrices that read them (`prepared`).
//! - A result never depends on how the positions were cut into passes, on the other sequences of a batch, or on the number
//!   of threads: every sum runs in one fixed order.
//! - Kernels are chosen at run time (`simd`).

mod arena;
mod attention;
mod cache;
mod columns;
mod crew;
mod desk;
mod engram;
mod floats;
mod hadamard;
mod heads;
mod hyper;
mod layer;
mod levels;
mod lines;
mod loader;
mod matrix;
pub mod measure;
mod memory;
mod model;
mod pages;
mod pass;
mod prepared;
mod product;
mod rows;
mod simd;
mod stack;
mod state;
mod stored;
mod tools;
mod tuner;
mod vector;

pub use heads::ProbeHead;
pub use model::CpuModel;
pub use simd::Isa;
pub use state::{CpuMark, CpuState, decode_batch};
pub use stored::CachePrecision;

/// How products of packed weights are computed. Weights that are not packed are always multiplied in float32.
///
/// `Fast` is the default: on every golden, and on 200 prompts of the demo model, it picks the tokens that `Exact` picks, in two
/// thirds of the time. The deviations are of the largest logit, measured on the goldens' archives (`docs/performance.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numerics {
    /// In float32, keys and values stored in float32; within 10⁻⁵ of the reference.
    Exact,
    /// Activations and levels in 16 bits, sums in 32-bit integers, keys and values stored in half precision; within 2·10⁻³.
    #[default]
    Fast,
}

/// How many threads share a pass. The members of a pass wait for each other some hundred times a token, so more of them help
/// where cores are free, and cost where another program holds one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// As many as prove fastest while passes run, at most one a core.
    #[default]
    Measured,
    /// One a core.
    EveryCore,
    /// This many, at least one.
    Exactly(usize),
}

/// How a model computes.
#[derive(Clone, Copy, Debug)]
pub struct CpuOptions {
    /// The instruction set.
    pub isa: Isa,
    /// The numerics of packed weights.
    pub numerics: Numerics,
    /// The threads.
    pub threads: Threads,
    /// How keys and values are stored; as the numerics say when absent.
    pub cache: Option<CachePrecision>,
}

impl Default for CpuOptions {
    fn default() -> Self {
        Self {
            isa: Isa::detect(),
            numerics: Numerics::default(),
            threads: Threads::default(),
            cache: None,
        }
    }
}
