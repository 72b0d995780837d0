//! Executes compiled PTX on the host: byte for byte the text that a GPU's driver would load.
//!
//! It knows the instructions that nvcc and clang make of our kernels; any other is an error that names it. Threads run one
//! after the other and meet at `bar.sync` and `shfl.sync`. As in the emulator, accesses are checked for bounds, races and
//! undefined reads. What it does not model: approximate `ex2` and `lg2`, memory ordering beyond barriers, time.

mod arithmetic;
mod decode;
mod machine;
mod memory;
mod step;

use std::fmt;

pub use decode::Entry;
pub use machine::execute;

/// What stopped an execution, or a text from being understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxError {
    /// The kernel.
    pub kernel: String,
    /// What happened, with the instruction where there is one.
    pub message: String,
}

impl fmt::Display for PtxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kernel, self.message)
    }
}

impl std::error::Error for PtxError {}

/// The inner functions say only what happened; the outer ones add the kernel.
type Result<T> = std::result::Result<T, String>;
