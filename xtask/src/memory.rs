//! `cargo xtask check memory`: the tests of the engine for the CPU under AddressSanitizer, its unsafe blocks among them.
//!
//! The sanitizer needs nightly Rust (`rustup toolchain install nightly`); everything is built for it once more, in a folder of its own.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::{root, run as execute, target_dir};

pub(crate) fn run() -> Result<()> {
    let host = host()?;
    for (package, kind) in [("needle-core", "--lib"), ("needle-tests", "--test=tests")] {
        let mut command = nightly("cargo");
        command
            .args(["test", "--package", package, kind, "--target", &host, "--target-dir"])
            .arg(target_dir().join("memory"))
            .args(["--", "cpu::"])
            .env("RUSTFLAGS", "-Zsanitizer=address")
            // What a test leaves to the end of the process is no fault of the engine's.
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .current_dir(root());
        execute(&mut command)?;
    }
    Ok(())
}

fn host() -> Result<String> {
    let output = nightly("rustc").arg("-vV").output().context("cannot start rustc")?;
    ensure!(
        output.status.success(),
        "nightly Rust is missing: rustup toolchain install nightly"
    );
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say its host")?.to_owned())
}

/// A program of the nightly toolchain, whatever toolchain runs this one.
fn nightly(program: &str) -> Command {
    let mut command = Command::new(program);
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"] {
        command.env_remove(variable);
    }
    command.arg("+nightly");
    command
}
