//! The model against the oracle's goldens, and the properties that need none.
//!
//! Every comparison prints its largest deviation: `cargo test -p needle-tests parity -- --nocapture`.

mod archives;
mod decode;
mod engine;
mod forward;
mod heads;
mod properties;
mod tables;

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use needle_core::{Checkpoint, Model, ops::Mask};

use crate::golden;

/// Largest deviation allowed, relative to the golden's largest entry.
const LOGITS: f64 = 1e-5;

/// The float32 model of a checkpoint or an archive among the goldens.
fn model(relative: &str) -> Arc<Model> {
    model_in(relative, DType::F32)
}

fn model_in(relative: &str, dtype: DType) -> Arc<Model> {
    let checkpoint = Checkpoint::open(&golden::path(relative)).unwrap();
    Arc::new(Model::load(&checkpoint.config, &checkpoint.weights, dtype, &Device::Cpu).unwrap())
}

/// `[B, T]` ids as rows.
fn rows(ids: &Tensor) -> Vec<Vec<u32>> {
    ids.to_dtype(DType::U32).unwrap().to_vec2().unwrap()
}

/// A golden mask `[B, 1, T, S]` of bytes.
fn mask(golden: &Tensor) -> Mask {
    let (b, _, t, s) = golden.dims4().unwrap();
    let seen = golden.squeeze(1).unwrap().to_vec3::<u8>().unwrap();
    Mask::new(b, t, s, |b, t, s| seen[b][t][s] != 0)
}

/// `[B, T]` bytes as booleans.
fn keep(golden: &Tensor) -> Vec<Vec<bool>> {
    golden
        .to_vec2::<u8>()
        .unwrap()
        .into_iter()
        .map(|row| row.into_iter().map(|keep| keep != 0).collect())
        .collect()
}

/// Largest deviation relative to the golden's largest entry.
fn deviation(found: &Tensor, golden: &Tensor) -> f64 {
    assert_eq!(found.dims(), golden.dims());
    let largest = |t: &Tensor| f64::from(t.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap());
    let found = found.to_dtype(DType::F32).unwrap();
    largest(&(found - golden).unwrap()) / largest(golden).max(f64::MIN_POSITIVE)
}

/// Fails when `found` is further from the golden than `limit`, relative to the golden's largest entry.
#[track_caller]
fn expect_close(what: &str, found: &Tensor, golden: &Tensor, limit: f64) {
    let deviation = deviation(found, golden);
    println!("{what}: {deviation:.1e}");
    assert!(
        deviation <= limit,
        "{what}: deviates by {deviation:.2e}, at most {limit:.0e} allowed"
    );
}
