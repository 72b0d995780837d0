//! The engine for the CPU: equal to the goldens and, layer by layer, to the composed model; properties of its own.
//!
//! Deviations are printed: `cargo test -p needle-tests cpu -- --nocapture`.

mod goldens;
mod layers;
mod numerics;
mod properties;

use std::sync::Arc;

use candle_core::{DType, Tensor};
use needle_core::{
    Checkpoint, Window,
    cpu::{CpuModel, CpuOptions, CpuState, Isa, Numerics, Threads},
};

use crate::golden;

const CHECKPOINTS: [&str; 3] = ["a64", "b96", "c48"];
const ARCHIVES: [&str; 5] = ["a64_mixed", "b96_mixed_group32", "c48_w2", "tok64_w2", "tok64_w4"];

/// Longer than any golden.
const WHOLE: Window = Window { size: 256, sinks: 0 };

fn options(numerics: Numerics) -> CpuOptions {
    CpuOptions {
        isa: Isa::detect(),
        numerics,
        threads: Threads::Exactly(1),
        ..CpuOptions::default()
    }
}

fn model(relative: &str, options: CpuOptions) -> Arc<CpuModel> {
    let checkpoint = Checkpoint::open(&golden::path(relative)).unwrap();
    Arc::new(CpuModel::load_with(&checkpoint.config, &checkpoint.weights, options).unwrap())
}

fn state(model: &Arc<CpuModel>) -> CpuState {
    CpuState::new(model, WHOLE).unwrap()
}

/// Logits `[T·V]` after every token.
fn logits(state: &mut CpuState, tokens: &[u32]) -> Vec<f32> {
    let mut all = Vec::new();
    state.extend_all(tokens, |_, row| all.extend_from_slice(row)).unwrap();
    all
}

/// The ids of a golden `[1, T]` or `[T]`.
fn ids(golden: &Tensor) -> Vec<u32> {
    golden
        .flatten_all()
        .unwrap()
        .to_dtype(DType::U32)
        .unwrap()
        .to_vec1()
        .unwrap()
}

fn values(golden: &Tensor) -> Vec<f32> {
    golden.flatten_all().unwrap().to_vec1().unwrap()
}

/// `count` ids below `vocabulary`, always the same.
fn tokens(count: usize, vocabulary: u32) -> Vec<u32> {
    (0..count as u32)
        .map(|i| i.wrapping_mul(2_654_435_761u32.rotate_left(i % 7)).wrapping_add(11) % vocabulary)
        .collect()
}

/// Largest difference relative to the golden's largest entry, and the mean difference likewise.
fn deviation(found: &[f32], golden: &[f32]) -> (f64, f64) {
    assert_eq!(found.len(), golden.len());
    let scale = golden
        .iter()
        .map(|x| f64::from(x.abs()))
        .fold(f64::MIN_POSITIVE, f64::max);
    let differences = || found.iter().zip(golden).map(|(x, y)| f64::from(x - y).abs() / scale);
    (
        differences().fold(0.0, f64::max),
        differences().sum::<f64>() / found.len() as f64,
    )
}

#[track_caller]
fn expect_close(what: &str, found: &[f32], golden: &[f32], limit: f64) {
    let (largest, mean) = deviation(found, golden);
    println!("{what}: largest {largest:.1e}, mean {mean:.1e}");
    assert!(
        largest <= limit,
        "{what}: deviates by {largest:.2e}, at most {limit:.0e} allowed"
    );
}

fn argmax(row: &[f32]) -> u32 {
    (0..row.len()).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as u32
}
