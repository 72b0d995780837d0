//! How long a whole run of the command takes, from the start of its process to the end.

use std::process::Stdio;

use anyhow::Result;

use super::timing::{Timing, table};
use crate::cargo::{cargo, run as execute, target_dir};

const RUNS: usize = 21;

/// Times `needle ARG…`, by default `needle --version`.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    let args = if args.is_empty() { &["--version"] } else { args };
    execute(&mut cargo(&[
        "build",
        "--quiet",
        "--release",
        "--package",
        "needle-cli",
    ]))?;
    let program = target_dir()
        .join("release")
        .join(format!("needle{}", std::env::consts::EXE_SUFFIX));
    let timing = Timing::of(format!("needle {}", args.join(" ")), RUNS, || {
        execute(
            std::process::Command::new(&program)
                .args(args)
                .stdin(Stdio::null())
                .stdout(Stdio::null()),
        )
    })?;
    println!("{}", table(&[timing]));
    Ok(())
}
