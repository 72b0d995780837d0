//! Cases of the second half of a layer.

use super::{
    Case, Expected, Extent,
    inputs::buffer,
    lanes::{TOLERANCE, made_up_mix},
    matrices::scale,
    norms::diagonals,
    reference,
};
use crate::{
    Unsupported,
    emulator::Memory,
    ops::{BlockBack, LanesShape, hadamard_size},
    storage::Elem,
};

pub(super) fn cases(extent: Extent) -> Result<Vec<Case>, Unsupported> {
    let shape = |rows, n, d| LanesShape { rows, n, d };
    let mut cases = Vec::new();
    let blocks = match extent {
        Extent::Quick => vec![
            shape(2, 4, 64),
            shape(1, 3, 100),
            shape(1, 2, 200),
            shape(1, 4, 512),
            shape(1, 1, 768),
        ],
        Extent::Full => {
            let widths = [48, 64, 96, 128, 200, 256, 500, 512, 768, 1024];
            let lanes = [1, 2, 3, 4];
            widths.iter().flat_map(|&d| lanes.map(|n| shape(1, n, d))).collect()
        }
    };
    for shape in blocks {
        for elem in Elem::ALL {
            cases.push(back(elem, shape)?);
        }
    }
    Ok(cases)
}

fn back(elem: Elem, shape: LanesShape) -> Result<Case, Unsupported> {
    let (rows, n, d) = (shape.rows as usize, shape.n as usize, shape.d as usize);
    let mut memory = Memory::new();
    let (lanes, lane_values) = buffer(&mut memory, elem, rows * n * d, 1, 4.0);
    let (x, xs) = buffer(&mut memory, elem, rows * d, 2, 4.0);
    let (a, attended) = buffer(&mut memory, elem, rows * d, 3, 4.0);
    let (post_norm, post) = scale(&mut memory, d, 14);
    let (pre_norm, pre) = scale(&mut memory, d, 15);
    let gate = memory.f32s(&[0.625]);
    let ([d1, d2, d3], [v1, v2, v3]) = diagonals(&mut memory, hadamard_size(shape.d)? as usize);
    let (mix, mixes) = made_up_mix(&mut memory, shape);
    let row = |row: usize| {
        let attended = reference::zcrms(&attended[row * d..][..d], &post);
        let x: Vec<f64> = xs[row * d..][..d]
            .iter()
            .zip(attended)
            .map(|(x, a)| x + 0.625 * a)
            .collect();
        let mixed = reference::hadamard_mlp(&reference::zcrms(&x, &pre), &v1, &v2, &v3);
        let y: Vec<f64> = x.iter().zip(mixed).map(|(x, m)| x + m).collect();
        reference::lanes_mix(&lane_values[row * n * d..][..n * d], &y, &mixes[row])
    };
    let op = BlockBack {
        lanes,
        x,
        a,
        post_norm,
        gate,
        pre_norm,
        d1,
        d2,
        d3,
        mix,
    };
    Ok(Case {
        name: format!("block_back {} [{rows}, {n}, {d}]", elem.name()),
        launch: op.launch(elem, shape)?,
        memory,
        expected: vec![Expected {
            buffer: lanes,
            elem,
            values: (0..rows).flat_map(row).collect(),
            tolerance: TOLERANCE,
        }],
    })
}
