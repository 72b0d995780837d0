//! Rounding a float matrix to codes and norms, in the published quantiser's own order of additions.
//!
//! That quantiser is NumPy over OpenBLAS, and archives are to equal its own byte for byte. Where a value lies between two
//! levels, or a norm between two float16, the last bit of a sum decides; so both sums are taken as there:
//!
//! - `x·H` by fused multiplications and additions along `x`. Rows of several groups are a product of matrices, one chain from
//!   the first value to the last; a row of one group is a product of a vector, in chains of [`VECTOR_RUN`] that are added up.
//! - `‖r‖²` in eight lanes, element `i` in lane `i mod 8`, which are added up as a tree; halves of more than 128 by themselves.

use half::f16;

use super::{CodeWidth, Packed, codebook::levels, packed::sizes};
use crate::{
    error::{Error, Result},
    weights::Bytes,
};

/// Below this a group counts as zero: its direction means nothing.
const NORM_MIN: f32 = 1e-12;

/// Values of a chain where a matrix has one group a row.
const VECTOR_RUN: usize = 8;

/// Lanes of a sum of squares, and the most values that go through them at once.
const LANES: usize = 8;
const LANES_MAX: usize = 128;

/// Quantises a row-major matrix of `shape = (rows, cols)` with the standard codebook of this width.
///
/// # Errors
/// [`Error::Packed`] when `values` has another size than `shape`, a group's norm is not a finite float16, or the group is
/// impossible.
pub fn pack(values: &[f32], shape: (usize, usize), group: usize, width: CodeWidth) -> Result<Packed> {
    let (rows, cols) = shape;
    let (code_bytes, norm_bytes) = sizes(shape, group, width)?;
    if rows.checked_mul(cols) != Some(values.len()) {
        let found = values.len();
        return Err(Error::Packed(format!("[{rows}, {cols}] does not hold {found} values")));
    }
    let mut packer = Packer {
        width,
        levels: levels(width, group),
        matrix: walsh_matrix(group),
        run: if cols > group { group } else { VECTOR_RUN },
        codes: Vec::with_capacity(code_bytes),
        norms: Vec::with_capacity(norm_bytes),
    };
    packer.take(values, cols)?;
    let Packer {
        levels, codes, norms, ..
    } = packer;
    Packed::new(shape, group, width, &levels, Bytes::new(codes), Bytes::new(norms))
}

struct Packer {
    width: CodeWidth,
    levels: Vec<f32>,
    matrix: Vec<f32>,
    /// Values of a chain of fused additions.
    run: usize,
    codes: Vec<u8>,
    norms: Vec<u8>,
}

impl Packer {
    /// Adds the codes and norms of all rows.
    fn take(&mut self, values: &[f32], cols: usize) -> Result<()> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            // SAFETY: the features were just found.
            return unsafe { self.take_avx2(values, cols) };
        }
        self.take_rows(values, cols)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn take_avx2(&mut self, values: &[f32], cols: usize) -> Result<()> {
        self.take_rows(values, cols)
    }

    // Inlined, so that a fused addition is one instruction where the processor has it and not a call of the C library.
    #[inline(always)]
    fn take_rows(&mut self, values: &[f32], cols: usize) -> Result<()> {
        let group = self.group();
        let (mut rotated, mut chain) = (vec![0.0; group], vec![0.0; group]);
        for (row, values) in values.chunks_exact(cols).enumerate() {
            for (index, values) in values.chunks(group).enumerate() {
                rotate(values, &self.matrix, self.run, &mut chain, &mut rotated);
                let norm = sum_of_squares(&rotated).sqrt();
                let stored = f16::from_f32(norm);
                if !stored.is_finite() {
                    return Err(Error::Packed(format!(
                        "the norm of row {row}, group {index} is {norm}, more than float16 holds"
                    )));
                }
                self.norms.extend(stored.to_le_bytes());
                let unit = norm.max(NORM_MIN);
                let places = rotated.iter().map(|value| nearest(&self.levels, value / unit));
                push_codes(&mut self.codes, self.width, places);
            }
        }
        Ok(())
    }

    /// The size of a group, which is the side of its matrix.
    fn group(&self) -> usize {
        self.matrix.len().isqrt()
    }
}

/// `x·H`; a shorter `x` stands for one with zeros behind it.
#[inline(always)]
fn rotate(x: &[f32], matrix: &[f32], run: usize, chain: &mut [f32], rotated: &mut [f32]) {
    let group = rotated.len();
    rotated.fill(0.0);
    for (x, rows) in x.chunks(run).zip(matrix.chunks(run * group)) {
        chain.fill(0.0);
        for (&x, row) in x.iter().zip(rows.chunks_exact(group)) {
            for (sum, &entry) in chain.iter_mut().zip(row) {
                *sum = x.mul_add(entry, *sum);
            }
        }
        for (total, &sum) in rotated.iter_mut().zip(&*chain) {
            *total += sum;
        }
    }
}

/// The size of `values` is a power of two from eight on.
fn sum_of_squares(values: &[f32]) -> f32 {
    if values.len() > LANES_MAX {
        let (first, second) = values.split_at(values.len() / 2);
        return sum_of_squares(first) + sum_of_squares(second);
    }
    let mut lanes = [0.0; LANES];
    for values in values.as_chunks::<LANES>().0 {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane += value * value;
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

/// `H[k][j] = ±1/sqrt(size)`, negative where `k` and `j` share an odd number of bits.
fn walsh_matrix(size: usize) -> Vec<f32> {
    let entry = (1.0 / (size as f64).sqrt()) as f32;
    let sign = |k: usize, j: usize| {
        if (k & j).count_ones().is_multiple_of(2) {
            entry
        } else {
            -entry
        }
    };
    (0..size).flat_map(|k| (0..size).map(move |j| sign(k, j))).collect()
}

/// The place of the level nearest to `value`; of two equally near the lower one.
fn nearest(levels: &[f32], value: f32) -> usize {
    let above = levels
        .partition_point(|&level| level < value)
        .clamp(1, levels.len() - 1);
    if (value - levels[above - 1]).abs() <= (value - levels[above]).abs() {
        above - 1
    } else {
        above
    }
}

/// Appends codes from the lowest bit on; their number is a multiple of eight.
fn push_codes(bytes: &mut Vec<u8>, width: CodeWidth, places: impl Iterator<Item = usize>) {
    let (mut word, mut filled) = (0u32, 0);
    for place in places {
        word |= u32::from(width.code(place)) << filled;
        filled += width.bits();
        while filled >= 8 {
            bytes.push(word as u8);
            word >>= 8;
            filled -= 8;
        }
    }
}
