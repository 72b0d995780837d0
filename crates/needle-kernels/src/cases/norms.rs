//! Cases of the row-wise operations: RMS norm and Hadamard MLP.

use super::{Case, Expected, Extent, inputs::buffer, matrices::scale, reference};
use crate::{
    Unsupported,
    emulator::Memory,
    ops::{Hadamard, HadamardResidual, RmsNorm, RmsNormAdd, hadamard_size},
    storage::Elem,
};

const TOLERANCE: f64 = 1e-6;

pub(super) fn cases(extent: Extent) -> Result<Vec<Case>, Unsupported> {
    let mut cases = Vec::new();
    let widths: &[usize] = match extent {
        Extent::Quick => &[1, 33, 100, 512],
        Extent::Full => &[1, 31, 64, 100, 128, 255, 512, 768, 1024],
    };
    for elem in Elem::ALL {
        for &d in widths {
            cases.push(rms_norm(elem, 2, d)?);
            cases.push(rms_norm_add(elem, 2, d)?);
        }
    }
    let widths: &[usize] = match extent {
        Extent::Quick => &[48, 64, 100, 200, 512, 768],
        Extent::Full => &[48, 64, 65, 96, 128, 200, 256, 257, 500, 512, 768, 1000, 1024],
    };
    for elem in Elem::ALL {
        for &d in widths {
            cases.push(hadamard(elem, 1, d)?);
            cases.push(hadamard_residual(elem, 2, d)?);
        }
    }
    Ok(cases)
}

fn rms_norm(elem: Elem, rows: usize, d: usize) -> Result<Case, Unsupported> {
    let mut memory = Memory::new();
    let (x, xs) = buffer(&mut memory, elem, rows * d, 1, 4.0);
    let (s, ss) = scale(&mut memory, d, 2);
    let y = memory.undefined(rows * d * elem.size_bytes());
    let values = xs.chunks_exact(d).flat_map(|x| reference::zcrms(x, &ss)).collect();
    Ok(Case {
        name: format!("rms_norm {} [{rows}, {d}]", elem.name()),
        launch: RmsNorm { x, s, y }.launch(elem, rows as u32, d as u32)?,
        memory,
        expected: vec![Expected {
            buffer: y,
            elem,
            values,
            tolerance: TOLERANCE,
        }],
    })
}

fn rms_norm_add(elem: Elem, rows: usize, d: usize) -> Result<Case, Unsupported> {
    let mut memory = Memory::new();
    let (x, xs) = buffer(&mut memory, elem, rows * d, 1, 4.0);
    let (skip, skips) = buffer(&mut memory, elem, rows * d, 9, 2.0);
    let (s, ss) = scale(&mut memory, d, 2);
    let (gate, gates) = (memory.f32s(&[0.375]), 0.375);
    let y = memory.undefined(rows * d * elem.size_bytes());
    let norms = xs.chunks_exact(d).flat_map(|x| reference::zcrms(x, &ss));
    let values = norms.zip(&skips).map(|(norm, skip)| skip + gates * norm).collect();
    Ok(Case {
        name: format!("rms_norm_add {} [{rows}, {d}]", elem.name()),
        launch: RmsNormAdd { x, s, gate, skip, y }.launch(elem, rows as u32, d as u32)?,
        memory,
        expected: vec![Expected {
            buffer: y,
            elem,
            values,
            tolerance: TOLERANCE,
        }],
    })
}

/// Three diagonals, two of them around one.
pub(super) fn diagonals(memory: &mut Memory, m: usize) -> ([usize; 3], [Vec<f64>; 3]) {
    let diagonal = |memory: &mut Memory, salt, center: f32, spread| {
        let values: Vec<f32> = super::inputs::noise(m, salt, spread)
            .iter()
            .map(|v| v + center)
            .collect();
        super::inputs::stored(memory, Elem::F32, &values)
    };
    let (d1, v1) = diagonal(memory, 3, 1.0, 1.0);
    let (d2, v2) = diagonal(memory, 4, 1.0, 1.0);
    let (d3, v3) = diagonal(memory, 5, 0.0, 0.5);
    ([d1, d2, d3], [v1, v2, v3])
}

fn hadamard(elem: Elem, rows: usize, d: usize) -> Result<Case, Unsupported> {
    let m = hadamard_size(d as u32)? as usize;
    let mut memory = Memory::new();
    let (x, xs) = buffer(&mut memory, elem, rows * d, 1, 4.0);
    let ([d1, d2, d3], [v1, v2, v3]) = diagonals(&mut memory, m);
    let y = memory.undefined(rows * d * elem.size_bytes());
    let values = xs
        .chunks_exact(d)
        .flat_map(|x| reference::hadamard_mlp(x, &v1, &v2, &v3))
        .collect();
    Ok(Case {
        name: format!("hadamard {} [{rows}, {d}]", elem.name()),
        launch: Hadamard { x, d1, d2, d3, y }.launch(elem, rows as u32, d as u32)?,
        memory,
        expected: vec![Expected {
            buffer: y,
            elem,
            values,
            tolerance: TOLERANCE,
        }],
    })
}

fn hadamard_residual(elem: Elem, rows: usize, d: usize) -> Result<Case, Unsupported> {
    let m = hadamard_size(d as u32)? as usize;
    let mut memory = Memory::new();
    let (x, xs) = buffer(&mut memory, elem, rows * d, 1, 4.0);
    let (s, ss) = scale(&mut memory, d, 2);
    let ([d1, d2, d3], [v1, v2, v3]) = diagonals(&mut memory, m);
    let y = memory.undefined(rows * d * elem.size_bytes());
    let row = |x: &[f64]| {
        let mixed = reference::hadamard_mlp(&reference::zcrms(x, &ss), &v1, &v2, &v3);
        x.iter().zip(mixed).map(|(x, m)| x + m).collect::<Vec<_>>()
    };
    let values = xs.chunks_exact(d).flat_map(row).collect();
    Ok(Case {
        name: format!("hadamard residual {} [{rows}, {d}]", elem.name()),
        launch: HadamardResidual { x, s, d1, d2, d3, y }.launch(elem, rows as u32, d as u32)?,
        memory,
        expected: vec![Expected {
            buffer: y,
            elem,
            values,
            tolerance: TOLERANCE,
        }],
    })
}
