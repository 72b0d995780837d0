//! A product's output `[positions, rows]`, cut into parts by rows, so that several threads may fill it.

use std::{marker::PhantomData, ops::Range};

use super::simd::LANES;

/// Some consecutive rows of every position. No two parts share a number.
#[derive(Debug)]
pub(super) struct Columns<'a> {
    start: *mut f32,
    tokens: usize,
    /// Rows of a position in the whole output.
    stride: usize,
    rows: Range<usize>,
    owner: PhantomData<&'a mut [f32]>,
}

// SAFETY: a part is the only way to its numbers while it lives, as a `&mut [f32]` would be.
unsafe impl Send for Columns<'_> {}

impl<'a> Columns<'a> {
    /// All rows of `out: [tokens, stride]`.
    pub(super) fn new(out: &'a mut [f32], tokens: usize) -> Self {
        let stride = out.len() / tokens;
        Self {
            start: out.as_mut_ptr(),
            tokens,
            stride,
            rows: 0..stride,
            owner: PhantomData,
        }
    }

    /// Takes the rows before `row` off.
    pub(super) fn take_before(&mut self, row: usize) -> Self {
        let row = row.clamp(self.rows.start, self.rows.end);
        let before = self.rows.start..row;
        self.rows.start = row;
        Self {
            rows: before,
            owner: PhantomData,
            ..*self
        }
    }

    /// Writes sixteen rows of a position, from row `row` of the whole output on.
    #[inline(always)]
    pub(super) fn write(&mut self, token: usize, row: usize, values: &[f32; LANES]) {
        assert!(token < self.tokens && self.rows.start <= row && row + LANES <= self.rows.end);
        // SAFETY: within the output, and within this part of it.
        let place = unsafe { &mut *self.start.add(token * self.stride + row).cast::<[f32; LANES]>() };
        *place = *values;
    }
}
