//! The engine for GPUs without one: its steps run on the emulator, from real checkpoints and archives, against the oracle's
//! goldens and against tensors.

mod emulated;
mod operations;
mod sequences;
mod steps;

use std::sync::Arc;

use candle_core::{DType, Device};
use needle_core::{
    Checkpoint, Model, Session, Window,
    gpu::{GpuModel, GpuOptions},
};

use self::emulated::{Emulated, Log};
use crate::golden;

/// Longer than any golden.
const WHOLE: Window = Window { size: 128, sinks: 0 };

/// A golden checkpoint or archive on tensors on the CPU, with its steps on the emulator.
fn emulated(relative: &str, dtype: DType, options: GpuOptions) -> (Arc<GpuModel>, Arc<Log>) {
    emulated_on(Emulated::new(true), relative, dtype, options)
}

fn emulated_on(
    (device, log): (Emulated, Arc<Log>),
    relative: &str,
    dtype: DType,
    options: GpuOptions,
) -> (Arc<GpuModel>, Arc<Log>) {
    let Checkpoint { config, weights, .. } = Checkpoint::open(&golden::path(relative)).unwrap();
    let tensors = Arc::new(Model::load(&config, &weights, dtype, &Device::Cpu).unwrap());
    let model = GpuModel::with_steps(tensors, &weights, Box::new(device), options).unwrap();
    (Arc::new(model), log)
}

/// Tokens that a vocabulary of 96 and more has.
fn text(count: u32, salt: u32) -> Vec<u32> {
    (0..count).map(|i| (i * 7919 + salt * 104_729 + 13) % 90).collect()
}

/// Fails when a number is further from its counterpart than `limit`, relative to the largest.
#[track_caller]
fn close(what: &str, found: &[f32], expected: &[f32], limit: f32) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(f32::MIN_POSITIVE, |most, x| most.max(x.abs()));
    let deviation = found
        .iter()
        .zip(expected)
        .fold(0f32, |most, (x, y)| most.max((x - y).abs()))
        / largest;
    println!("{what}: {deviation:.1e}");
    assert!(
        deviation <= limit,
        "{what}: deviates by {deviation:.2e}, at most {limit:.0e} allowed"
    );
}

/// Logits after each token, one at a time.
fn one_by_one(session: &mut Session, tokens: &[u32]) -> Vec<Vec<f32>> {
    tokens.iter().map(|token| session.extend(&[*token]).unwrap()).collect()
}
