//! Tables of which a pass reads single rows, the embedding and the n-gram tables, where they lie in their file.

use half::f16;

use super::{floats, loader::Loader};
use crate::{
    error::{Error, Result},
    quant::{Packed, walsh_hadamard},
    weights::{Order, Weight},
};

/// `[rows, cols]`.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    weight: Weight,
    pub(super) cols: usize,
}

impl Rows {
    /// The table `name: [rows, cols]`.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::Shape`].
    pub(super) fn load(loader: &Loader<'_>, name: &str, rows: usize, cols: usize) -> Result<Self> {
        let weight = loader.weight(name, &[rows, cols])?.clone();
        if let Weight::Dense(dense) = &weight
            && (dense.order == Order::Transposed || dense.bytes.len() != rows * cols * dense.dtype.size_in_bytes())
        {
            return Err(Error::Unsupported(format!(
                "{name}: a table must lie row by row, all of it"
            )));
        }
        Ok(Self { weight, cols })
    }

    /// Floats that [`Rows::read`] needs beside the row.
    pub(super) fn scratch_len(&self) -> usize {
        match &self.weight {
            Weight::Dense(_) => 0,
            Weight::Packed(packed) => packed.group(),
        }
    }

    /// Row `row` into `out: [cols]`.
    pub(super) fn read(&self, row: usize, out: &mut [f32], scratch: &mut [f32]) {
        match &self.weight {
            Weight::Dense(dense) => floats::widen(dense, row * self.cols, out),
            Weight::Packed(packed) => read_packed(packed, row, out, &mut scratch[..packed.group()]),
        }
    }
}

/// `(norm·level[code])·H` group by group, the last one cut to the columns.
fn read_packed(packed: &Packed, row: usize, out: &mut [f32], scratch: &mut [f32]) {
    let (groups, bits, row_bytes) = (packed.groups(), packed.width().bits(), packed.row_bytes());
    let codes = packed.codes()[row * row_bytes..][..row_bytes].chunks_exact(row_bytes / groups);
    let norms = packed.norms().as_chunks::<2>().0[row * groups..].iter();
    let levels = packed.levels();
    for ((codes, norm), out) in codes.zip(norms).zip(out.chunks_mut(packed.group())) {
        // Eight codes fill `bits` whole bytes.
        for (bytes, values) in codes.chunks_exact(bits).zip(scratch.as_chunks_mut::<8>().0) {
            let word = bytes.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
            for (i, value) in values.iter_mut().enumerate() {
                *value = levels[(word >> (i * bits)) as usize & (levels.len() - 1)];
            }
        }
        walsh_hadamard(scratch);
        let norm = f16::from_le_bytes(*norm).to_f32();
        out.iter_mut()
            .zip(&*scratch)
            .for_each(|(out, value)| *out = value * norm);
    }
}
