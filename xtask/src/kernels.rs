//! The long checks of the kernel texts, none of which needs a GPU: every shape in the emulator, the Metal texts through
//! clang's front end, and what clang makes of the CUDA texts executed on the host.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::cargo::{cargo, run as execute, target_dir};

/// Compilers that know C++ for OpenCL 2021 and PTX 7, the newest first.
const CLANGS: [&str; 7] = [
    "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14", "clang",
];

/// Runs all of them.
pub(crate) fn run() -> Result<()> {
    check(&["emulate"])?;
    let clang = clang()?;
    check(&["metal", clang])?;
    let folder = target_dir().join("kernels/clang");
    let place = utf8(&folder)?;
    check(&["texts", "clang", place])?;
    for text in texts(&folder)? {
        execute(
            Command::new(clang)
                .args([
                    "-x",
                    "cuda",
                    "--cuda-device-only",
                    "--cuda-gpu-arch=sm_80",
                    "-nocudainc",
                    "-nocudalib",
                ])
                // C++14 is Metal's language: the portable part must stay inside it.
                .args([
                    "-fdeclspec",
                    "-std=c++14",
                    "-O3",
                    "-Wall",
                    "-Werror",
                    "-Wno-unknown-cuda-version",
                ])
                .args(["-Xclang", "-target-feature", "-Xclang", "+ptx70", "-S", "-o"])
                .arg(text.with_extension("ptx"))
                .arg(&text),
        )?;
    }
    check(&["ptx", place])
}

/// One of needle-kernels' own checks.
pub(crate) fn check(args: &[&str]) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "--package", "needle-kernels"]);
    command
        .args(["--features", "emulator", "--example", "kernel_check", "--"])
        .args(args);
    execute(&mut command)
}

/// The CUDA texts in a folder, in a fixed order.
pub(crate) fn texts(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "cu") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

pub(crate) fn utf8(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is no UTF-8", path.display()))
}

fn clang() -> Result<&'static str> {
    let works = |name: &&str| {
        let mut version = Command::new(name);
        version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    };
    match CLANGS.into_iter().find(works) {
        Some(name) => Ok(name),
        None => bail!("no clang on PATH; version 14 or later is needed: `apt-get install clang-14`"),
    }
}
