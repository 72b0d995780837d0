//! Runs a launch on the host: the kernel text compiled by the host's compiler, with true barrier and shuffle semantics, and
//! watched for accesses out of bounds, undefined reads and data races. Orders of threads and blocks can be shuffled, and a
//! barrier can be left out on purpose, to see that it is needed.

mod ffi;
mod memory;

use std::fmt;

pub use memory::Memory;
pub(crate) use memory::{decode, encode};

use crate::launch::Launch;

/// How the threads take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// 0: threads and blocks in order; otherwise shuffled by this seed.
    pub seed: u64,
    /// The barrier, counted from 0 in each thread, that no thread waits at.
    pub without_barrier: Option<u32>,
}

/// What a faultless launch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Barriers that each block passed.
    pub barriers: u64,
    /// Exchanges between the lanes of a SIMD group.
    pub shuffles: u64,
    /// Elements read, from buffers and shared memory.
    pub loads: u64,
    /// Elements written.
    pub stores: u64,
    /// Shared memory a block, in bytes.
    pub shared_bytes: u64,
    /// Where the barriers stand in the text: `file:line`.
    pub sites: Vec<String>,
}

/// Kinds of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The launch does not fit the kernel.
    Usage,
    /// An access outside a buffer or a shared array.
    Bounds,
    /// A read of something that nothing wrote.
    Undefined,
    /// Two threads on one element, one of them writing, in no order.
    Race,
    /// Threads that wait at different places, so that none goes on.
    Divergence,
}

/// What a kernel did wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kernel.
    pub kernel: String,
    /// The kind of mistake.
    pub kind: FaultKind,
    /// What, where, by which thread.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}: {}", self.kernel, self.kind, self.message)
    }
}

impl std::error::Error for Fault {}

/// Runs `launch`, whose buffers are numbers of `memory`'s.
///
/// # Errors
/// [`Fault`]: the first mistake. What the kernel had written until then stays.
pub fn run(launch: &Launch<usize>, memory: &mut Memory, schedule: Schedule) -> Result<Trace, Fault> {
    ffi::launch(launch, memory, schedule)
}

/// A kernel as its text declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its name.
    pub name: String,
    /// Threads a block.
    pub threads: u32,
    /// Buffer arguments.
    pub buffers: usize,
    /// Bytes of the parameter struct.
    pub params_bytes: usize,
    /// Bit `i` is set when it may write buffer `i`.
    pub written: u32,
}

/// Every kernel of the texts, and those that are wrong on purpose (`wrong_…`).
pub fn signatures() -> Vec<Signature> {
    ffi::signatures()
}
