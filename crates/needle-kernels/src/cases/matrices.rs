//! Weight matrices to try kernels with: random codes widened by the equation, so that no quantiser is needed.

use half::f16;

use super::{
    inputs::{buffer, noise, rounded, whole},
    reference,
};
use crate::{
    emulator::Memory,
    storage::{CodeBits, Format, Matrix},
};

/// A packed matrix, as its file has it.
#[derive(Clone, Debug)]
pub struct PackedMatrix {
    /// Width of a code.
    pub bits: CodeBits,
    /// Columns that share a norm.
    pub group: u32,
    /// Columns, padding not counted.
    pub cols: usize,
    /// Packed codes, row by row.
    pub codes: Vec<u8>,
    /// Float16 norms, row by row.
    pub norms: Vec<u16>,
    /// By stored code.
    pub levels: Vec<f32>,
}

impl PackedMatrix {
    /// A matrix of random codes.
    pub fn random(bits: CodeBits, group: u32, rows: usize, cols: usize, salt: u32) -> Self {
        let padded = cols.next_multiple_of(group as usize);
        let codes = whole(rows * padded, salt, bits.level_count());
        let mut packed = vec![0u8; rows * padded / 8 * bits.count() as usize];
        for (at, code) in codes.iter().enumerate() {
            for bit in 0..bits.count() as usize {
                let place = at * bits.count() as usize + bit;
                packed[place / 8] |= ((code >> bit & 1) as u8) << (place % 8);
            }
        }
        let norms = noise(rows * padded / group as usize, salt + 1, 0.5);
        let spread = 2.0 / (group as f32).sqrt();
        Self {
            bits,
            group,
            cols,
            codes: packed,
            norms: norms.iter().map(|norm| f16::from_f32(norm + 0.75).to_bits()).collect(),
            levels: noise(bits.level_count() as usize, salt + 2, spread),
        }
    }

    /// All values, row-major.
    pub fn widened(&self) -> Vec<f64> {
        let (bits, group) = (self.bits.count() as usize, self.group as usize);
        let padded = self.cols.next_multiple_of(group);
        let code = |at: usize| {
            (0..bits).fold(0u8, |code, bit| {
                let place = at * bits + bit;
                code | (self.codes[place / 8] >> (place % 8) & 1) << bit
            })
        };
        let codes: Vec<u8> = (0..self.codes.len() * 8 / bits).map(code).collect();
        let levels: Vec<f64> = self.levels.iter().map(|&level| f64::from(level)).collect();
        let groups = codes.chunks_exact(group).zip(&self.norms);
        let wide: Vec<f64> = groups
            .flat_map(|(codes, &norm)| reference::widen(codes, f16::from_bits(norm).to_f64(), &levels))
            .collect();
        let rows = wide.chunks_exact(padded);
        rows.flat_map(|row| row[..self.cols].iter().copied()).collect()
    }

    /// The norms' bytes.
    pub fn norm_bytes(&self) -> Vec<u8> {
        self.norms.iter().flat_map(|norm| norm.to_ne_bytes()).collect()
    }

    /// Its buffers.
    pub fn place(&self, memory: &mut Memory) -> Matrix<usize> {
        Matrix::Packed {
            bits: self.bits,
            group: self.group,
            codes: memory.bytes(&self.codes),
            norms: memory.bytes(&self.norm_bytes()),
            levels: memory.f32s(&self.levels),
        }
    }
}

/// A random matrix `[rows, cols]` in `format`, and its values.
pub(super) fn matrix(
    memory: &mut Memory,
    format: Format,
    rows: usize,
    cols: usize,
    salt: u32,
) -> (Matrix<usize>, Vec<f64>) {
    match format {
        Format::Dense(elem) => {
            let scale = 2.0 / (cols as f32).sqrt();
            let (values, stored) = buffer(memory, elem, rows * cols, salt, scale);
            (Matrix::Dense { elem, values }, stored)
        }
        Format::Packed { bits, group } => {
            let packed = PackedMatrix::random(bits, group, rows, cols, salt);
            (packed.place(memory), packed.widened())
        }
    }
}

/// Every storage of a matrix, groups included.
pub(super) fn formats() -> Vec<Format> {
    use crate::storage::Elem;
    let dense = Elem::ALL.map(Format::Dense);
    let packed = CodeBits::ALL
        .into_iter()
        .flat_map(|bits| [32, 64, 128].map(|group| Format::Packed { bits, group }));
    dense.into_iter().chain(packed).collect()
}

/// The numbers of a norm's scale, around zero.
pub(super) fn scale(memory: &mut Memory, count: usize, salt: u32) -> (usize, Vec<f64>) {
    let values = noise(count, salt, 1.0);
    (memory.f32s(&values), rounded(crate::storage::Elem::F32, &values))
}
