//! Cactus Quants (CQ): numbers only. Rows of a matrix `[out, in]`, cut into groups along `in`, rotated by a
//! Walsh-Hadamard matrix and rounded to a small codebook.

use std::sync::Arc;

use crate::weights::Bytes;

/// Width of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeWidth {
    /// One bit, two levels.
    Binary,
    /// Two bits, three levels.
    Ternary,
    /// Two bits, four levels.
    Two,
    /// Three bits, eight levels.
    Three,
    /// Four bits, sixteen levels.
    Four,
}

/// A packed matrix `[rows, cols]`.
#[derive(Clone, Debug)]
pub struct Packed {
    rows: usize,
    cols: usize,
    group: usize,
    width: CodeWidth,
    levels: Arc<[f32]>,
    codes: Bytes,
    norms: Bytes,
}

impl Packed {
    /// Rows, the outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns, the inputs.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes of codes and norms.
    pub fn size_bytes(&self) -> usize {
        self.codes.len() + self.norms.len()
    }

    /// All values, row-major.
    pub fn dequantize(&self) -> Vec<f32> {
        todo!()
    }
}
