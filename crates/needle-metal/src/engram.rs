//! Hashed n-gram memory.

use candle_core::{MetalStorage, Result, bail};
use needle_kernels::{
    Elem, Matrix, RowState,
    ops::{EngramGather, EngramHash},
};

use crate::{
    Pipelines,
    launch::launch,
    storage::{In, Room, elem, read, read_as, whole},
};

/// The hashed rows of all tables, joined: `[rows, tables·cols]` in `out`'s storage. `history: [sequences, ring]` u32,
/// `state: [rows, 4]` u32, `tables: [tables·slots, cols]`. Positions must lie inside the history: the kernel cannot know.
///
/// # Errors
/// When a tensor is of another shape or storage than the kernels take, or the device refuses.
pub fn engram_gather(
    pipelines: &Pipelines,
    out: Elem,
    hash: &EngramHash,
    history: In<'_>,
    state: In<'_>,
    rows_a_sequence: u32,
    tables: In<'_>,
) -> Result<MetalStorage> {
    let rows = state.1.shape().elem_count() / RowState::WORDS;
    let sequences = rows.div_ceil(rows_a_sequence.max(1) as usize);
    let remembered = history.1.shape().elem_count();
    if remembered != sequences * hash.ring as usize {
        bail!(
            "engram: expected a history of {sequences} times {}, found {remembered}",
            hash.ring
        );
    }
    let table_elem = elem(tables.0)?;
    let numbers = (hash.tables() * hash.slots * hash.cols) as usize;
    let e = Room::new(pipelines.device(), out, rows * hash.width() as usize)?;
    let op = EngramGather {
        history: read(history)?,
        state: read(state)?,
        tables: Matrix::Dense {
            elem: table_elem,
            values: read_as(tables, table_elem, numbers)?,
        },
        e: e.place(),
    };
    launch(pipelines, op.launch(out, hash, whole(rows)?, rows_a_sequence))?;
    Ok(e.into_storage(pipelines.device()))
}
