//! A packed matrix: codes and norms where they lie in their file, and how to widen them.

use std::{ops::Range, sync::Arc};

use half::f16;

use super::{CodeWidth, hadamard::butterflies};
use crate::{
    error::{Error, Result},
    weights::Bytes,
};

/// Sizes of a group that are accepted: powers of two, whole bytes at every width.
const GROUPS: Range<usize> = 8..1025;

/// The largest finite float16; as bits, every greater number is infinite, not a number, or negative.
const F16_MAX_BITS: u16 = 0x7BFF;

/// A packed matrix `[rows, cols]`. Cloning and slicing copy no codes.
///
/// A row is `groups = ceil(cols / group)` groups; its codes are one stream of bits, code `i` at bits
/// `[i·bits, (i+1)·bits)` from the lowest on, and take whole bytes. The norms are little-endian float16, `[rows, groups]`.
#[derive(Clone, Debug)]
pub struct Packed {
    rows: usize,
    cols: usize,
    group: usize,
    width: CodeWidth,
    table: Arc<[f32]>,
    codes: Bytes,
    norms: Bytes,
}

impl Packed {
    /// A matrix of these codes and norms. `levels` is the ascending codebook, `shape` is `(rows, cols)`.
    ///
    /// # Errors
    /// [`Error::Packed`] when a size contradicts another, a code stands for no level, a level lies outside −1 to 1, or a
    /// norm is negative, infinite or not a number.
    pub fn new(
        shape: (usize, usize),
        group: usize,
        width: CodeWidth,
        levels: &[f32],
        codes: Bytes,
        norms: Bytes,
    ) -> Result<Self> {
        let (rows, cols) = shape;
        let (code_bytes, norm_bytes) = sizes(shape, group, width)?;
        if (codes.len(), norms.len()) != (code_bytes, norm_bytes) {
            let (found_codes, found_norms) = (codes.len(), norms.len());
            return Err(Error::Packed(format!(
                "[{rows}, {cols}] in groups of {group} takes {code_bytes} bytes of codes and {norm_bytes} of norms, \
                 found {found_codes} and {found_norms}"
            )));
        }
        let packed = Self {
            rows,
            cols,
            group,
            width,
            table: table(width, levels)?,
            codes,
            norms,
        };
        packed.check_codes()?;
        packed.check_norms()?;
        Ok(packed)
    }

    /// Rows, the outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns, the inputs.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Columns that share a norm and a rotation.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Groups in a row; the last one reaches beyond the columns where they are no multiple of the group.
    pub fn groups(&self) -> usize {
        self.cols.div_ceil(self.group)
    }

    /// Width of a code.
    pub fn width(&self) -> CodeWidth {
        self.width
    }

    /// The level of every code: 2, 4, 8 or 16 numbers indexed by the stored code. Ternary's unused code 2 stands for 0.
    pub fn levels(&self) -> &[f32] {
        &self.table
    }

    /// Whether the levels are the standard codebook's, so that the codes mean the same in any archive.
    pub(crate) fn has_standard_levels(&self) -> bool {
        table(self.width, &super::levels(self.width, self.group)).is_ok_and(|standard| standard == self.table)
    }

    /// All codes, [`Self::row_bytes`] a row.
    pub fn codes(&self) -> &[u8] {
        &self.codes
    }

    /// Bytes of a row's codes.
    pub fn row_bytes(&self) -> usize {
        self.groups() * self.group_bytes()
    }

    /// All norms, little-endian float16, `[rows, groups]`.
    pub fn norms(&self) -> &[u8] {
        &self.norms
    }

    /// Bytes of codes and norms.
    pub fn size_bytes(&self) -> usize {
        self.codes.len() + self.norms.len()
    }

    /// Says that codes and norms will not be read again soon, see [`Bytes::release`].
    pub fn release(&self) {
        self.codes.release();
        self.norms.release();
    }

    /// Some rows as a matrix of their own, `None` where they reach beyond the end.
    pub fn slice_rows(&self, rows: Range<usize>) -> Option<Self> {
        let norm_bytes = self.groups() * size_of::<f16>();
        let part = |bytes: &Bytes, each: usize| bytes.slice(rows.start.checked_mul(each)?..rows.end.checked_mul(each)?);
        Some(Self {
            rows: rows.len(),
            codes: part(&self.codes, self.row_bytes())?,
            norms: part(&self.norms, norm_bytes)?,
            ..self.clone()
        })
    }

    /// The values of one row, into exactly [`Self::cols`] places.
    ///
    /// # Panics
    /// When there is no such row or `out` has another length.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        self.widen(row, &mut vec![0.0; self.group], out);
    }

    /// All values, row-major.
    pub fn dequantize(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.rows * self.cols];
        let mut scratch = vec![0.0; self.group];
        for (row, out) in values.chunks_exact_mut(self.cols).enumerate() {
            self.widen(row, &mut scratch, out);
        }
        values
    }

    fn group_bytes(&self) -> usize {
        self.group * self.width.bits() / 8
    }

    /// `out = (norm·level[code])·H` group by group, the last one cut to the columns.
    fn widen(&self, row: usize, scratch: &mut [f32], out: &mut [f32]) {
        assert_eq!(out.len(), self.cols, "a row of {} values", self.cols);
        let (groups, row_bytes, group_bytes) = (self.groups(), self.row_bytes(), self.group_bytes());
        let codes = self.codes[row * row_bytes..][..row_bytes].chunks_exact(group_bytes);
        let norms = self.norms.as_chunks::<2>().0[row * groups..][..groups].iter();
        let scale = 1.0 / (self.group as f32).sqrt();
        for ((codes, &norm), out) in codes.zip(norms).zip(out.chunks_mut(self.group)) {
            look_up(codes, self.width.bits(), &self.table, scratch);
            butterflies(scratch);
            let norm = f16::from_le_bytes(norm).to_f32() * scale;
            for (out, &value) in out.iter_mut().zip(&*scratch) {
                *out = value * norm;
            }
        }
    }

    fn check_codes(&self) -> Result<()> {
        if self.width != CodeWidth::Ternary {
            return Ok(());
        }
        let unused = |byte: u8| byte & 0b1010_1010 & !(byte << 1) != 0;
        match self.codes.iter().position(|&byte| unused(byte)) {
            None => Ok(()),
            Some(at) => Err(Error::Packed(format!(
                "row {} holds the code 2, which ternary does not have",
                at / self.row_bytes()
            ))),
        }
    }

    fn check_norms(&self) -> Result<()> {
        let norms = self.norms.as_chunks::<2>().0;
        // A maximum first: it needs no branch, and nearly always settles it.
        let largest = norms.iter().fold(0, |most, &norm| u16::from_le_bytes(norm).max(most));
        if largest <= F16_MAX_BITS {
            return Ok(());
        }
        let bad = |&norm: &[u8; 2]| u16::from_le_bytes(norm) > F16_MAX_BITS;
        let at = norms.iter().position(bad).unwrap_or_default();
        let (row, group, norm) = (at / self.groups(), at % self.groups(), f16::from_le_bytes(norms[at]));
        Err(Error::Packed(format!(
            "the norm of row {row}, group {group} is {norm}; expected a finite number from 0 on"
        )))
    }
}

/// Bytes of codes and of norms that a matrix takes.
///
/// # Errors
/// [`Error::Packed`] for an impossible group or a matrix that no memory holds.
pub(crate) fn sizes(shape: (usize, usize), group: usize, width: CodeWidth) -> Result<(usize, usize)> {
    let (rows, cols) = shape;
    if !group.is_power_of_two() || !GROUPS.contains(&group) {
        let (least, most) = (GROUPS.start, GROUPS.end - 1);
        return Err(Error::Packed(format!(
            "groups of {group}; expected a power of two from {least} to {most}"
        )));
    }
    if rows == 0 || cols == 0 {
        return Err(Error::Packed(format!("[{rows}, {cols}] holds no values")));
    }
    let groups = cols.div_ceil(group);
    let code_bytes = groups
        .checked_mul(group * width.bits() / 8)
        .and_then(|row| row.checked_mul(rows));
    let norm_bytes = groups
        .checked_mul(size_of::<f16>())
        .and_then(|row| row.checked_mul(rows));
    code_bytes
        .zip(norm_bytes)
        .ok_or_else(|| Error::Packed(format!("[{rows}, {cols}] is larger than any memory")))
}

/// The levels by stored code.
fn table(width: CodeWidth, levels: &[f32]) -> Result<Arc<[f32]>> {
    if levels.len() != width.level_count() {
        let (expected, found) = (width.level_count(), levels.len());
        return Err(Error::Packed(format!("expected {expected} levels, found {found}")));
    }
    // The entries of a rotated group of norm 1 are at most 1.
    if let Some(level) = levels.iter().find(|level| !(-1.0..=1.0).contains(*level)) {
        return Err(Error::Packed(format!("a level is {level}; expected −1 to 1")));
    }
    let mut table = vec![0.0; 1 << width.bits()];
    for (place, &level) in levels.iter().enumerate() {
        table[usize::from(width.code(place))] = level;
    }
    Ok(table.into())
}

/// The level of every code, eight codes from `bits` bytes at a time.
fn look_up(codes: &[u8], bits: usize, table: &[f32], out: &mut [f32]) {
    match bits {
        1 => look_up_bits::<1, 2>(codes, table, out),
        2 => look_up_bits::<2, 4>(codes, table, out),
        3 => look_up_bits::<3, 8>(codes, table, out),
        _ => look_up_bits::<4, 16>(codes, table, out),
    }
}

fn look_up_bits<const BITS: usize, const LEVELS: usize>(codes: &[u8], table: &[f32], out: &mut [f32]) {
    let Some(table) = table.first_chunk::<LEVELS>() else {
        return;
    };
    for (bytes, out) in codes.as_chunks::<BITS>().0.iter().zip(out.as_chunks_mut::<8>().0) {
        let word = bytes.iter().rev().fold(0u32, |word, &byte| word << 8 | u32::from(byte));
        for (i, out) in out.iter_mut().enumerate() {
            *out = table[(word >> (i * BITS)) as usize % LEVELS];
        }
    }
}
