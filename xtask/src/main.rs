//! Checks and chores of the repository: `cargo xtask <task>`.
//!
//! One file a task. `cargo xtask ci` runs all the checks; everything else is one of them, or a measurement.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod cargo;
mod check;
mod ci;
mod demo;
mod features;
mod gpu_check;
mod hub_python;
mod kernels;
mod licences;
mod memory;
mod nvcc;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask ci                 every check, with a table of wall times; what .ci/run runs
cargo xtask check cuda|metal   clippy of one GPU feature, without its toolkit or its machine
cargo xtask check cuda --real  the real nvcc (installed from PyPI): what the kernels cost, their execution, and the command built
                               with --features gpu and run without a driver; --driverless: only the last
cargo xtask check kernels      the GPU kernels in emulation, at length (needs clang 14 or newer)
cargo xtask gpu-check [OPTION…] every kernel case, the parity suite and measurements on an NVIDIA GPU, with a report
cargo xtask metal-check [OPT…] the same on an Apple GPU
cargo xtask check memory       the engine for the CPU under AddressSanitizer (needs nightly Rust)
cargo xtask features           the feature graph: each GPU feature reaches every candle crate, a plain build none
cargo xtask hub-python         the cache shared with Python, checked with its own client (installs it from PyPI)
cargo xtask licences           licences of all dependencies, one copy of the crates that must be single
cargo xtask tidy               the rules of ARCHITECTURE.md that a text search can check
cargo xtask demo-data ROWS [SEED]  training lines for the built-in demo model
cargo xtask bench NAME [ARG…]  a measurement in a release build; without NAME the list";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["ci"] => ci::run(),
        ["check", "cuda"] => check::cuda(),
        ["check", "cuda", "--real"] => nvcc::run(),
        ["check", "cuda", "--driverless"] => nvcc::run_driverless(),
        ["check", "kernels"] => kernels::run(),
        ["check", "memory"] => memory::run(),
        ["check", "metal"] => check::metal(),
        ["gpu-check", rest @ ..] => gpu_check::run(gpu_check::Kind::Cuda, rest),
        ["metal-check", rest @ ..] => gpu_check::run(gpu_check::Kind::Metal, rest),
        ["features"] => features::run(),
        ["hub-python"] => hub_python::run(),
        ["licences"] => licences::run(),
        ["tidy"] => tidy::run(),
        ["demo-data", rows] => demo::run(rows, "0"),
        ["demo-data", rows, seed] => demo::run(rows, seed),
        ["bench", rest @ ..] => bench::run(rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
