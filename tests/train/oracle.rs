//! The oracle's loss, gradients, optimiser, schedule and runs.

use candle_core::{Tensor, Var};
use needle_core::{
    Tokenizer,
    prompt::Example,
    train::{AdamW, Fit, Form, Row, Schedule, Trainer, sequence_length},
};

use super::{cpu, factor, options, rows, start, tok64};
use crate::golden;

/// The largest difference over the largest entry.
fn deviation(found: &Tensor, golden: &Tensor) -> f64 {
    assert_eq!(found.dims(), golden.dims());
    let largest = |t: &Tensor| f64::from(t.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap());
    largest(&(found - golden).unwrap()) / largest(golden).max(f64::MIN_POSITIVE)
}

#[test]
fn rows_are_encoded_and_cut_as_the_reference_does() {
    let tokenizer = Tokenizer::from_sentencepiece(&golden::bytes("gen2/tokenizer.model")).unwrap();
    let encoded = golden::tensors("gen2/training/encoded.safetensors");
    let text = String::from_utf8(golden::bytes("gen2/training/rendered.jsonl")).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let used: Vec<String> = lines
        .filter(|line| line["used"].as_bool().unwrap())
        .map(|line| line["line"].as_str().unwrap().to_owned())
        .collect();
    for length in [64, 256] {
        let ids = encoded[&format!("len{length}.ids")]
            .to_dtype(candle_core::DType::U32)
            .unwrap();
        let ids = ids.to_vec2::<u32>().unwrap();
        let mask = encoded[&format!("len{length}.mask")].to_vec2::<f32>().unwrap();
        assert_eq!(ids.len(), used.len());
        for (at, line) in used.iter().enumerate() {
            let example = Example::parse(line).unwrap().unwrap();
            let (row, fit) = Row::encode(&example, &tokenizer, length);
            assert_eq!(row.ids, ids[at][..row.ids.len()], "{line}");
            assert!(ids[at][row.ids.len()..].iter().all(|&id| id == 0));
            let scored = mask[at].iter().filter(|&&mask| mask != 0.0).count();
            assert_eq!(row.scored(), scored, "{line}");
            assert_eq!(fit == Fit::NothingScored, scored == 0, "{line}");
        }
    }
}

#[test]
fn sequence_lengths() {
    // The longest of the oracle's examples lies between 257 and 512.
    for case in golden::json("gen2/training/fit_max_len.json").as_array().unwrap() {
        let (cap, expected) = (case["cap"].as_u64().unwrap(), case["max_len"].as_u64().unwrap());
        assert_eq!(sequence_length(400, cap as usize) as u64, expected, "cap {cap}");
    }
    assert_eq!(
        [1, 128, 129, 256, 257].map(|n| sequence_length(n, 4096)),
        [128, 128, 256, 256, 512]
    );
}

#[test]
fn learning_rates() {
    for case in golden::json("gen2/training/schedule.json").as_array().unwrap() {
        let (peak, total) = (case["peak"].as_f64().unwrap(), case["total_steps"].as_u64().unwrap());
        let schedule = Schedule::new(peak, total as usize);
        assert_eq!(schedule.warm_up() as u64, case["warmup_steps"].as_u64().unwrap());
        for (step, rate) in case["values"].as_object().unwrap() {
            let (found, expected) = (schedule.rate(step.parse().unwrap()), rate.as_f64().unwrap());
            assert!(
                (found - expected).abs() <= 1e-6 * peak,
                "step {step} of {total}: {found}, {expected}"
            );
        }
    }
}

#[test]
fn optimiser_alone() {
    let golden = golden::tensors("gen2/training/optimizer.safetensors");
    let names = ["a", "b"];
    let vars = names.map(|name| Var::from_tensor(&golden[&format!("start.{name}")]).unwrap());
    let schedule = Schedule::new(3e-2, 12);
    let mut optimiser = AdamW::new(&vars).unwrap();
    for step in 0..12 {
        let gradients = names.map(|name| golden[&format!("step{step:02}.grad.{name}")].clone());
        optimiser.update(&vars, &gradients, schedule.rate(step)).unwrap();
        for (name, var) in names.iter().zip(&vars) {
            let deviation = deviation(var, &golden[&format!("step{step:02}.param.{name}")]);
            assert!(deviation <= 1e-6, "step {step}, {name}: {deviation:.1e}");
        }
    }
}

#[test]
fn loss_and_gradients() {
    let golden = golden::tensors("gen2/training/loss_and_grads.safetensors");
    let summary = golden::json("gen2/training/summary.json");
    let rows = rows(&golden["batch.ids"], &golden["batch.mask"], 160);
    let rows: Vec<&Row> = rows.iter().collect();
    // By hand, in one pass and in as many as there are rows, and by candle's own gradients.
    for (form, tokens_at_once) in [(Form::Fused, 4096), (Form::Fused, 1), (Form::Composed, 4096)] {
        let mut options = options(12);
        (options.form, options.tokens_at_once) = (form, tokens_at_once);
        let mut trainer = Trainer::new(&tok64(), &cpu(), options).unwrap();
        start(&mut trainer, &golden, "adapter/");
        assert_eq!(trainer.groups(), 10);
        let (loss, gradients) = trainer.loss_and_gradients(&rows).unwrap();
        let expected = summary["losses"]["float"].as_f64().unwrap();
        println!("loss {loss}, {expected}");
        assert!((loss - expected).abs() < 1e-4, "{loss}, {expected}");
        for (name, gradient) in trainer.parameter_names().iter().zip(&gradients) {
            let deviation = deviation(gradient, &factor(&golden, "grad.float/", name));
            println!("{name}: {deviation:.1e}");
            assert!(deviation < 1e-3, "{name}: {deviation:.1e}");
        }
    }
}

#[test]
fn twelve_steps() {
    let encoded = golden::tensors("gen2/training/encoded.safetensors");
    let (ids, mask) = (&encoded["len256.ids"], &encoded["len256.mask"]);
    for run in ["float_from_nonzero_b", "float_from_reference_init"] {
        let golden = golden::tensors(&format!("gen2/training/trajectory.{run}.safetensors"));
        let mut trainer = Trainer::new(&tok64(), &cpu(), options(12)).unwrap();
        start(&mut trainer, &golden, "start/");
        let losses = golden["losses"].to_vec1::<f32>().unwrap();
        let norms = golden["grad_norms"].to_vec1::<f32>().unwrap();
        let batches = golden["batch_rows"].to_dtype(candle_core::DType::U32).unwrap();
        for (step, batch) in batches.to_vec2::<u32>().unwrap().into_iter().enumerate() {
            let at = Tensor::new(batch, ids.device()).unwrap();
            let (ids, mask) = (ids.index_select(&at, 0).unwrap(), mask.index_select(&at, 0).unwrap());
            let rows = rows(&ids, &mask, 160);
            let report = trainer.step(&rows.iter().collect::<Vec<_>>()).unwrap();
            let difference = (report.loss - f64::from(losses[step])).abs();
            println!("{run}, step {step}: loss {:.6}, off by {difference:.1e}", report.loss);
            assert!(difference < 1e-3, "{run}, step {step}: {difference:.1e}");
            assert!((report.grad_norm - f64::from(norms[step])).abs() < 1e-3 * f64::from(norms[step]));
            if let 1 | 3 | 11 = step {
                let prefix = if step == 11 {
                    "final/".into()
                } else {
                    format!("after{}/", step + 1)
                };
                let adapter = trainer.adapter().unwrap();
                for (matrix, (a, b)) in &adapter.pairs {
                    for (dense, letter) in [(a, "A"), (b, "B")] {
                        let golden = factor(&golden, &prefix, &format!("{matrix}.{letter}"));
                        let golden = golden.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                        let apart = super::values(dense)
                            .iter()
                            .zip(&golden)
                            .map(|(x, y)| (x - y).abs())
                            .fold(0.0, f32::max);
                        assert!(apart < 1e-3, "{run}, {prefix}{matrix}.{letter}: {apart:.1e}");
                    }
                }
            }
        }
    }
}
