//! Damaged files: an error that says what is wrong where, whatever byte was lost or changed; no panic, no endless loop, no
//! more memory than the file accounts for.

use std::path::Path;

use candle_core::{DType, Device};
use needle_core::{Adapter, Checkpoint, Error, Result, weights::Bytes};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::{allocations::peak_bytes, golden};

pub(super) const TWO: &str = "gen2/cact/c48_w2.cact";
pub(super) const THREE: &str = "gen3/cact/b96_w4_group32.cact";

pub(super) fn open(bytes: &Bytes) -> Result<Checkpoint> {
    Checkpoint::from_bytes(bytes.clone(), Path::new("model.cact"))
}

/// Opens a file and widens everything in it.
fn use_all(bytes: &Bytes) -> Result<()> {
    for (name, weight) in open(bytes)?.weights.iter() {
        let tensor = weight.to_tensor(DType::F32, &Device::Cpu)?;
        assert_eq!(tensor.dims(), weight.shape(), "{name}");
    }
    Ok(())
}

/// An error's text: one line that begins with the file.
pub(super) fn line(error: &Error) -> String {
    let text = error.to_string();
    assert!(text.starts_with("model.cact: ") && !text.contains('\n'), "{text:?}");
    text
}

/// Every file that ends too early is refused, whatever the last byte; those lengths that `every` names are tried.
fn refuses_truncation(file: &str, every: impl Fn(usize) -> bool, open: impl Fn(&Bytes) -> Option<Error>) {
    let whole = Bytes::new(golden::bytes(file));
    assert!(open(&whole).is_none());
    for length in (0..whole.len()).filter(|&length| every(length)) {
        let part = whole.slice(0..length).unwrap();
        let (error, peak) = peak_bytes(|| open(&part));
        line(&error.unwrap_or_else(|| panic!("{file} cut to {length} bytes is accepted")));
        // A tensor's description costs some hundred bytes; decoded pickles cost their size once more.
        assert!(
            peak < (1 << 16) + 4 * length,
            "{file} cut to {length} bytes takes {peak}"
        );
    }
}

/// The same files on every run.
fn random() -> TestRng {
    TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32])
}

/// Changes single bytes in `range`; what is still accepted must be usable.
fn survives_flips(file: &str, range: std::ops::Range<usize>, count: u32, use_all: impl Fn(&Bytes) -> Result<()>) {
    let whole = golden::bytes(file);
    let config = Config {
        cases: count,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, random());
    let (mut refused, mut accepted) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    runner
        .run(&(range, 1u8..), |(at, flip)| {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            let (result, peak) = peak_bytes(|| use_all(&Bytes::new(bytes)));
            prop_assert!(
                peak < (1 << 16) + 8 * whole.len(),
                "byte {} ^ {}: {} bytes",
                at,
                flip,
                peak
            );
            match result {
                Ok(()) => accepted.set(accepted.get() + 1),
                Err(error) => {
                    line(&error);
                    refused.set(refused.get() + 1);
                }
            }
            Ok(())
        })
        .unwrap();
    // The test would prove nothing if all files were alike.
    assert!(
        *refused.get_mut() > 0 && *accepted.get_mut() > 0,
        "{refused:?} refused, {accepted:?} accepted"
    );
}

#[test]
fn truncated_archives_are_refused_everywhere() {
    for file in [TWO, THREE] {
        refuses_truncation(file, |_| true, |bytes| open(bytes).err());
    }
}

#[test]
fn flipped_bytes_of_an_archive_are_survived() {
    survives_flips(TWO, 0..golden::bytes(TWO).len(), 10_000, use_all);
}

#[test]
fn flipped_bytes_of_a_generation_3_archive_are_survived() {
    survives_flips(THREE, 0..golden::bytes(THREE).len(), 10_000, use_all);
}

#[test]
fn flipped_bytes_of_a_header_are_survived() {
    survives_flips(TWO, 0..2880, 4000, use_all);
    survives_flips(THREE, 0..6720, 4000, use_all);
}

#[test]
fn other_truncated_files_are_refused() {
    let checkpoint = |bytes: &Bytes| open(bytes).err();
    let adapter = |bytes: &Bytes| Adapter::from_bytes(bytes.clone(), Path::new("model.cact")).err();
    refuses_truncation("gen2/training/adapter.protocol4.pkl", |_| true, adapter);
    refuses_truncation("gen2/training/adapter.protocol2.pkl", |_| true, adapter);
    refuses_truncation("gen3/training/adapter.safetensors", |_| true, adapter);
    let some = |length: usize| length < 2000 || length.is_multiple_of(997);
    refuses_truncation("gen2/checkpoints/c48.pkl", some, checkpoint);
    refuses_truncation("gen2/checkpoints/c48.f16.pkl", some, checkpoint);
    refuses_truncation("gen2/checkpoints/c48.safetensors", some, checkpoint);
}

#[test]
fn flipped_bytes_of_other_files_are_survived() {
    let adapter = |bytes: &Bytes| Adapter::from_bytes(bytes.clone(), Path::new("model.cact")).map(drop);
    survives_flips("gen2/training/adapter.protocol5.pkl", 0..19_168, 2000, adapter);
    survives_flips("gen2/training/adapter.protocol2.pkl", 0..28_881, 1000, adapter);
    survives_flips("gen3/training/adapter.safetensors", 0..1280, 2000, adapter);
    survives_flips("gen2/checkpoints/c48.pkl", 0..266_212, 500, use_all);
    survives_flips("gen2/checkpoints/c48.safetensors", 0..4952, 1000, use_all);
}
