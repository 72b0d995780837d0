//! The buffers of a step by what they mean, so that whoever allocates them knows what to put there.

use std::collections::HashMap;

use crate::storage::{Elem, Format, Matrix};

/// What a buffer holds. Shapes are row-major; what is not said to be stored otherwise is float32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// One [`RowState`](crate::RowState) a row, u32.
    State,
    /// `[positions, k]`: a position's cosines, then its sines.
    Angles,
    /// `[vocabulary, d]`, in its own storage.
    Embedding,
    /// `[d]`.
    FinalNorm,
    /// Of a layer: `[n + n + n·n, n·d]`, the rows of `Φ_pre`, `Φ_post`, `Φ_res`, in its own storage.
    Phi,
    /// Of a layer: `[n + n + n·n]`, the home lane's offsets added.
    LaneBias,
    /// Of a layer: `[3]`, `a_pre`, `a_post`, `a_res`.
    LaneScale,
    /// Of a layer: `[d]`.
    NormIn,
    /// Of a layer: `[(h + g)·k + (g + h)·v, d]`, the rows of q, k, v and gate, in its own storage.
    Qkvg,
    /// Of a layer: `[k]`.
    QNorm,
    /// Of a layer: `[k]`.
    KNorm,
    /// Of a layer: `[d, h·v]`, in its own storage.
    Out,
    /// Of a layer: `[d]`.
    PostNorm,
    /// Of a layer: `[1]`, `σ` of the attention's gate.
    Gate,
    /// Of a layer: `[d]`.
    PreNorm,
    /// Of a layer: `[m]`.
    D1,
    /// Of a layer: `[m]`.
    D2,
    /// Of a layer: `[m]`.
    D3,
    /// Of a site: `[tables·slots, cols]`, in its own storage.
    Tables,
    /// Of a site: `[2·d, d]`, the rows of the key's, then of the value's projection, in its own storage.
    KeyValue,
    /// Of a site: `[4, d]`.
    Taps,
    /// `[rows, ring]` u32: the last tokens of every sequence, position `p` at `p mod ring`.
    History,
    /// Of a site: `[rows, value_ring, d]`, position `p` at `p mod value_ring`.
    EngramValues,
    /// Of a layer: `[rows, slots, g, k]`, in its own storage.
    KeyCache,
    /// Of a layer: `[rows, slots, g, v]`, in its own storage.
    ValueCache,
    /// `[rows, n, d]`.
    Lanes,
    /// `[rows, d]`: a block's input.
    X,
    /// `[rows, n + n + n·n]`.
    Mix,
    /// `[rows, (h + g)·k + (g + h)·v]`.
    Projected,
    /// `[rows, h·v]`.
    Attended,
    /// `[rows, d]`: the attention's output projection.
    Output,
    /// `[rows, d]`.
    EngramKey,
    /// `[rows, out_vocabulary]`.
    Logits,
}

/// How long a buffer's contents last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Written once, when the model is loaded.
    Weight,
    /// Written by the host before every step.
    Input,
    /// Of a sequence; written by steps (or by prefill) and read by later ones.
    Sequence,
    /// Of one step.
    Scratch,
    /// What a step is for.
    Result,
}

impl Name {
    /// How long the contents last.
    pub fn keeping(self) -> Keeping {
        match self {
            Self::State => Keeping::Input,
            Self::History | Self::EngramValues | Self::KeyCache | Self::ValueCache => Keeping::Sequence,
            Self::Lanes | Self::X | Self::Mix | Self::Projected | Self::Attended | Self::Output | Self::EngramKey => {
                Keeping::Scratch
            }
            Self::Logits => Keeping::Result,
            _ => Keeping::Weight,
        }
    }
}

/// Which buffer of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The numbers, or packed codes; whatever is no matrix has only this.
    Values,
    /// Float16 norms of packed codes.
    Norms,
    /// Float32 codebook of packed codes.
    Levels,
}

/// Which buffer of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Role {
    /// What it holds.
    pub name: Name,
    /// Of which layer or site; 0 where there is one for the whole step.
    pub index: usize,
    /// Of a matrix, which part.
    pub part: Part,
}

impl Role {
    /// The whole of something that is no packed matrix.
    pub fn of(name: Name, index: usize) -> Self {
        Self {
            name,
            index,
            part: Part::Values,
        }
    }
}

/// A buffer that a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// What it is.
    pub role: Role,
    /// Its storage; of a packed matrix's parts and of whole numbers it means nothing.
    pub elem: Elem,
    /// Its size.
    pub bytes: usize,
}

/// Gives every role one number.
#[derive(Default)]
pub(super) struct Buffers {
    specs: Vec<BufferSpec>,
    numbers: HashMap<Role, usize>,
}

impl Buffers {
    pub(super) fn number(&mut self, role: Role, elem: Elem, bytes: usize) -> usize {
        *self.numbers.entry(role).or_insert_with(|| {
            self.specs.push(BufferSpec { role, elem, bytes });
            self.specs.len() - 1
        })
    }

    pub(super) fn matrix(&mut self, name: Name, index: usize, format: Format, rows: u32, cols: u32) -> Matrix<usize> {
        let mut part = |part, elem, bytes| self.number(Role { name, index, part }, elem, bytes);
        match format {
            Format::Dense(elem) => Matrix::Dense {
                elem,
                values: part(Part::Values, elem, format.values_bytes(rows, cols)),
            },
            Format::Packed { bits, group } => Matrix::Packed {
                bits,
                group,
                codes: part(Part::Values, Elem::F32, format.values_bytes(rows, cols)),
                norms: part(Part::Norms, Elem::F16, format.norms_bytes(rows, cols)),
                levels: part(Part::Levels, Elem::F32, format.levels_bytes()),
            },
        }
    }

    pub(super) fn into_specs(self) -> Vec<BufferSpec> {
        self.specs
    }
}
