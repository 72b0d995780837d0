//! Clippy of the GPU features on a machine that has neither the GPU nor its toolkit.
//!
//! Metal needs the Apple target, which rustup installs; CUDA needs nvcc, because build scripts of candle call it. Both need
//! compilers that are not here, so a stand-in takes their place: it writes empty outputs, which type-checking never reads.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result};

use crate::cargo::{cargo, output, run, target_dir};

const APPLE_TARGET: &str = "aarch64-apple-darwin";

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

/// Clippy with the feature `gpu`.
pub(crate) fn cuda() -> Result<()> {
    // A real build in the same folder would take the empty outputs for finished ones.
    let target = target_dir().join("check-cuda");
    let toolkit = target.join("toolkit");
    let nvcc = stand_in(toolkit.join("bin"), "nvcc")?;
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
    let mut clippy = clippy(METAL);
    clippy.args(["--target", APPLE_TARGET, "--", "-D", "warnings"]);
    if !cfg!(target_os = "macos") {
        // No C compiler here knows that target.
        let tools = target_dir().join("check-metal");
        clippy.env("SDKROOT", &tools);
        clippy.env("CC_aarch64_apple_darwin", stand_in(tools.clone(), "cc")?);
        clippy.env("CXX_aarch64_apple_darwin", stand_in(tools.clone(), "c++")?);
        clippy.env("AR_aarch64_apple_darwin", stand_in(tools, "ar")?);
    }
    run(&mut clippy)
}

/// Clippy of the packages that `features` (`package/feature`) name, with these features and otherwise the defaults.
fn clippy(features: &[&str]) -> Command {
    let mut command = cargo(&["clippy", "--all-targets", "--features", &features.join(",")]);
    let packages = features.iter().filter_map(|feature| feature.split('/').next());
    command.args(packages.flat_map(|package| ["--package", package]));
    command
}

const STAND_IN: &str = r#"#!/bin/sh
# Stands in for nvcc, cc and ar where only Rust is checked: every output it is asked for comes out empty.
while [ $# -gt 0 ]; do
  case "$1" in
    --version) echo "Cuda compilation tools, release 13.0, V13.0.0"; exit 0 ;;
    -E) echo clang; exit 0 ;;
    -o) output=$2; shift ;;
    --output-directory) folder=$2; shift ;;
    *.cu) source=$1 ;;
    *.a) [ -e "$1" ] || : > "$1" ;;
  esac
  shift
done
if [ -n "$output" ]; then : > "$output"; fi
if [ -n "$folder" ] && [ -n "$source" ]; then : > "$folder/$(basename "${source%.cu}").ptx"; fi
"#;

/// Writes the stand-in under a compiler's name and returns its path.
fn stand_in(folder: PathBuf, name: &str) -> Result<PathBuf> {
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let path = folder.join(name);
    // Unchanged it keeps its date, and cargo its results.
    if fs::read_to_string(&path).ok().as_deref() != Some(STAND_IN) {
        fs::write(&path, STAND_IN).with_context(|| format!("cannot write {}", path.display()))?;
    }
    make_executable(&path)?;
    Ok(path)
}

#[cfg(unix)]
pub(crate) fn make_executable(path: &std::path::Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

#[cfg(not(unix))]
pub(crate) fn make_executable(_: &std::path::Path) -> Result<()> {
    anyhow::bail!("the stand-in for compilers is a shell script: run this check on Linux or macOS")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_stand_in_answers_like_the_compilers_it_replaces() {
        let folder = std::env::temp_dir().join(format!("needle-stand-in-{}", std::process::id()));
        let program = stand_in(folder.clone(), "nvcc").unwrap();
        let answer = |args: &[&str]| output(Command::new(&program).args(args).current_dir(&folder)).unwrap();
        assert!(answer(&["--version"]).contains("release 13.0"));
        assert_eq!(answer(&["-E", "a.c"]), "clang\n");
        answer(&["-c", "-o", "a.o", "a.cu"]);
        answer(&["--ptx", "b/mix.cu", "--output-directory", "."]);
        answer(&["cqD", "lib.a", "a.o"]);
        for name in ["a.o", "mix.ptx", "lib.a"] {
            assert_eq!(fs::read(folder.join(name)).unwrap(), b"", "{name}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
