//! Cases: launches with their inputs and what they must give, computed in float64 from the equations. The emulator's tests
//! run them, the interpreter of compiled PTX does, and a GPU's tests can.

mod block;
mod heads;
mod inputs;
mod lanes;
mod matrices;
mod norms;
mod products;
pub mod reference;
mod tables;

use crate::{
    emulator::{Fault, Memory, Schedule, Trace, run},
    launch::Launch,
    storage::Elem,
};

pub use matrices::PackedMatrix;

/// A launch, its buffers, and what it must leave in some of them.
#[derive(Clone, Debug)]
pub struct Case {
    /// Operation and shape.
    pub name: String,
    /// The launch; its buffers are numbers of `memory`'s.
    pub launch: Launch<usize>,
    /// The buffers before it.
    pub memory: Memory,
    /// What it must leave.
    pub expected: Vec<Expected>,
}

/// What a launch must leave in one buffer.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The buffer.
    pub buffer: usize,
    /// Its storage.
    pub elem: Elem,
    /// The values. Where one is no number, the kernel must leave the element alone.
    pub values: Vec<f64>,
    /// Largest difference, as a part of the largest value, before rounding to the storage.
    pub tolerance: f64,
}

/// How many shapes of each operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Enough to reach every kernel and every edge; seconds.
    Quick,
    /// Every combination worth trying; minutes.
    Full,
}

/// All operations' cases.
///
/// # Errors
/// [`Unsupported`](crate::Unsupported) when a case is outside of what the kernels take: a mistake in the cases.
pub fn all(extent: Extent) -> Result<Vec<Case>, crate::Unsupported> {
    let mut cases = Vec::new();
    cases.extend(norms::cases(extent)?);
    cases.extend(lanes::cases(extent)?);
    cases.extend(block::cases(extent)?);
    cases.extend(heads::cases(extent)?);
    cases.extend(products::cases(extent)?);
    cases.extend(tables::cases(extent)?);
    Ok(cases)
}

impl Case {
    /// Runs the case in the emulator and gives what it leaves, and what it did.
    ///
    /// # Errors
    /// The kernel's first fault.
    pub fn run(&self, schedule: Schedule) -> Result<(Memory, Trace), Fault> {
        let mut memory = self.memory.clone();
        let trace = run(&self.launch, &mut memory, schedule)?;
        Ok((memory, trace))
    }

    /// The largest difference from what is expected, as a part of what is allowed: 1 and less is right.
    pub fn difference(&self, memory: &Memory) -> f64 {
        self.expected
            .iter()
            .map(|expected| expected.difference(&memory.to_f32s(expected.elem, expected.buffer)))
            .fold(0.0, f64::max)
    }
}

impl Expected {
    fn difference(&self, found: &[f32]) -> f64 {
        if found.len() != self.values.len() {
            return f64::INFINITY;
        }
        let numbers = self.values.iter().filter(|value| !value.is_nan());
        let largest = numbers.fold(1e-30f64, |largest, value| largest.max(value.abs()));
        // Half a step of the storage, and a little for a sum that falls on the other side of a tie.
        let (step, least) = match self.elem {
            Elem::F32 => (0.0, 0.0),
            Elem::Bf16 => (0.51 / 128.0, 0.0),
            Elem::F16 => (0.51 / 1024.0, 3.1e-8),
        };
        let difference = |(&found, &expected): (&f32, &f64)| {
            let found = f64::from(found);
            if expected.is_nan() {
                return if found.is_nan() { 0.0 } else { f64::INFINITY };
            }
            let allowed = self.tolerance * largest + step * expected.abs() + least;
            let apart = (found - expected).abs();
            if apart == 0.0 {
                return 0.0;
            }
            let part = apart / allowed;
            if part.is_nan() { f64::INFINITY } else { part }
        };
        found.iter().zip(&self.values).map(difference).fold(0.0, f64::max)
    }
}
