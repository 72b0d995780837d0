//! Training everything from random first values.

use needle_core::{
    Checkpoint, Config, Generation,
    train::{Row, TrainOptions, Trainable, Trainer, initial_checkpoint},
};
use serde_json::json;

use super::cpu;

fn config() -> Config {
    let fields = json!({
        "vocab_size": 64, "d_model": 48, "num_heads": 4, "num_kv_heads": 2, "num_layers": 3, "max_seq_len": 64,
        "mhc_lanes": 2, "engram_slots": 32, "engram_layers": [1], "engram_heads": 1,
    });
    Config::from_json(fields.as_object().unwrap(), Generation::Two).unwrap()
}

#[test]
fn a_small_model_learns_a_sequence_by_heart_and_is_saved() {
    let start = initial_checkpoint(&config(), 5, None).unwrap();
    let options = TrainOptions {
        learning_rate: 1e-2,
        ..TrainOptions::new(Trainable::Everything, 60)
    };
    let mut trainer = Trainer::new(&start, &cpu(), options).unwrap();
    let rows = [
        Row::text(vec![2, 20, 30, 21, 31, 22, 32, 1]),
        Row::text(vec![2, 40, 50, 41, 51, 42, 52, 1]),
    ];
    let first = trainer.evaluate(&rows).unwrap();
    assert!((first - 64f64.ln()).abs() < 0.3, "{first}");
    for _ in 0..60 {
        trainer.step(&[&rows[0], &rows[1]]).unwrap();
    }
    let last = trainer.evaluate(&rows).unwrap();
    assert!(last < 0.5, "{last}");

    let folder = super::adapters::folder("scratch");
    let path = folder.join("model.safetensors");
    trainer.checkpoint().unwrap().save_safetensors(&path).unwrap();
    let reopened = Checkpoint::open(&path).unwrap();
    let trainer = Trainer::new(&reopened, &cpu(), TrainOptions::new(Trainable::Everything, 1)).unwrap();
    assert!((trainer.evaluate(&rows).unwrap() - last).abs() < 1e-6);
    std::fs::remove_dir_all(folder).unwrap();
}
