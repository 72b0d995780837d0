//! The start of the residual stream: the token's row of the embedding, once for every lane.

use super::{LanesShape, SIMD};
use crate::{
    error::{Unsupported, indexable, within},
    launch::{Arg, Fields, Launch},
    storage::{Elem, Format, Matrix},
    text::Module,
};

const OPERATION: &str = "embed";
const SIMDS: u32 = 4;

/// `X_i = E[token]·sqrt(d)` for each lane `i`; the token joins the history.
pub struct Embed<B> {
    /// One [`RowState`](crate::RowState) a row, read.
    pub state: B,
    /// `E: [vocabulary, d]`, read.
    pub table: Matrix<B>,
    /// `X: [rows, n, d]`, written.
    pub x: B,
    /// `[sequences, ring]` u32, written at `position mod ring`.
    pub history: B,
}

impl<B: Clone> Embed<B> {
    /// The launch for activations of `elem`. A `ring` of 0 writes no history.
    ///
    /// # Errors
    /// [`Unsupported`] for a shape or storage without a kernel.
    pub fn launch(
        self,
        elem: Elem,
        shape: LanesShape,
        vocabulary: u32,
        ring: u32,
        rows_a_sequence: u32,
    ) -> Result<Launch<B>, Unsupported> {
        let LanesShape { rows, n, d } = shape;
        let format = self.table.format();
        check_table(OPERATION, format, vocabulary, d)?;
        within(OPERATION, "rows", rows, 1, i32::MAX as u32)?;
        within(OPERATION, "the rows of a sequence", rows_a_sequence, 1, rows)?;
        indexable(OPERATION, "the lanes", &[rows, n, d])?;
        let [table, norms, levels] = self.table.into_parts();
        Ok(Launch {
            module: Module::Embed,
            kernel: format!("embed_{}", elem.name()),
            grid: (rows, 1),
            threads: SIMDS * SIMD,
            shared_bytes: 0,
            args: vec![
                Arg::In(self.state),
                Arg::In(table),
                Arg::In(norms),
                Arg::In(levels),
                Arg::Out(self.x),
                Arg::InOut(self.history),
            ],
            params: table_fields(Fields::new(), format, d)
                .u32s(&[n, ring, rows_a_sequence])
                .f32((d as f32).sqrt())
                .done(),
        })
    }
}

/// What `table_core.h` knows of a matrix.
pub(super) fn table_fields(fields: Fields, format: Format, cols: u32) -> Fields {
    fields.u32s(&[format.number(), cols, format.padded(cols), format.group_shift()])
}

/// Refuses tables whose bytes a 32-bit index does not reach.
pub(super) fn check_table(operation: &'static str, format: Format, rows: u32, cols: u32) -> Result<(), Unsupported> {
    if let Format::Packed { .. } = format {
        format.check(operation, cols)?;
    }
    within(operation, "the width of a row", cols, 1, 1 << 20)?;
    within(operation, "the rows of a table", rows, 1, 1 << 28)?;
    let row_bytes = format.values_bytes(1, cols) as u32;
    indexable(operation, "the table", &[rows, row_bytes])
}
