//! The cache shared with Python, checked with Python's own client of the hub.
//!
//! Not part of `ci`'s plain tests: it needs an interpreter and a package. Whoever runs it wants it to run, so a missing
//! interpreter or an unreachable package index is a failure.

use std::{path::Path, process::Command};

use anyhow::{Context, Result};

use crate::cargo::{cargo, run as execute, target_dir};

/// The version that the tests were written against; its cache layout is the one that all versions share.
const PACKAGE: &str = "huggingface_hub==2.4.0";

/// Installs the client below the target folder, once, and runs the tests that need it.
pub(crate) fn run() -> Result<()> {
    let folder = target_dir().join("hub-python");
    let python = folder.join(if cfg!(windows) {
        "Scripts/python.exe"
    } else {
        "bin/python"
    });
    if !has_package(&python) {
        let launcher = if cfg!(windows) { "python" } else { "python3" };
        execute(Command::new(launcher).args(["-m", "venv", "--clear"]).arg(&folder)).context("Python 3 with venv")?;
        execute(Command::new(&python).args(["-m", "pip", "install", "--quiet", PACKAGE]))?;
    }
    let args = [
        "test",
        "--package",
        "needle-tests",
        "--features",
        "hub-python",
        "--test",
        "tests",
        "hub::python",
    ];
    execute(cargo(&args).env("NEEDLE_HUB_PYTHON", &python))
}

fn has_package(python: &Path) -> bool {
    let (name, version) = PACKAGE.split_once("==").unwrap_or((PACKAGE, ""));
    let check = format!("from importlib.metadata import version; assert version('{name}') == '{version}'");
    let outcome = Command::new(python).args(["-c", &check]).output();
    outcome.is_ok_and(|output| output.status.success())
}
