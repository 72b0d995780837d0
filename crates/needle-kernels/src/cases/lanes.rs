//! Cases of the hyper-connections.

use super::{
    Case, Expected, Extent,
    inputs::{buffer, noise, stored},
    reference::{self, Mix},
};
use crate::{
    RowState, Unsupported,
    emulator::Memory,
    ops::{LanesFront, LanesMix, LanesRecall, LanesShape, Recall, mix_len},
    storage::Elem,
};

pub(super) const TOLERANCE: f64 = 2e-6;

/// Activations and projections that have a kernel.
const PAIRS: [(Elem, Elem); 5] = [
    (Elem::F32, Elem::F32),
    (Elem::F32, Elem::Bf16),
    (Elem::F32, Elem::F16),
    (Elem::Bf16, Elem::Bf16),
    (Elem::F16, Elem::F16),
];

pub(super) fn cases(extent: Extent) -> Result<Vec<Case>, Unsupported> {
    let shape = |rows, n, d| LanesShape { rows, n, d };
    let mut cases = Vec::new();
    let shapes = match extent {
        Extent::Quick => vec![shape(2, 4, 64), shape(1, 3, 50), shape(1, 2, 96), shape(1, 1, 100)],
        Extent::Full => {
            let widths = [34, 64, 96, 512, 768, 1024];
            let lanes = [1, 2, 3, 4];
            widths
                .iter()
                .flat_map(|&d| lanes.map(|n| shape(1 + u32::from(d < 100), n, d)))
                .collect()
        }
    };
    for &shape in &shapes {
        for (elem, phi) in PAIRS {
            cases.push(front(elem, phi, shape, 8.0)?);
        }
        cases.push(front(Elem::F32, Elem::F32, shape, 400.0)?);
        for phi in Elem::ALL {
            // Where the text begins, where the taps reach back to just before it, and far into it.
            let positions: &[u32] = match extent {
                Extent::Quick => &[0, 7],
                Extent::Full => &[0, 2, 3, 8, 9, 700],
            };
            for &position in positions {
                cases.push(recall(phi, shape, position)?);
            }
        }
        for elem in Elem::ALL {
            cases.push(mix(elem, shape)?);
        }
    }
    Ok(cases)
}

/// The inputs of a decision, and what is decided for each row.
struct Decision {
    x: usize,
    xs: Vec<f64>,
    phi: usize,
    bias: usize,
    scale: usize,
    mixes: Vec<Mix>,
}

/// `spread` is the width of the bias: large ones drive the gates and the mix to their extremes.
fn decision(memory: &mut Memory, elem: Elem, phi_elem: Elem, shape: LanesShape, spread: f32) -> Decision {
    let (rows, n, d) = (shape.rows as usize, shape.n as usize, shape.d as usize);
    let outs = mix_len(shape.n) as usize;
    let (x, xs) = buffer(memory, elem, rows * n * d, 1, 4.0);
    let (phi, phis) = buffer(memory, phi_elem, outs * n * d, 6, 0.2);
    let (bias, biases) = stored(memory, Elem::F32, &noise(outs, 7, spread));
    let (scale, scales) = stored(memory, Elem::F32, &[0.5, 0.25, 2.0]);
    let mixes = xs
        .chunks_exact(n * d)
        .map(|x| reference::lanes_decide(x, &phis, &biases, &scales, n))
        .collect();
    Decision {
        x,
        xs,
        phi,
        bias,
        scale,
        mixes,
    }
}

impl Decision {
    fn read(&self) -> Vec<f64> {
        let lanes = self.xs.len() / self.mixes.len();
        let rows = self.xs.chunks_exact(lanes).zip(&self.mixes);
        rows.flat_map(|(x, mix)| reference::lanes_read(x, &mix.pre)).collect()
    }

    fn joined(&self) -> Vec<f64> {
        self.mixes.iter().flat_map(Mix::joined).collect()
    }
}

fn front(elem: Elem, phi_elem: Elem, shape: LanesShape, spread: f32) -> Result<Case, Unsupported> {
    let mut memory = Memory::new();
    let decision = decision(&mut memory, elem, phi_elem, shape, spread);
    let u = memory.undefined((shape.rows * shape.d) as usize * elem.size_bytes());
    let mix = memory.undefined((shape.rows * mix_len(shape.n)) as usize * 4);
    let op = LanesFront {
        x: decision.x,
        phi: decision.phi,
        bias: decision.bias,
        scale: decision.scale,
        u,
        mix,
    };
    let LanesShape { rows, n, d } = shape;
    Ok(Case {
        name: format!(
            "lanes_front {} {} [{rows}, {n}, {d}] spread {spread}",
            elem.name(),
            phi_elem.name()
        ),
        launch: op.launch(elem, phi_elem, shape)?,
        memory,
        expected: vec![
            Expected {
                buffer: u,
                elem,
                values: decision.read(),
                tolerance: TOLERANCE,
            },
            Expected {
                buffer: mix,
                elem: Elem::F32,
                values: decision.joined(),
                // The sums of a row are exact to 1e-7 of 4096 products; a gate of slope 1/4 or a mix passes them on.
                tolerance: 10.0 * TOLERANCE,
            },
        ],
    })
}

fn recall(phi_elem: Elem, shape: LanesShape, position: u32) -> Result<Case, Unsupported> {
    let (rows, d) = (shape.rows as usize, shape.d as usize);
    let (ring, dilation) = (10, 3);
    let mut memory = Memory::new();
    let decision = decision(&mut memory, Elem::F32, phi_elem, shape, 8.0);
    let (key, keys) = buffer(&mut memory, Elem::F32, rows * d, 11, 2.0);
    let (taps, tap_values) = buffer(&mut memory, Elem::F32, 4 * d, 12, 2.0);
    // A batch of sequences at different positions, each with a ring of its own; places not yet reached are undefined.
    let values = memory.undefined(rows * ring * d * 4);
    let ring_values = noise(rows * ring * d, 13, 2.0);
    let positions: Vec<u32> = (0..shape.rows).map(|row| position + row).collect();
    for (row, &position) in positions.iter().enumerate() {
        for slot in 0..ring.min(position as usize + 1) {
            let at = (row * ring + slot) * d;
            memory.write(
                values,
                at * 4,
                &crate::emulator::encode(Elem::F32, &ring_values[at..at + d]),
            );
        }
    }
    let states: Vec<u32> = positions
        .iter()
        .flat_map(|&position| {
            RowState {
                position,
                ..RowState::default()
            }
            .words()
        })
        .collect();
    let state = memory.u32s(&states);
    let y = memory.undefined(rows * d * 4);
    let mix = memory.undefined(rows * mix_len(shape.n) as usize * 4);
    let read = decision.read();
    let expected = (0..rows).flat_map(|row| {
        let mut value = vec![0.0; d];
        for (j, taps) in tap_values.chunks_exact(d).enumerate() {
            let Some(at) = positions[row].checked_sub(j as u32 * dilation) else {
                break;
            };
            let from = &ring_values[(row * ring + at as usize % ring) * d..][..d];
            value
                .iter_mut()
                .zip(taps.iter().zip(from))
                .for_each(|(value, (tap, &v))| *value += tap * f64::from(v));
        }
        reference::recall(&read[row * d..][..d], &keys[row * d..][..d], &value)
    });
    let expected = vec![
        Expected {
            buffer: y,
            elem: Elem::F32,
            values: expected.collect(),
            tolerance: TOLERANCE,
        },
        Expected {
            buffer: mix,
            elem: Elem::F32,
            values: decision.joined(),
            tolerance: 10.0 * TOLERANCE,
        },
    ];
    let op = LanesRecall {
        x: decision.x,
        phi: decision.phi,
        bias: decision.bias,
        scale: decision.scale,
        key,
        values,
        taps,
        state,
        y,
        mix,
    };
    let place = Recall {
        ring: ring as u32,
        dilation,
        rows_a_sequence: 1,
    };
    let LanesShape { rows, n, d } = shape;
    Ok(Case {
        name: format!("lanes_recall {} [{rows}, {n}, {d}] at {position}", phi_elem.name()),
        launch: op.launch(phi_elem, shape, place)?,
        memory,
        expected,
    })
}

/// A mix that no kernel decided.
pub(super) fn made_up_mix(memory: &mut Memory, shape: LanesShape) -> (usize, Vec<Mix>) {
    let (rows, n) = (shape.rows as usize, shape.n as usize);
    let len = mix_len(shape.n) as usize;
    let (mix, values) = buffer(memory, Elem::F32, rows * len, 21, 2.0);
    let mixes = values.chunks_exact(len).map(|values| Mix {
        pre: values[..n].to_vec(),
        post: values[n..2 * n].to_vec(),
        res: values[2 * n..].to_vec(),
    });
    (mix, mixes.collect())
}

fn mix(elem: Elem, shape: LanesShape) -> Result<Case, Unsupported> {
    let (rows, n, d) = (shape.rows as usize, shape.n as usize, shape.d as usize);
    let mut memory = Memory::new();
    let (x, xs) = buffer(&mut memory, elem, rows * n * d, 1, 4.0);
    let (y, ys) = buffer(&mut memory, elem, rows * d, 2, 4.0);
    let (mix, mixes) = made_up_mix(&mut memory, shape);
    let values = (0..rows)
        .flat_map(|row| reference::lanes_mix(&xs[row * n * d..][..n * d], &ys[row * d..][..d], &mixes[row]))
        .collect();
    Ok(Case {
        name: format!("lanes_mix {} [{rows}, {n}, {d}]", elem.name()),
        launch: LanesMix { x, y, mix }.launch(elem, shape)?,
        memory,
        expected: vec![Expected {
            buffer: x,
            elem,
            values,
            tolerance: TOLERANCE,
        }],
    })
}
