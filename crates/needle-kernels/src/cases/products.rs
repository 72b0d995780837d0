//! Cases of the products with weight matrices.

use super::{
    Case, Expected, Extent,
    inputs::buffer,
    matrices::{formats, matrix, scale},
    reference,
};
use crate::{
    Unsupported,
    emulator::Memory,
    ops::{Linear, LinearShape, NormLinear},
    storage::{Elem, Format},
};

const TOLERANCE: f64 = 2e-6;

pub(super) fn cases(extent: Extent) -> Result<Vec<Case>, Unsupported> {
    let shape = |rows, n_in, n_out| LinearShape { rows, n_in, n_out };
    let shapes = match extent {
        Extent::Quick => vec![shape(1, 200, 19), shape(5, 64, 21), shape(2, 1100, 3), shape(8, 600, 3)],
        Extent::Full => vec![
            shape(1, 2, 1),
            shape(1, 64, 8),
            shape(1, 200, 19),
            shape(1, 512, 33),
            shape(1, 514, 5),
            shape(1, 1024, 17),
            shape(2, 1100, 9),
            shape(3, 96, 40),
            shape(4, 130, 17),
            shape(5, 64, 21),
            shape(8, 600, 31),
            shape(9, 512, 16),
            shape(17, 768, 10),
        ],
    };
    let mut cases = Vec::new();
    for format in formats() {
        for &shape in &shapes {
            cases.push(linear(Elem::F32, format, shape)?);
            cases.push(norm_linear(format, shape, 1)?);
        }
        cases.push(norm_linear(format, shape(1, 128, 9), 4)?);
        cases.push(norm_linear(format, shape(4, 64, 9), 3)?);
        if let Format::Packed { .. } = format {
            for elem in [Elem::Bf16, Elem::F16] {
                cases.push(linear(elem, format, shape(1, 64, 8))?);
                cases.push(linear(elem, format, shape(11, 200, 19))?);
            }
        }
    }
    Ok(cases)
}

fn linear(elem: Elem, format: Format, shape: LinearShape) -> Result<Case, Unsupported> {
    let LinearShape { rows, n_in, n_out } = shape;
    let mut memory = Memory::new();
    let (x, xs) = buffer(&mut memory, elem, (rows * n_in) as usize, 1, 4.0);
    let (weight, weights) = matrix(&mut memory, format, n_out as usize, n_in as usize, 41);
    let y = memory.undefined((rows * n_out) as usize * elem.size_bytes());
    let values = xs
        .chunks_exact(n_in as usize)
        .flat_map(|x| reference::linear(&weights, x))
        .collect();
    Ok(Case {
        name: format!("linear {} {format:?} {shape:?}", elem.name()),
        launch: Linear { x, weight, y }.launch(elem, shape)?,
        memory,
        expected: vec![Expected {
            buffer: y,
            elem,
            values,
            tolerance: TOLERANCE,
        }],
    })
}

fn norm_linear(format: Format, shape: LinearShape, lanes: u32) -> Result<Case, Unsupported> {
    let LinearShape { rows, n_in, n_out } = shape;
    let mut memory = Memory::new();
    let (x, xs) = buffer(&mut memory, Elem::F32, (rows * lanes * n_in) as usize, 1, 4.0);
    let (s, ss) = scale(&mut memory, n_in as usize, 2);
    let (weight, weights) = matrix(&mut memory, format, n_out as usize, n_in as usize, 41);
    let y = memory.undefined((rows * n_out) as usize * 4);
    let row = |x: &[f64]| {
        let mean: Vec<f64> = (0..n_in as usize)
            .map(|i| x.iter().skip(i).step_by(n_in as usize).sum::<f64>() / f64::from(lanes))
            .collect();
        reference::linear(&weights, &reference::zcrms(&mean, &ss))
    };
    let values = xs.chunks_exact((lanes * n_in) as usize).flat_map(row).collect();
    Ok(Case {
        name: format!("norm_linear {format:?} {shape:?} of {lanes} lanes"),
        launch: NormLinear { x, s, weight, y }.launch(shape, lanes)?,
        memory,
        expected: vec![Expected {
            buffer: y,
            elem: Elem::F32,
            values,
            tolerance: TOLERANCE,
        }],
    })
}
