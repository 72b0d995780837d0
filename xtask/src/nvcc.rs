//! The CUDA side through NVIDIA's own compiler, on a machine that has no GPU: what the kernels cost, that their PTX computes,
//! and that the command built with `--features gpu` runs where neither driver nor CUDA library is.

mod driverless;
mod functions;
mod resources;
mod toolkit;

use std::{path::Path, process::Command};

use anyhow::Result;

use crate::cargo::output;
use toolkit::Toolkit;

/// GPUs to compile for: A100, H100.
const CAPABILITIES: [&str; 2] = ["80", "90"];

/// Runs all of it.
pub(crate) fn run() -> Result<()> {
    functions::run()?;
    let toolkit = Toolkit::install()?;
    resources::run(&toolkit)?;
    driverless::run(&toolkit)
}

/// Only the part that builds the command and runs it without a driver.
pub(crate) fn run_driverless() -> Result<()> {
    functions::run()?;
    driverless::run(&Toolkit::install()?)
}

/// A cargo command that builds with the toolkit from PyPI, for the oldest GPU that has bf16 and every newer one.
pub(crate) fn cargo(args: &[&str], target: &Path) -> Result<Command> {
    Toolkit::install()?.cargo(args, CAPABILITIES[0], target)
}

pub(crate) fn today() -> Result<String> {
    Ok(output(Command::new("date").args(["-u", "+%F"]))?.trim().to_owned())
}
