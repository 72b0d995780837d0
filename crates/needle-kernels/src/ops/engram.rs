//! Hashed n-gram memory: which rows a position reads, and what a site makes of them.

use super::{
    LinearShape, SIMD,
    embed::{check_table, table_fields},
    floats,
    linear::{book_len, push_weight},
};
use crate::{
    error::{Unsupported, indexable, within},
    launch::{Arg, Fields, Launch},
    storage::{Elem, Format, Matrix},
    text::Module,
};

const OPERATION: &str = "engram";
const GATHER_SIMDS: u32 = 4;
const SIMDS: u32 = 8;
const CHUNK: u32 = 512;
const WIDTH_MAX: u32 = 1024;
/// Orders that the parameter struct has room for.
const ORDERS_MAX: usize = 4;

/// The hash and the tables it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngramHash {
    /// Lengths of the n-grams, four of them at most.
    pub orders: Vec<u32>,
    /// Tables an order.
    pub heads: u32,
    /// Seeds between one order and the next.
    pub stride: u32,
    /// Rows a table.
    pub slots: u32,
    /// Width of a row.
    pub cols: u32,
    /// Positions in the history of one sequence, the longest order at least.
    pub ring: u32,
}

impl EngramHash {
    /// Hash tables of one site.
    pub fn tables(&self) -> u32 {
        self.orders.len() as u32 * self.heads
    }

    /// `d`: all rows of a position joined.
    pub fn width(&self) -> u32 {
        self.tables() * self.cols
    }

    fn check(&self, format: Format, rows: u32, rows_a_sequence: u32) -> Result<(), Unsupported> {
        let count = self.orders.len() as u32;
        within(OPERATION, "the number of orders", count, 1, ORDERS_MAX as u32)?;
        let longest = self.orders.iter().copied().max().unwrap_or(0);
        let shortest = self.orders.iter().copied().min().unwrap_or(0);
        within(OPERATION, "the shortest order", shortest, 1, longest)?;
        within(OPERATION, "the history", self.ring, longest, 1 << 24)?;
        within(OPERATION, "the tables of an order", self.heads, 1, 1 << 10)?;
        within(OPERATION, "the rows of a table", self.slots, 1, 1 << 24)?;
        within(OPERATION, "rows", rows, 1, i32::MAX as u32)?;
        within(OPERATION, "the rows of a sequence", rows_a_sequence, 1, rows)?;
        indexable(OPERATION, "the history", &[rows.div_ceil(rows_a_sequence), self.ring])?;
        indexable(OPERATION, "the gathered rows", &[rows, self.width()])?;
        check_table(OPERATION, format, self.tables() * self.slots, self.cols)
    }

    fn fields(&self, format: Format, rows_a_sequence: u32, value_ring: u32) -> Fields {
        let mut orders = [0; ORDERS_MAX];
        orders
            .iter_mut()
            .zip(&self.orders)
            .for_each(|(place, &order)| *place = order);
        table_fields(Fields::new(), format, self.cols)
            .u32s(&orders)
            .u32s(&[self.orders.len() as u32, self.heads, self.stride, self.slots, self.ring])
            .u32s(&[rows_a_sequence, value_ring])
    }
}

/// `e = [rows of all tables]`, order by order. For order index `o` and table `j` of it, in wrapping 32-bit arithmetic:
/// `a = 0x9E3779B9·(o·stride + j + 1)`; for `r < order`: `a = (a ⊕ token[t−r])·0x01000193`; `a ⊕= a ≫ 15`; row
/// `a mod slots`, zero where the n-gram begins before the text.
pub struct EngramGather<B> {
    /// `[sequences, ring]` u32, position `p` at `p mod ring`, read.
    pub history: B,
    /// One [`RowState`](crate::RowState) a row, read.
    pub state: B,
    /// `[tables·slots, cols]`, read.
    pub tables: Matrix<B>,
    /// `[rows, d]`, written.
    pub e: B,
}

impl<B: Clone> EngramGather<B> {
    /// The launch for activations of `elem`.
    ///
    /// # Errors
    /// [`Unsupported`] for a shape or storage without a kernel.
    pub fn launch(
        self,
        elem: Elem,
        hash: &EngramHash,
        rows: u32,
        rows_a_sequence: u32,
    ) -> Result<Launch<B>, Unsupported> {
        let format = self.tables.format();
        hash.check(format, rows, rows_a_sequence)?;
        let [tables, norms, levels] = self.tables.into_parts();
        Ok(Launch {
            module: Module::Engram,
            kernel: format!("engram_gather_{}", elem.name()),
            grid: (rows, 1),
            threads: GATHER_SIMDS * SIMD,
            shared_bytes: 0,
            args: vec![
                Arg::In(self.history),
                Arg::In(self.state),
                Arg::In(tables),
                Arg::In(norms),
                Arg::In(levels),
                Arg::Out(self.e),
            ],
            params: hash.fields(format, rows_a_sequence, 0).done(),
        })
    }
}

/// `e` as in [`EngramGather`], `[k | v] = e·[Wk; Wv]ᵀ`; `v` joins the ring of values.
pub struct EngramRecall<B> {
    /// `[sequences, ring]` u32, position `p` at `p mod ring`, read.
    pub history: B,
    /// One [`RowState`](crate::RowState) a row, read.
    pub state: B,
    /// `[tables·slots, cols]`, read.
    pub tables: Matrix<B>,
    /// `[2·d, d]`: the rows of `Wk`, then those of `Wv`, read.
    pub weight: Matrix<B>,
    /// `[rows, d]` float32, written.
    pub key: B,
    /// `[sequences, value_ring, d]` float32, written at `position mod value_ring`.
    pub values: B,
}

impl<B: Clone> EngramRecall<B> {
    /// The launch.
    ///
    /// # Errors
    /// [`Unsupported`] for a shape or storage without a kernel.
    pub fn launch(
        self,
        hash: &EngramHash,
        rows: u32,
        rows_a_sequence: u32,
        value_ring: u32,
    ) -> Result<Launch<B>, Unsupported> {
        let (tables, format) = (self.tables.format(), self.weight.format());
        hash.check(tables, rows, rows_a_sequence)?;
        let d = hash.width();
        format.check(OPERATION, d)?;
        within(OPERATION, "the width", d, 1, WIDTH_MAX)?;
        within(OPERATION, "rows", rows, 1, 65_535)?;
        within(OPERATION, "the ring of values", value_ring, 1, 1 << 24)?;
        indexable(
            OPERATION,
            "the ring of values",
            &[rows.div_ceil(rows_a_sequence), value_ring, d],
        )?;
        let kernel = match format {
            Format::Dense(weight) => format!("engram_recall_{}", weight.name()),
            Format::Packed { bits, .. } => format!("engram_recall_packed_{}", bits.count()),
        };
        let [values, norms, levels] = self.tables.into_parts();
        let mut args = vec![
            Arg::In(self.history),
            Arg::In(self.state),
            Arg::In(values),
            Arg::In(norms),
            Arg::In(levels),
        ];
        push_weight(&mut args, self.weight);
        args.extend([Arg::Out(self.key), Arg::InOut(self.values)]);
        let product = LinearShape {
            rows,
            n_in: d,
            n_out: 2 * d,
        };
        Ok(Launch {
            module: Module::Engram,
            kernel,
            grid: ((2 * d).div_ceil(SIMDS), rows),
            threads: SIMDS * SIMD,
            shared_bytes: floats(WIDTH_MAX + CHUNK + book_len(format)),
            args,
            params: product
                .fields(hash.fields(tables, rows_a_sequence, value_ring), format, 1)
                .done(),
        })
    }
}
