//! Training against the oracle: loss, gradients, optimiser, schedule, whole runs; and the properties that need no oracle.

mod adapters;
mod bases;
mod gradients;
mod oracle;
mod resume;
mod scratch;

use std::{collections::BTreeMap, path::Path};

use candle_core::Tensor;
use needle_core::{
    Adapter, Checkpoint, DeviceSpec,
    device::Selected,
    train::{AdapterShape, Row, TrainOptions, Trainable, Trainer},
};

use crate::golden;

/// The adapter size of the oracle's training files.
const SHAPE: AdapterShape = AdapterShape { rank: 4, alpha: 8.0 };

fn cpu() -> Selected {
    "cpu".parse::<DeviceSpec>().unwrap().open().unwrap()
}

fn tok64() -> Checkpoint {
    Checkpoint::open(&golden::path("gen2/checkpoints/tok64.safetensors")).unwrap()
}

fn options(total_steps: usize) -> TrainOptions {
    TrainOptions {
        learning_rate: 5e-3,
        ..TrainOptions::new(Trainable::Adapter(SHAPE), total_steps)
    }
}

/// The rows of a golden batch: ids and the mask of what is scored, padding and what lies beyond `columns` dropped.
fn rows(ids: &Tensor, mask: &Tensor, columns: usize) -> Vec<Row> {
    let ids = ids.to_dtype(candle_core::DType::U32).unwrap().to_vec2::<u32>().unwrap();
    let mask = mask.to_vec2::<f32>().unwrap();
    let row = |(ids, mask): (Vec<u32>, Vec<f32>)| {
        let scored: Vec<usize> = (0..columns.min(ids.len())).filter(|&at| mask[at] != 0.0).collect();
        let (first, last) = (scored[0], scored[scored.len() - 1]);
        assert_eq!(scored, (first..=last).collect::<Vec<_>>());
        Row {
            ids: ids[..=last].to_vec(),
            target_start: first,
        }
    };
    ids.into_iter().zip(mask).map(row).collect()
}

/// One layer of the stacked factors under `prefix`, by the trainer's names.
fn factor(tensors: &BTreeMap<String, Tensor>, prefix: &str, name: &str) -> Tensor {
    let parts: Vec<&str> = name.split('.').collect();
    let ["layers", layer, "self_attn", projection, letter] = parts[..] else {
        panic!("{name}");
    };
    let stacked = &tensors[&format!("{prefix}stack/layers/block/self_attn/{projection}/kernel/{letter}")];
    stacked.get(layer.parse().unwrap()).unwrap()
}

/// The trainer with the factors under `prefix`.
fn start(trainer: &mut Trainer, tensors: &BTreeMap<String, Tensor>, prefix: &str) {
    let mut adapter = trainer.adapter().unwrap();
    for (matrix, (a, b)) in &mut adapter.pairs {
        for (dense, letter) in [(a, "A"), (b, "B")] {
            let value = factor(tensors, prefix, &format!("{matrix}.{letter}"));
            let values = value.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            *dense = needle_core::weights::Dense::from_f32(&values, value.dims());
        }
    }
    trainer.set_adapter(&adapter).unwrap();
}

fn values(dense: &needle_core::weights::Dense) -> Vec<f32> {
    let tensor = dense
        .to_tensor(candle_core::DType::F32, &candle_core::Device::Cpu)
        .unwrap();
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn reopened(adapter: &Adapter, path: &Path) -> Adapter {
    adapter.save(path).unwrap();
    Adapter::open(path).unwrap()
}
