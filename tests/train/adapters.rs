//! Trained adapters as files.

use std::path::PathBuf;

use needle_core::{
    train::Trainer,
    weights::{Dense, Weight},
};

use super::{cpu, options, reopened, start, tok64, values};
use crate::golden;

/// An empty folder of this test's own.
pub(super) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("needle-train-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn both_forms_come_back_as_they_were() {
    let folder = folder("forms");
    let golden = golden::tensors("gen2/training/loss_and_grads.safetensors");
    let mut trainer = Trainer::new(&tok64(), &cpu(), options(1)).unwrap();
    start(&mut trainer, &golden, "adapter/");
    let adapter = trainer.adapter().unwrap();
    for name in ["adapter.safetensors", "adapter.pkl"] {
        let found = reopened(&adapter, &folder.join(name));
        assert_eq!((found.scale, found.rank, found.num_layers), (2.0, 4, 2));
        assert_eq!(found.base, adapter.base);
        assert_eq!(found.extra["seed"], 0);
        assert_eq!(found.pairs.len(), 10);
        for (matrix, (a, b)) in &found.pairs {
            let (a0, b0) = &adapter.pairs[matrix];
            assert_eq!((values(a), values(b)), (values(a0), values(b0)), "{name}: {matrix}");
            assert_eq!((&a.shape, &b.shape), (&a0.shape, &b0.shape));
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn first_values_are_the_reference_s() {
    let expected = golden::json("gen2/training/lora_init.json");
    let trainer = Trainer::new(&tok64(), &cpu(), options(1)).unwrap();
    let adapter = trainer.adapter().unwrap();
    assert_eq!(adapter.scale, expected["scale"].as_f64().unwrap());
    let (mut count, mut squares) = (0, 0.0);
    for (a, b) in adapter.pairs.values() {
        let values_a = values(a);
        count += values_a.len();
        squares += values_a.iter().map(|x| f64::from(x * x)).sum::<f64>();
        assert!(values(b).iter().all(|&x| x == 0.0));
    }
    let deviation = (squares / count as f64).sqrt();
    assert!((deviation - 0.25).abs() < 0.01, "{deviation}");
}

#[test]
fn a_matrix_of_zeros_is_left_alone_and_not_counted() {
    let mut checkpoint = tok64();
    let name = "layers.1.self_attn.k_proj";
    let shape = checkpoint.weights.get(name).unwrap().shape();
    let zeros = Dense::from_f32(&vec![0.0; shape.iter().product()], &shape);
    checkpoint.weights.insert(name, Weight::Dense(zeros));
    let trainer = Trainer::new(&checkpoint, &cpu(), options(1)).unwrap();
    assert_eq!(trainer.groups(), 9);
    assert_eq!(trainer.parameter_names().len(), 18);
    let adapter = trainer.adapter().unwrap();
    assert_eq!(adapter.pairs.len(), 10);
    let (a, b) = &adapter.pairs[name];
    assert!(values(a).iter().chain(&values(b)).all(|&x| x == 0.0));
}
