//! The command `needle`: parse, dispatch, print the error once.
//!
//! stdout carries the answer and nothing else; everything else goes to stderr. Exit code 0 for an answer, 1 for an error,
//! 2 for a wrong command line.

// The doc comments of `args.rs` are help texts, where `cuda[:n]` is no link.
#![allow(rustdoc::broken_intra_doc_links)]

mod args;
mod commands;
mod hints;
mod input;
mod notice;
mod numbers;
mod outputs;
mod program;
mod progress;
mod remarks;
mod training;
mod version;
mod weights;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};

fn main() -> ExitCode {
    keep_freed_memory();
    if std::env::args_os().len() <= 1 {
        notice::say(WELCOME);
        return ExitCode::from(2);
    }
    let outcome = match Arguments::parse().command {
        Command::Run(args) => commands::run::run(&args),
        Command::Chat(args) => commands::chat::run(&args),
        Command::Extract(args) => commands::extract::run(&args),
        Command::Embed(args) => commands::embed::run(&args),
        Command::Retrieve(args) => commands::retrieve::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Tokenize(args) => commands::tokenize::run(&args),
        Command::Devices(args) => commands::devices::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Download(args) => commands::download::run(&args),
        Command::Models(args) => commands::models::run(&args),
        Command::Finetune(args) => commands::finetune::run(&args),
        Command::Train(args) => commands::train::run(&args),
        Command::Build(args) => commands::build::run(&args),
        Command::Data(args) => commands::data::run(&args),
        Command::GenerateData(args) => commands::generate_data::run(&args),
        Command::Eval(args) => commands::eval::run(&args),
        Command::Completions(args) => commands::shell::completions(&args),
        Command::Man(args) => commands::shell::man(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            notice::say(format!("error: {}", notice::one_line(&error)));
            if let Some(hint) = hints::for_error(&error) {
                notice::say(format!("hint: {hint}"));
            }
            if error.is::<input::WrongUsage>() {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// What somebody who types only `needle` wants to know.
const WELCOME: &str = "\
needle turns words into tool calls.

  needle run --model demo --tools examples/home.json \"dim the kitchen to 30\"   try the built-in model
  needle run --tools TOOLS.json \"what to do\"                                   run Needle 2, downloaded once
  needle --help                                                                everything else";

/// Whoever reads our output may stop early.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Tells the C allocator to keep large freed blocks: a pass allocates the same temporaries again and again, and faulting
/// their pages in anew takes half the time of a prefill (measured: docs/performance.md).
fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt only sets two parameters of the allocator, before any other thread runs.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}
