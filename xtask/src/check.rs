//! Clippy of the GPU features on a machine that has neither the GPU nor its toolkit.
//!
//! Metal: candle's tree is pure Rust, so the Apple target is enough. CUDA: build scripts of candle call nvcc, so a
//! stand-in takes its place; it writes empty outputs, which type-checking never reads. It gets a target folder of its own
//! because a later real build would take those empty outputs for finished ones.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result};

use crate::cargo::{cargo, output, run, target_dir};

const APPLE_TARGET: &str = "aarch64-apple-darwin";

// Only packages whose Apple tree holds no C code: there is no C compiler for that target here.
const CUDA: &[&str] = &[
    "needle-cuda/cuda",
    "needle-core/gpu",
    "needle-cli/gpu",
    "needle-tests/gpu",
];
const METAL: &[&str] = &[
    "needle-metal/metal",
    "needle-core/metal",
    "needle-cli/metal",
    "needle-tests/metal",
];

/// Clippy with the feature `gpu`, a stand-in for nvcc.
pub(crate) fn cuda() -> Result<()> {
    let target = target_dir().join("check-cuda");
    let nvcc = stand_in_nvcc(target.join("toolkit/bin"))?;
    let toolkit = target.join("toolkit");
    run(clippy(CUDA)
        .arg("--target-dir")
        .arg(&target)
        // Of the dependencies only build scripts and macros run here: compile them fast instead of making them fast.
        .args(["--config", "profile.dev.package.\"*\".opt-level=0"])
        .args(["--", "-D", "warnings"])
        .env("NVCC", nvcc)
        .env("CUDA_HOME", &toolkit)
        .env("CUDA_PATH", &toolkit)
        .env("CUDA_COMPUTE_CAP", "80")
        .env("CUDARC_CUDA_VERSION", "13000"))
}

/// Clippy with the feature `metal` for the Apple target, which is installed where it is missing.
pub(crate) fn metal() -> Result<()> {
    let installed = output(Command::new("rustup").args(["target", "list", "--installed"]))?;
    if !installed.lines().any(|target| target == APPLE_TARGET) {
        run(Command::new("rustup").args(["target", "add", APPLE_TARGET]))?;
    }
    run(clippy(METAL).args(["--target", APPLE_TARGET, "--", "-D", "warnings"]))
}

/// Clippy of the packages that `features` (`package/feature`) name, with these features and otherwise the defaults.
fn clippy(features: &[&str]) -> Command {
    let mut command = cargo(&["clippy", "--all-targets", "--features", &features.join(",")]);
    let packages = features.iter().filter_map(|feature| feature.split('/').next());
    command.args(packages.flat_map(|package| ["--package", package]));
    command
}

const STAND_IN: &str = r#"#!/bin/sh
# Stands in for nvcc where only Rust is checked: every output it is asked for comes out empty.
while [ $# -gt 0 ]; do
  case "$1" in
    --version) echo "Cuda compilation tools, release 13.0, V13.0.0"; exit 0 ;;
    -o | --output-file) output=$2; shift ;;
    --output-directory) folder=$2; shift ;;
    *.cu) source=$1 ;;
  esac
  shift
done
if [ -n "$output" ]; then : > "$output"; fi
if [ -n "$folder" ] && [ -n "$source" ]; then : > "$folder/$(basename "${source%.cu}").ptx"; fi
"#;

fn stand_in_nvcc(folder: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let path = folder.join("nvcc");
    // Unchanged it keeps its date, and cargo its results.
    if fs::read_to_string(&path).ok().as_deref() != Some(STAND_IN) {
        fs::write(&path, STAND_IN).with_context(|| format!("cannot write {}", path.display()))?;
    }
    make_executable(&path)?;
    Ok(path)
}

#[cfg(unix)]
fn make_executable(path: &std::path::Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

#[cfg(not(unix))]
fn make_executable(_: &std::path::Path) -> Result<()> {
    anyhow::bail!("the stand-in for nvcc is a shell script: run this check on Linux or macOS")
}
