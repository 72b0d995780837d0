//! What changes from step to step, read by the kernels from device memory, so that a captured step can be replayed.

/// One row of a pass: a sequence's new token, where it stands, and where its key and value go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowState {
    /// The token's id, inside the vocabulary.
    pub token: u32,
    /// Its position in the text, inside the table of angles.
    pub position: u32,
    /// The cache slot of its key and value; [`RowState::NO_SLOT`] in a pass that does not keep it.
    pub slot: u32,
    /// Slots that hold a position in sight, its own among them: decoding attends to slots `0..filled`.
    pub filled: u32,
}

impl RowState {
    /// Words of one row in device memory.
    pub const WORDS: usize = 4;
    /// A slot that `rope` does not write.
    pub const NO_SLOT: u32 = u32::MAX;

    /// As it lies in device memory.
    pub fn words(self) -> [u32; Self::WORDS] {
        [self.token, self.position, self.slot, self.filled]
    }
}
