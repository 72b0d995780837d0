//! The long checks of the kernels, behind `cargo xtask check kernels`: every shape in the emulator, the Metal texts through
//! clang's front end, compiled PTX executed on the host.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod compiled;
mod emulated;
mod metal;

use std::{error::Error, path::Path, process::ExitCode};

use needle_kernels::Module;

const USAGE: &str = "\
kernel_check emulate             every case in the emulator: numbers, orders of threads, barriers
kernel_check metal CLANG         the Metal texts through this clang, and planted mistakes, which it must refuse
kernel_check texts cuda DIR      writes the CUDA texts, one file a module, for nvcc
kernel_check texts clang DIR     the same for clang, which needs none of NVIDIA's files
kernel_check ptx DIR             executes MODULE.ptx of this folder on the host, case by case";

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["emulate"] => emulated::check(),
        ["metal", clang] => metal::check(clang),
        ["texts", "cuda", folder] => texts(Path::new(folder), ""),
        ["texts", "clang", folder] => texts(Path::new(folder), include_str!("../../standins/clang_cuda.h")),
        ["ptx", folder] => compiled::check(Path::new(folder)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn texts(folder: &Path, before: &str) -> Outcome {
    std::fs::create_dir_all(folder)?;
    for module in Module::ALL {
        let file = folder.join(module.name()).with_extension("cu");
        std::fs::write(file, format!("{before}{}", module.cuda()))?;
    }
    Ok(())
}
