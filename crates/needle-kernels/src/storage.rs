//! How numbers are stored: element types, packed codes, and a weight matrix as the buffers it consists of.

use crate::error::{Unsupported, multiple};

/// Storage of a floating-point number; the arithmetic is always float32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elem {
    /// 32 bits.
    F32,
    /// The upper half of a float32.
    Bf16,
    /// IEEE half precision.
    F16,
}

impl Elem {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::F16];

    /// How kernel names spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// Bytes of one.
    pub fn size_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// How many a kernel loads at once; widths must be multiples of it.
    pub(crate) fn per_word(self) -> u32 {
        match self {
            Self::F32 => 1,
            Self::Bf16 | Self::F16 => 2,
        }
    }
}

/// Width of a packed code. Ternary codes are two bits wide and have a codebook of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodeBits {
    /// Four levels, or ternary's three.
    Two,
    /// Eight levels.
    Three,
    /// Sixteen levels.
    Four,
}

impl CodeBits {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Two, Self::Three, Self::Four];

    /// The number of bits.
    pub fn count(self) -> u32 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
            Self::Four => 4,
        }
    }

    /// Entries of the codebook, indexed by the stored code.
    pub fn level_count(self) -> u32 {
        1 << self.count()
    }
}

/// Storage of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Row-major numbers.
    Dense(Elem),
    /// Cactus Quants: codes, a float16 norm a group, one codebook.
    Packed {
        /// Width of a code.
        bits: CodeBits,
        /// Columns that share a norm and a rotation: 32, 64 or 128.
        group: u32,
    },
}

impl Format {
    /// The number by which `table_core.h` knows it.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Dense(Elem::F32) => 0,
            Self::Dense(Elem::Bf16) => 1,
            Self::Dense(Elem::F16) => 2,
            Self::Packed { bits, .. } => bits.count() + 1,
        }
    }

    /// `log2` of the group, 0 for dense.
    pub(crate) fn group_shift(self) -> u32 {
        match self {
            Self::Dense(_) => 0,
            Self::Packed { group, .. } => group.trailing_zeros(),
        }
    }

    /// Columns as stored: packed rows are padded to whole groups.
    pub fn padded(self, cols: u32) -> u32 {
        match self {
            Self::Dense(_) => cols,
            Self::Packed { group, .. } => cols.next_multiple_of(group),
        }
    }

    /// Bytes of the numbers or codes of `[rows, cols]`.
    pub fn values_bytes(self, rows: u32, cols: u32) -> usize {
        let count = rows as usize * self.padded(cols) as usize;
        match self {
            Self::Dense(elem) => count * elem.size_bytes(),
            Self::Packed { bits, .. } => count / 8 * bits.count() as usize,
        }
    }

    /// Bytes of the norms of `[rows, cols]`, 0 for dense.
    pub fn norms_bytes(self, rows: u32, cols: u32) -> usize {
        match self {
            Self::Dense(_) => 0,
            Self::Packed { group, .. } => rows as usize * (self.padded(cols) / group) as usize * 2,
        }
    }

    /// Bytes of the codebook, 0 for dense.
    pub fn levels_bytes(self) -> usize {
        match self {
            Self::Dense(_) => 0,
            Self::Packed { bits, .. } => bits.level_count() as usize * 4,
        }
    }

    /// Refuses groups and widths that the kernels cannot read.
    pub(crate) fn check(self, operation: &'static str, cols: u32) -> Result<(), Unsupported> {
        match self {
            Self::Dense(elem) => multiple(operation, "the input width", cols, elem.per_word()),
            Self::Packed { group, .. } if [32, 64, 128].contains(&group) => Ok(()),
            Self::Packed { group, .. } => Err(Unsupported {
                operation,
                what: "the group of packed weights",
                expected: "32, 64 or 128".into(),
                found: group.into(),
            }),
        }
    }
}

/// A matrix `[rows, cols]` as the buffers it consists of. `B` is whatever a backend calls a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix<B> {
    /// Row-major numbers.
    Dense {
        /// Their storage.
        elem: Elem,
        /// `[rows, cols]`.
        values: B,
    },
    /// Packed codes, read in place.
    Packed {
        /// Width of a code.
        bits: CodeBits,
        /// Columns that share a norm: 32, 64 or 128.
        group: u32,
        /// `[rows, padded]` codes as one stream of bits a row, lowest bits first; rows begin at whole bytes.
        codes: B,
        /// `[rows, padded / group]` float16.
        norms: B,
        /// `[2^bits]` float32, by stored code.
        levels: B,
    },
}

impl<B> Matrix<B> {
    /// Its storage.
    pub fn format(&self) -> Format {
        match *self {
            Self::Dense { elem, .. } => Format::Dense(elem),
            Self::Packed { bits, group, .. } => Format::Packed { bits, group },
        }
    }
}

impl<B: Clone> Matrix<B> {
    /// Values or codes, norms, levels, for kernels that take any storage; what a dense matrix lacks is never read.
    pub(crate) fn into_parts(self) -> [B; 3] {
        match self {
            Self::Dense { values, .. } => [values.clone(), values.clone(), values],
            Self::Packed {
                codes, norms, levels, ..
            } => [codes, norms, levels],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_rows_take_whole_groups() {
        let format = Format::Packed {
            bits: CodeBits::Three,
            group: 128,
        };
        assert_eq!(format.padded(200), 256);
        assert_eq!(format.values_bytes(6, 200), 6 * 256 * 3 / 8);
        assert_eq!(format.norms_bytes(6, 200), 6 * 2 * 2);
        assert_eq!(format.levels_bytes(), 32);
    }

    #[test]
    fn odd_widths_and_groups_are_refused() {
        assert!(Format::Dense(Elem::F32).check("linear", 5).is_ok());
        assert!(Format::Dense(Elem::Bf16).check("linear", 5).is_err());
        let odd = Format::Packed {
            bits: CodeBits::Four,
            group: 16,
        };
        assert_eq!(
            odd.check("linear", 64).unwrap_err().to_string(),
            "linear: the group of packed weights is 16, the kernels take 32, 64 or 128"
        );
    }
}
