//! A weight matrix as the product kernels want it: sixteen rows side by side.
//!
//! Packed matrices keep their codes, two or four bits each; only the order of 32-bit words changes, once, at load. Read in the
//! file's own order, sixteen rows are sixteen streams, which costs a third of the speed on a matrix that comes from the
//! third-level cache. A panel is up to four blocks of sixteen rows; its lines follow one another exactly as the kernels read
//! them:
//!
//! ```text
//! packed panel:  for each group:  norms of each block;  for each word of the group: that word of each block's rows
//! dense panel:   for each column: the values of each block's rows
//! ```
//!
//! Widths of one and three bits become two and four; rows are filled up with zeros to a multiple of sixteen.

use half::f16;

use super::{
    floats,
    levels::Levels16,
    loader::Loader,
    simd::{LANES, Line},
};
use crate::{
    quant::{CodeWidth, Packed},
    weights::{Dense, Weight},
};

/// Blocks of a full panel.
pub(super) const PANEL_BLOCKS: usize = 4;
/// Rows of a full panel.
pub(super) const PANEL_ROWS: usize = PANEL_BLOCKS * LANES;

/// Bits of an interleaved code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeBits {
    Two,
    Four,
}

impl CodeBits {
    pub(super) fn count(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }
}

/// The values of an interleaved matrix.
#[derive(Debug)]
pub(super) enum Values {
    Dense,
    Packed(Codes),
}

/// How a packed matrix is to be read.
#[derive(Debug)]
pub(super) struct Codes {
    pub(super) bits: CodeBits,
    /// Columns of a group.
    pub(super) group: usize,
    pub(super) groups: usize,
    /// Levels by code; those of two bits four times over.
    pub(super) levels: [f32; 16],
    /// The same in 16 bits.
    pub(super) levels16: Levels16,
}

impl Codes {
    fn of(loader: &Loader<'_>, packed: &Packed) -> Self {
        let mut levels = [0.0; 16];
        for (code, level) in levels.iter_mut().enumerate() {
            *level = packed.levels()[code % packed.levels().len()];
        }
        Self {
            bits: stored_bits(packed),
            group: packed.group(),
            groups: packed.groups(),
            levels,
            levels16: loader.levels16(&levels, packed.group()),
        }
    }

    /// Words of one group of one row.
    pub(super) fn words(&self) -> usize {
        self.group * self.bits.count() / 32
    }
}

/// `[rows, cols]`, interleaved.
#[derive(Debug)]
pub(super) struct Matrix {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) values: Values,
    lines: Vec<Line>,
    /// Lines that one block takes.
    block_lines: usize,
}

impl Matrix {
    /// The rows of several weights of one kind (see [`alike`]), one after the other.
    pub(super) fn new(loader: &Loader<'_>, weights: &[&Weight], cols: usize) -> Self {
        let rows = weights.iter().map(|weight| rows_of(weight)).sum();
        let values = match weights.first() {
            Some(Weight::Packed(packed)) => Values::Packed(Codes::of(loader, packed)),
            _ => Values::Dense,
        };
        let block_lines = match &values {
            Values::Dense => cols,
            Values::Packed(codes) => codes.groups * (1 + codes.words()),
        };
        let mut matrix = Self {
            rows,
            cols,
            values,
            lines: vec![Line([0; LANES]); rows.div_ceil(LANES) * block_lines],
            block_lines,
        };
        let mut first = 0;
        for weight in weights {
            match weight {
                Weight::Dense(dense) => matrix.place_dense(first, dense),
                Weight::Packed(packed) => matrix.place_packed(first, packed),
            }
            first += rows_of(weight);
        }
        matrix
    }

    /// Blocks of sixteen rows.
    pub(super) fn blocks(&self) -> usize {
        self.rows.div_ceil(LANES)
    }

    pub(super) fn panels(&self) -> usize {
        self.blocks().div_ceil(PANEL_BLOCKS)
    }

    /// The lines of a panel, and its number of blocks.
    pub(super) fn panel(&self, panel: usize) -> (&[Line], usize) {
        let first = panel * PANEL_BLOCKS;
        let blocks = (self.blocks() - first).min(PANEL_BLOCKS);
        (
            &self.lines[first * self.block_lines..][..blocks * self.block_lines],
            blocks,
        )
    }

    /// Bytes that the matrix takes in memory.
    pub(super) fn size_bytes(&self) -> usize {
        size_of_val(&self.lines[..])
    }

    /// The lines of a row's panel and its place in them.
    fn place(&mut self, row: usize) -> (&mut [Line], Place) {
        let place = Place::of(row, self.blocks());
        let lines = &mut self.lines[place.first * self.block_lines..][..place.blocks * self.block_lines];
        (lines, place)
    }

    fn place_dense(&mut self, first: usize, dense: &Dense) {
        let values = floats::values(dense);
        for (row, values) in values.chunks_exact(self.cols).enumerate() {
            let (lines, place) = self.place(first + row);
            for (lines, value) in lines.chunks_exact_mut(place.blocks).zip(values) {
                lines[place.block].0[place.lane] = value.to_bits();
            }
        }
    }

    fn place_packed(&mut self, first: usize, packed: &Packed) {
        let (groups, stored, bits) = (packed.groups(), packed.width().bits(), stored_bits(packed));
        let words = packed.group() * bits.count() / 32;
        let mut widened = vec![0u8; groups * words * 4];
        let rows = packed.codes().chunks_exact(packed.row_bytes());
        let norms = packed.norms().as_chunks::<2>().0.chunks_exact(groups);
        for (row, (bytes, norms)) in rows.zip(norms).enumerate() {
            let bytes = if bits.count() == stored {
                bytes
            } else {
                widen(bytes, stored, bits, &mut widened);
                &widened
            };
            let (lines, place) = self.place(first + row);
            let of_group = lines.chunks_exact_mut(place.blocks * (1 + words));
            for ((lines, norm), bytes) in of_group.zip(norms).zip(bytes.chunks_exact(words * 4)) {
                let (norm_lines, code_lines) = lines.split_at_mut(place.blocks);
                norm_lines[place.block].0[place.lane] = f16::from_le_bytes(*norm).to_f32().to_bits();
                let words = bytes.as_chunks::<4>().0;
                for (lines, word) in code_lines.chunks_exact_mut(place.blocks).zip(words) {
                    lines[place.block].0[place.lane] = u32::from_le_bytes(*word);
                }
            }
        }
    }
}

/// Whether two weights can be rows of one matrix.
pub(super) fn alike(a: &Weight, b: &Weight) -> bool {
    match (a, b) {
        (Weight::Dense(_), Weight::Dense(_)) => true,
        (Weight::Packed(a), Weight::Packed(b)) => {
            (a.group(), a.width(), a.levels()) == (b.group(), b.width(), b.levels())
        }
        _ => false,
    }
}

fn rows_of(weight: &Weight) -> usize {
    weight.shape().first().copied().unwrap_or(1)
}

/// Where a row lies.
struct Place {
    /// First block of its panel.
    first: usize,
    /// Blocks of its panel.
    blocks: usize,
    /// Its block in the panel.
    block: usize,
    lane: usize,
}

impl Place {
    fn of(row: usize, blocks: usize) -> Self {
        let block = row / LANES;
        let first = block / PANEL_BLOCKS * PANEL_BLOCKS;
        Self {
            first,
            blocks: (blocks - first).min(PANEL_BLOCKS),
            block: block - first,
            lane: row % LANES,
        }
    }
}

/// The smallest width whose codes fill whole words in each group.
fn stored_bits(packed: &Packed) -> CodeBits {
    let narrow = packed.width().bits() <= 2 && packed.group() >= 16;
    match packed.width() {
        CodeWidth::Binary | CodeWidth::Ternary | CodeWidth::Two if narrow => CodeBits::Two,
        _ => CodeBits::Four,
    }
}

/// Codes of `from` bits as codes of `to` bits.
fn widen(bytes: &[u8], from: usize, to: CodeBits, out: &mut [u8]) {
    out.fill(0);
    let to = to.count();
    for code in 0..bytes.len() * 8 / from {
        let bit = code * from;
        let next = bytes.get(bit / 8 + 1).copied().unwrap_or(0);
        let word = u16::from_le_bytes([bytes[bit / 8], next]);
        let code_bits = (word >> (bit % 8)) as u8 & ((1 << from) - 1);
        out[code * to / 8] |= code_bits << (code * to % 8);
    }
}
