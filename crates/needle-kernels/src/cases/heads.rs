//! Cases of rotary positions, the cache and decode attention.

use super::{
    Case, Expected, Extent,
    inputs::{angles, buffer, noise, rounded, stored},
    matrices::scale,
    reference,
};
use crate::{
    RowState, Unsupported,
    emulator::{Memory, encode},
    ops::{Attention, HeadsShape, Rope},
    storage::Elem,
};

const TOLERANCE: f64 = 2e-6;
const POSITIONS: usize = 64;

pub(super) fn cases(extent: Extent) -> Result<Vec<Case>, Unsupported> {
    let shape = |rows, h, g, k, v, slots| HeadsShape {
        rows,
        rows_a_sequence: 1,
        h,
        g,
        k,
        v,
        slots,
    };
    let mut cases = Vec::new();
    let pairs = [
        (Elem::F32, Elem::F32),
        (Elem::F32, Elem::Bf16),
        (Elem::F32, Elem::F16),
        (Elem::Bf16, Elem::Bf16),
        (Elem::F16, Elem::F16),
    ];
    for (elem, cache) in pairs {
        cases.push(rope(elem, cache, shape(3, 4, 2, 16, 16, 5), 1)?);
        cases.push(rope(elem, cache, shape(4, 3, 1, 48, 64, 9), 2)?);
        if extent == Extent::Full {
            cases.push(rope(elem, cache, shape(6, 8, 4, 64, 64, 33), 3)?);
            cases.push(rope(elem, cache, shape(1, 2, 2, 128, 128, 3), 1)?);
            cases.push(rope(elem, cache, shape(5, 12, 2, 6, 10, 8), 5)?);
        }
    }
    // Slots, the new position's slot, filled slots: the first position, a cache that fills, one that is full and turns,
    // one more or less than what a block takes at a time.
    let windows: &[(u32, u32, u32)] = match extent {
        Extent::Quick => &[(7, 0, 1), (40, 33, 34), (33, 12, 33)],
        Extent::Full => &[
            (1, 0, 1),
            (7, 0, 1),
            (7, 1, 2),
            (7, 6, 7),
            (7, 0, 7),
            (31, 30, 31),
            (32, 31, 32),
            (33, 32, 33),
            (33, 12, 33),
            (70, 64, 65),
            (100, 99, 100),
            (160, 3, 160),
        ],
    };
    let heads: &[(u32, u32, u32, u32)] = match extent {
        Extent::Quick => &[(4, 2, 16, 16), (2, 1, 64, 48), (3, 1, 128, 66)],
        Extent::Full => &[
            (4, 2, 16, 16),
            (6, 2, 12, 20),
            (8, 4, 64, 64),
            (6, 1, 48, 64),
            (2, 2, 64, 48),
            (1, 1, 2, 2),
            (3, 1, 128, 66),
            (2, 1, 100, 128),
        ],
    };
    for cache in Elem::ALL {
        for &(slots, slot, filled) in windows {
            for &(h, g, k, v) in heads {
                cases.push(attention(cache, shape(2, h, g, k, v, slots), slot, filled)?);
            }
        }
    }
    Ok(cases)
}

/// A row's projections cut into heads.
struct Heads<'a> {
    shape: HeadsShape,
    row: &'a [f64],
}

impl Heads<'_> {
    fn query(&self, head: u32) -> &[f64] {
        &self.row[(head * self.shape.k) as usize..][..self.shape.k as usize]
    }

    fn key(&self, head: u32) -> &[f64] {
        self.query(self.shape.h + head)
    }

    fn value(&self, head: u32) -> &[f64] {
        let HeadsShape { h, g, k, v, .. } = self.shape;
        &self.row[((h + g) * k + head * v) as usize..][..v as usize]
    }

    fn gate(&self, head: u32) -> &[f64] {
        self.value(self.shape.g + head)
    }
}

fn placed(x: &[f64], norm: &[f64], table: &[f64], position: u32) -> Vec<f64> {
    let k = x.len();
    reference::rope(&reference::zcrms(x, norm), &table[position as usize * k..][..k])
}

/// A cache of `[sequences, slots, g, width]` in which nothing is defined, and the same as numbers.
fn empty_cache(memory: &mut Memory, elem: Elem, sequences: usize, shape: HeadsShape, width: u32) -> (usize, Vec<f64>) {
    let count = sequences * (shape.slots * shape.g * width) as usize;
    (memory.undefined(count * elem.size_bytes()), vec![f64::NAN; count])
}

fn rope(elem: Elem, cache: Elem, shape: HeadsShape, rows_a_sequence: u32) -> Result<Case, Unsupported> {
    let shape = HeadsShape {
        rows_a_sequence,
        ..shape
    };
    let HeadsShape {
        rows,
        h,
        g,
        k,
        v,
        slots,
        ..
    } = shape;
    // Rows lie further apart than their numbers need: the gate stands behind them, and something else.
    let stride = shape.projected() + 3;
    let sequences = rows.div_ceil(rows_a_sequence) as usize;
    let mut memory = Memory::new();
    let (qkv, projections) = buffer(&mut memory, elem, (rows * stride) as usize, 1, 4.0);
    let (q_norm, q_scale) = scale(&mut memory, k as usize, 2);
    let (k_norm, k_scale) = scale(&mut memory, k as usize, 3);
    let (table, table_values) = stored(&mut memory, Elem::F32, &angles(POSITIONS, k as usize));
    let states: Vec<RowState> = (0..rows)
        .map(|row| RowState {
            position: (7 * row + 3) % POSITIONS as u32,
            // The last row of several is not kept.
            slot: if row > 1 && row + 1 == rows {
                RowState::NO_SLOT
            } else {
                (row + 2) % slots
            },
            ..RowState::default()
        })
        .collect();
    let words: Vec<u32> = states.iter().flat_map(|state| state.words()).collect();
    let state = memory.u32s(&words);
    let q = memory.undefined((rows * h * k) as usize * elem.size_bytes());
    let key = memory.undefined((rows * g * k) as usize * elem.size_bytes());
    let (k_cache, mut k_values) = empty_cache(&mut memory, cache, sequences, shape, k);
    let (v_cache, mut v_values) = empty_cache(&mut memory, cache, sequences, shape, v);
    let (mut queries, mut keys) = (Vec::new(), Vec::new());
    for (row, state) in states.iter().enumerate() {
        let heads = Heads {
            shape,
            row: &projections[row * stride as usize..],
        };
        for head in 0..h {
            queries.extend(placed(heads.query(head), &q_scale, &table_values, state.position));
        }
        for head in 0..g {
            let key = placed(heads.key(head), &k_scale, &table_values, state.position);
            keys.extend(&key);
            if state.slot != RowState::NO_SLOT {
                let at = ((row as u32 / rows_a_sequence * slots + state.slot) * g + head) as usize;
                k_values[at * k as usize..][..k as usize].copy_from_slice(&key);
                v_values[at * v as usize..][..v as usize].copy_from_slice(heads.value(head));
            }
        }
    }
    let op = Rope {
        qkv,
        q_norm,
        k_norm,
        angles: table,
        state,
        q,
        k: key,
        k_cache,
        v_cache,
    };
    let expect = |buffer, elem, values| Expected {
        buffer,
        elem,
        values,
        tolerance: TOLERANCE,
    };
    Ok(Case {
        name: format!("rope {} {} {shape:?}", elem.name(), cache.name()),
        launch: op.launch(elem, cache, shape, stride)?,
        memory,
        expected: vec![
            expect(q, elem, queries),
            expect(key, elem, keys),
            expect(k_cache, cache, k_values),
            expect(v_cache, cache, v_values),
        ],
    })
}

fn attention(cache: Elem, shape: HeadsShape, slot: u32, filled: u32) -> Result<Case, Unsupported> {
    let HeadsShape {
        rows,
        h,
        g,
        k,
        v,
        slots,
        ..
    } = shape;
    let stride = shape.projected() as usize;
    let mut memory = Memory::new();
    let (qkvg, projections) = buffer(&mut memory, Elem::F32, rows as usize * stride, 1, 4.0);
    let (q_norm, q_scale) = scale(&mut memory, k as usize, 2);
    let (k_norm, k_scale) = scale(&mut memory, k as usize, 3);
    let (table, table_values) = stored(&mut memory, Elem::F32, &angles(POSITIONS, k as usize));
    // The second row stands elsewhere in its ring.
    let states: Vec<RowState> = (0..rows)
        .map(|row| RowState {
            token: 0,
            position: (filled + 11 * row) % POSITIONS as u32,
            slot: (slot + row) % filled,
            filled,
        })
        .collect();
    let words: Vec<u32> = states.iter().flat_map(|state| state.words()).collect();
    let state = memory.u32s(&words);
    let (k_cache, mut k_values) = empty_cache(&mut memory, cache, rows as usize, shape, k);
    let (v_cache, mut v_values) = empty_cache(&mut memory, cache, rows as usize, shape, v);
    // What is in sight is defined, all but the new position's own slot.
    let fill = |memory: &mut Memory, buffer: usize, values: &mut [f64], width: u32, salt: u32| {
        let all = noise(values.len(), salt, 4.0);
        let one = (g * width) as usize;
        for (row, state) in states.iter().enumerate() {
            for s in (0..filled).filter(|&s| s != state.slot) {
                let at = (row * slots as usize + s as usize) * one;
                memory.write(buffer, at * cache.size_bytes(), &encode(cache, &all[at..at + one]));
                values[at..at + one].copy_from_slice(&rounded(cache, &all[at..at + one]));
            }
        }
    };
    fill(&mut memory, k_cache, &mut k_values, k, 31);
    fill(&mut memory, v_cache, &mut v_values, v, 32);
    let out = memory.undefined((rows * h * v) as usize * 4);
    let mut outs = Vec::new();
    for (row, state) in states.iter().enumerate() {
        let heads = Heads {
            shape,
            row: &projections[row * stride..],
        };
        for head in 0..g {
            let at = (row as u32 * slots + state.slot) * g + head;
            let key = placed(heads.key(head), &k_scale, &table_values, state.position);
            k_values[(at * k) as usize..][..k as usize].copy_from_slice(&key);
            v_values[(at * v) as usize..][..v as usize].copy_from_slice(heads.value(head));
        }
        // What the cache holds is rounded, the new key and value too.
        let cached = |values: &[f64], width: u32, head: u32| -> Vec<Vec<f64>> {
            let one = |s: u32| {
                let at = ((row as u32 * slots + s) * g + head) * width;
                let values = &values[at as usize..][..width as usize];
                let narrow: Vec<f32> = values.iter().map(|&x| x as f32).collect();
                rounded(cache, &narrow)
            };
            (0..filled).map(one).collect()
        };
        for head in 0..h {
            let query = placed(heads.query(head), &q_scale, &table_values, state.position);
            let (keys, values) = (
                cached(&k_values, k, head / (h / g)),
                cached(&v_values, v, head / (h / g)),
            );
            let attended = reference::attend(&query, &keys, &values);
            let gate = heads.gate(head);
            outs.extend(attended.iter().zip(gate).map(|(a, &gate)| a * reference::sigmoid(gate)));
        }
    }
    let op = Attention {
        qkvg,
        q_norm,
        k_norm,
        angles: table,
        state,
        k_cache,
        v_cache,
        out,
    };
    // A new key that falls on a tie of the cache's storage may be rounded either way, and the output follows it.
    let out_tolerance = match cache {
        Elem::F32 => 4.0 * TOLERANCE,
        Elem::Bf16 => 4e-3,
        Elem::F16 => 5e-4,
    };
    let expect = |buffer, elem, values, tolerance| Expected {
        buffer,
        elem,
        values,
        tolerance,
    };
    Ok(Case {
        name: format!("attention {} {shape:?} slot {slot} of {filled}", cache.name()),
        launch: op.launch(cache, shape)?,
        memory,
        expected: vec![
            expect(out, Elem::F32, outs, out_tolerance),
            expect(k_cache, cache, k_values, TOLERANCE),
            expect(v_cache, cache, v_values, TOLERANCE),
        ],
    })
}
