//! What a pass works with, besides its buffers.

use super::{
    crew::Hands,
    simd::{Isa, Line},
};

/// The instruction set, the lines of all matrices, and the threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tools<'a> {
    pub(super) isa: Isa,
    pub(super) lines: &'a [Line],
    pub(super) hands: &'a Hands<'a>,
}
