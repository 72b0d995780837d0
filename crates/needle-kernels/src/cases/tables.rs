//! Cases of the operations that fetch rows: embedding and engram.

use super::{
    Case, Expected, Extent,
    inputs::whole,
    matrices::{formats, matrix},
    reference,
};
use crate::{
    RowState, Unsupported,
    emulator::Memory,
    ops::{Embed, EngramGather, EngramHash, EngramRecall, LanesShape},
    storage::{CodeBits, Elem, Format},
};

const TOLERANCE: f64 = 2e-6;

pub(super) fn cases(extent: Extent) -> Result<Vec<Case>, Unsupported> {
    let hash = |orders: &[u32], heads, slots, cols| EngramHash {
        orders: orders.to_vec(),
        heads,
        stride: heads + 1,
        slots,
        cols,
        ring: 16,
    };
    let mut cases = Vec::new();
    for format in formats() {
        for elem in Elem::ALL {
            cases.push(embed(elem, format, 2, 4, 64)?);
            cases.push(embed(elem, format, 3, 1, 200)?);
            if extent == Extent::Full {
                cases.push(embed(elem, format, 1, 3, 768)?);
            }
            cases.push(gather(elem, format, &hash(&[2, 3], 2, 50, 16), &[0, 1, 2, 40], 1)?);
            if extent == Extent::Full {
                cases.push(gather(elem, format, &hash(&[2, 3, 4], 1, 33, 130), &[0, 3, 9], 1)?);
                cases.push(gather(elem, format, &hash(&[1, 5], 3, 20, 32), &[4, 5, 6, 7], 4)?);
            }
        }
    }
    let packed = |bits, group| Format::Packed { bits, group };
    let tables = match extent {
        Extent::Quick => vec![Format::Dense(Elem::F16), packed(CodeBits::Three, 128)],
        Extent::Full => formats(),
    };
    for table in tables {
        for weight in formats() {
            cases.push(recall(table, weight, &hash(&[2, 3], 2, 50, 16), &[1, 30])?);
            if extent == Extent::Full {
                cases.push(recall(table, weight, &hash(&[2, 3], 2, 20, 160), &[9])?);
                cases.push(recall(table, weight, &hash(&[2], 1, 20, 34), &[0])?);
            }
        }
    }
    // Several chunks of columns.
    cases.push(recall(
        packed(CodeBits::Four, 128),
        Format::Dense(Elem::F32),
        &hash(&[2, 3], 2, 9, 150),
        &[4],
    )?);
    cases.push(recall(
        Format::Dense(Elem::F32),
        packed(CodeBits::Two, 64),
        &hash(&[2, 3], 2, 9, 150),
        &[4],
    )?);
    Ok(cases)
}

fn embed(elem: Elem, format: Format, rows: u32, n: u32, d: u32) -> Result<Case, Unsupported> {
    let vocabulary = 23;
    let ring = 8;
    let mut memory = Memory::new();
    let (table, values) = matrix(&mut memory, format, vocabulary as usize, d as usize, 51);
    let tokens = whole(rows as usize, 52, vocabulary);
    let states: Vec<RowState> = tokens
        .iter()
        .zip(0..)
        .map(|(&token, row)| RowState {
            token,
            position: 5 * row + 6,
            ..RowState::default()
        })
        .collect();
    let words: Vec<u32> = states.iter().flat_map(|state| state.words()).collect();
    let state = memory.u32s(&words);
    let x = memory.undefined((rows * n * d) as usize * elem.size_bytes());
    let history = memory.undefined((rows * ring) as usize * 4);
    let lanes = tokens.iter().flat_map(|&token| {
        let row = &values[(token * d) as usize..][..d as usize];
        let scaled: Vec<f64> = row.iter().map(|v| v * f64::from(d).sqrt()).collect();
        vec![scaled; n as usize].concat()
    });
    // The history is whole numbers: its bits, read as float32, must be the token's.
    let mut remembered = vec![f64::NAN; (rows * ring) as usize];
    for (row, state) in states.iter().enumerate() {
        let at = row * ring as usize + (state.position % ring) as usize;
        remembered[at] = f64::from(f32::from_bits(state.token));
    }
    let op = Embed {
        state,
        table,
        x,
        history,
    };
    Ok(Case {
        name: format!("embed {} {format:?} [{rows}, {n}, {d}]", elem.name()),
        expected: vec![
            Expected {
                buffer: x,
                elem,
                values: lanes.collect(),
                tolerance: TOLERANCE,
            },
            Expected {
                buffer: history,
                elem: Elem::F32,
                values: remembered,
                tolerance: 0.0,
            },
        ],
        launch: op.launch(elem, LanesShape { rows, n, d }, vocabulary, ring, 1)?,
        memory,
    })
}

/// The history of every sequence as a ring in which only what has been seen is defined, and as the text it was.
fn histories(
    memory: &mut Memory,
    hash: &EngramHash,
    positions: &[u32],
    rows_a_sequence: u32,
) -> (usize, Vec<Vec<u32>>) {
    let sequences = positions.chunks(rows_a_sequence as usize);
    let history = memory.undefined(sequences.len() * hash.ring as usize * 4);
    let texts = sequences.enumerate().map(|(sequence, positions)| {
        let end = positions.iter().copied().max().unwrap_or(0);
        let text = whole(end as usize + 1, 60 + sequence as u32, 500);
        for (position, token) in text.iter().enumerate() {
            let at = sequence * hash.ring as usize + position % hash.ring as usize;
            memory.write(history, at * 4, &token.to_ne_bytes());
        }
        text
    });
    let texts = texts.collect();
    (history, texts)
}

fn states(memory: &mut Memory, positions: &[u32]) -> usize {
    let state = |&position| {
        RowState {
            position,
            ..RowState::default()
        }
        .words()
    };
    let words: Vec<u32> = positions.iter().flat_map(state).collect();
    memory.u32s(&words)
}

/// `e` of the n-grams that end at `position`.
fn gathered(hash: &EngramHash, tables: &[f64], text: &[u32], position: u32) -> Vec<f64> {
    let cols = hash.cols as usize;
    let mut e = Vec::new();
    for (o, &order) in (0..).zip(&hash.orders) {
        for j in 0..hash.heads {
            let seed = o * hash.stride + j + 1;
            let slot = reference::engram_slot(text, position as usize, order as usize, seed, hash.slots);
            let row = ((o * hash.heads + j) * hash.slots + slot) as usize;
            let visible = position + 1 >= order;
            e.extend(
                tables[row * cols..][..cols]
                    .iter()
                    .map(|v| if visible { *v } else { 0.0 }),
            );
        }
    }
    e
}

fn gather(
    elem: Elem,
    format: Format,
    hash: &EngramHash,
    positions: &[u32],
    rows_a_sequence: u32,
) -> Result<Case, Unsupported> {
    let rows = positions.len();
    let mut memory = Memory::new();
    let (history, texts) = histories(&mut memory, hash, positions, rows_a_sequence);
    let state = states(&mut memory, positions);
    let (tables, values) = matrix(
        &mut memory,
        format,
        (hash.tables() * hash.slots) as usize,
        hash.cols as usize,
        61,
    );
    let e = memory.undefined(rows * hash.width() as usize * elem.size_bytes());
    let expected = positions
        .iter()
        .enumerate()
        .flat_map(|(row, &position)| gathered(hash, &values, &texts[row / rows_a_sequence as usize], position));
    let op = EngramGather {
        history,
        state,
        tables,
        e,
    };
    Ok(Case {
        name: format!("engram_gather {} {format:?} {hash:?} at {positions:?}", elem.name()),
        expected: vec![Expected {
            buffer: e,
            elem,
            values: expected.collect(),
            tolerance: TOLERANCE,
        }],
        launch: op.launch(elem, hash, rows as u32, rows_a_sequence)?,
        memory,
    })
}

fn recall(table: Format, weight: Format, hash: &EngramHash, positions: &[u32]) -> Result<Case, Unsupported> {
    let (rows, d, value_ring) = (positions.len(), hash.width() as usize, 10);
    let mut memory = Memory::new();
    let (history, texts) = histories(&mut memory, hash, positions, 1);
    let state = states(&mut memory, positions);
    let count = (hash.tables() * hash.slots) as usize;
    let (tables, table_values) = matrix(&mut memory, table, count, hash.cols as usize, 61);
    let (product, weights) = matrix(&mut memory, weight, 2 * d, d, 71);
    let key = memory.undefined(rows * d * 4);
    let values = memory.undefined(rows * value_ring * d * 4);
    let mut keys = Vec::new();
    let mut ring = vec![f64::NAN; rows * value_ring * d];
    for (row, &position) in positions.iter().enumerate() {
        let y = reference::linear(&weights, &gathered(hash, &table_values, &texts[row], position));
        keys.extend(&y[..d]);
        ring[(row * value_ring + position as usize % value_ring) * d..][..d].copy_from_slice(&y[d..]);
    }
    let op = EngramRecall {
        history,
        state,
        tables,
        weight: product,
        key,
        values,
    };
    let expect = |buffer, values| Expected {
        buffer,
        elem: Elem::F32,
        values,
        tolerance: TOLERANCE,
    };
    Ok(Case {
        name: format!("engram_recall {table:?} {weight:?} {hash:?} at {positions:?}"),
        expected: vec![expect(key, keys), expect(values, ring)],
        launch: op.launch(hash, rows as u32, 1, value_ring as u32)?,
        memory,
    })
}
