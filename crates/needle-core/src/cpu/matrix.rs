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

use std::ops::Range;

use half::f16;

use super::{
    floats,
    levels::Levels16,
    loader::Loader,
    simd::{LANES, Line},
};
use crate::{
    quant::{CodeWidth, Packed},
    weights::Weight,
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

/// `[rows, cols]`, interleaved; its lines are in an [`Arena`](super::arena::Arena).
#[derive(Debug)]
pub(super) struct Matrix {
    rows: usize,
    pub(super) values: Values,
    lines: Range<usize>,
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
        let block_lines = weights.first().map_or(0, |weight| block_lines(weight, cols));
        let mut arena = loader.arena.borrow_mut();
        let matrix = Self {
            rows,
            values,
            lines: arena.take(rows.div_ceil(LANES) * block_lines),
            block_lines,
        };
        let lines = &mut arena.lines_mut()[matrix.lines.clone()];
        match &matrix.values {
            Values::Dense => matrix.place_dense(lines, weights, cols),
            Values::Packed(codes) => matrix.place_packed(lines, weights, codes),
        }
        weights.iter().for_each(|weight| weight.release());
        matrix
    }

    /// Blocks of sixteen rows.
    pub(super) fn blocks(&self) -> usize {
        self.rows.div_ceil(LANES)
    }

    pub(super) fn panels(&self) -> usize {
        self.blocks().div_ceil(PANEL_BLOCKS)
    }

    /// The lines of a panel, of all the arena's `lines`, and its number of blocks.
    pub(super) fn panel<'a>(&self, lines: &'a [Line], panel: usize) -> (&'a [Line], usize) {
        let first = panel * PANEL_BLOCKS;
        let blocks = (self.blocks() - first).min(PANEL_BLOCKS);
        let lines = &lines[self.lines.clone()][first * self.block_lines..];
        (&lines[..blocks * self.block_lines], blocks)
    }

    /// Bytes that the matrix takes in memory.
    pub(super) fn size_bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    fn place_dense(&self, lines: &mut [Line], weights: &[&Weight], cols: usize) {
        let mut row = 0;
        for weight in weights {
            let Weight::Dense(dense) = weight else { continue };
            for values in floats::values(dense).chunks_exact(cols) {
                let (block, lane) = (row / LANES, row % LANES);
                let (panel, blocks, within) = self.panel_mut(lines, block);
                for (lines, value) in panel.chunks_exact_mut(blocks).zip(values) {
                    lines[within].0[lane] = value.to_bits();
                }
                row += 1;
            }
        }
    }

    fn place_packed(&self, lines: &mut [Line], weights: &[&Weight], codes: &Codes) {
        let (groups, words) = (codes.groups, codes.words());
        let rows = weights.iter().filter_map(|&weight| match weight {
            Weight::Packed(packed) => Some((0..packed.rows()).map(move |row| (packed, row))),
            Weight::Dense(_) => None,
        });
        let mut rows = rows.flatten().peekable();
        // Sixteen rows' words, as they are or of wider codes; rows past the end are zero.
        let row_words = groups * words;
        let mut block_words = vec![0u32; LANES * row_words];
        let mut norms = vec![[0u32; LANES]; groups];
        let mut wide = vec![0u8; row_words * 4];
        let mut block = 0;
        while rows.peek().is_some() {
            block_words.fill(0);
            norms.iter_mut().for_each(|norms| norms.fill(0));
            for (lane, place) in block_words.chunks_exact_mut(row_words).enumerate() {
                let Some((packed, row)) = rows.next() else { break };
                let mut bytes = &packed.codes()[row * packed.row_bytes()..][..packed.row_bytes()];
                if codes.bits.count() != packed.width().bits() {
                    widen(bytes, packed.width().bits(), codes.bits, &mut wide);
                    bytes = &wide;
                }
                for (place, word) in place.iter_mut().zip(bytes.as_chunks().0) {
                    *place = u32::from_le_bytes(*word);
                }
                let stored = &packed.norms().as_chunks::<2>().0[row * groups..][..groups];
                for (norms, stored) in norms.iter_mut().zip(stored) {
                    norms[lane] = f16::from_le_bytes(*stored).to_f32().to_bits();
                }
            }
            let mut lanes: [&[u32]; LANES] = [&[]; LANES];
            for (lane, words) in lanes.iter_mut().zip(block_words.chunks_exact(row_words)) {
                *lane = words;
            }
            let (panel, blocks, within) = self.panel_mut(lines, block);
            let of_group = panel.chunks_exact_mut(blocks * (1 + words)).zip(&norms).enumerate();
            for (group, (lines, norms)) in of_group {
                lines[within].0 = *norms;
                let lanes = lanes.map(|lane| &lane[group * words..][..words]);
                for (word, lines) in lines[blocks..].chunks_exact_mut(blocks).enumerate().take(words) {
                    for (place, lane) in lines[within].0.iter_mut().zip(&lanes) {
                        *place = lane[word];
                    }
                }
            }
            block += 1;
        }
    }

    /// The lines of a block's panel, its number of blocks, and the block's place among them.
    fn panel_mut<'a>(&self, lines: &'a mut [Line], block: usize) -> (&'a mut [Line], usize, usize) {
        let first = block / PANEL_BLOCKS * PANEL_BLOCKS;
        let blocks = (self.blocks() - first).min(PANEL_BLOCKS);
        let panel = &mut lines[first * self.block_lines..][..blocks * self.block_lines];
        (panel, blocks, block - first)
    }
}

/// Lines that a matrix of these rows takes at most.
pub(super) fn lines_of(weight: &Weight) -> usize {
    let cols = weight.shape().get(1).copied().unwrap_or(1);
    rows_of(weight).div_ceil(LANES) * block_lines(weight, cols)
}

fn block_lines(weight: &Weight, cols: usize) -> usize {
    match weight {
        Weight::Dense(_) => cols,
        Weight::Packed(packed) => packed.groups() * (1 + packed.group() * stored_bits(packed).count() / 32),
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
