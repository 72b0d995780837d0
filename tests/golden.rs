//! Golden files: copies of the oracle's, under `tests/golden/gen2` and `tests/golden/gen3` in the oracle's own folders.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use candle_core::{Device, Tensor};
use serde_json::Value;

/// The golden file of this name, as in `gen2/cact/c48_w2.cact`. A test fails where it is missing.
pub(crate) fn path(relative: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(relative);
    assert!(
        path.exists(),
        "golden file {relative} is missing: copy it from the oracle to {}",
        path.display()
    );
    path
}

/// All tensors of a golden `.safetensors` file by name.
pub(crate) fn tensors(relative: &str) -> BTreeMap<String, Tensor> {
    candle_core::safetensors::load(path(relative), &Device::Cpu)
        .unwrap_or_else(|error| panic!("golden file {relative}: {error}"))
        .into_iter()
        .collect()
}

/// The bytes of a golden file.
pub(crate) fn bytes(relative: &str) -> Vec<u8> {
    std::fs::read(path(relative)).unwrap_or_else(|error| panic!("golden file {relative}: {error}"))
}

/// The contents of a golden `.json` file.
pub(crate) fn json(relative: &str) -> Value {
    serde_json::from_slice(&bytes(relative)).unwrap_or_else(|error| panic!("golden file {relative}: {error}"))
}
