//! The engine's step against the composed model, layer by layer: the cells of every depth.

use candle_core::{DType, Device};
use needle_core::{Checkpoint, Model, cpu::Numerics, ops::Mask};

use super::{ARCHIVES, CHECKPOINTS, deviation, model, options, state, tokens, values};
use crate::golden;

/// Largest deviation of one depth's cells, relative to their largest entry.
const CELLS: f64 = 3e-6;

#[test]
fn every_depth_equals_the_composed_model() {
    let checkpoints = CHECKPOINTS.map(|name| format!("gen2/checkpoints/{name}.safetensors"));
    let archives = ARCHIVES.map(|name| format!("gen2/cact/{name}.cact"));
    for relative in checkpoints.iter().chain(&archives) {
        let checkpoint = Checkpoint::open(&golden::path(relative)).unwrap();
        let composed = Model::load(&checkpoint.config, &checkpoint.weights, DType::F32, &Device::Cpu).unwrap();
        let (t, d, depths) = (40, checkpoint.config.d_model, checkpoint.config.num_layers + 1);
        let tokens = tokens(t, checkpoint.config.vocab_size as u32);
        let expected = values(&composed.cells(std::slice::from_ref(&tokens), &Mask::causal(t)).unwrap());
        let mut found = vec![vec![0.0; t * d]; depths];
        state(&model(relative, options(Numerics::Exact)))
            .extend_cells(&tokens, |token, depth, cell| {
                found[depth][token * d..][..d].copy_from_slice(cell);
            })
            .unwrap();
        for (depth, found) in found.iter().enumerate() {
            let rows = expected.chunks(d).skip(depth).step_by(depths);
            let expected: Vec<f32> = rows.flatten().copied().collect();
            let (largest, _) = deviation(found, &expected);
            println!("{relative} depth {depth}: {largest:.1e}");
            assert!(largest <= CELLS, "{relative} depth {depth}: deviates by {largest:.2e}");
        }
    }
}
