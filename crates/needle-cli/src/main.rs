//! The command `needle`: parse, dispatch, print the error once.
//!
//! stdout carries the answer and nothing else; everything else goes to stderr. Exit code 0 for an answer, 1 for an error,
//! 2 for a wrong command line.
// The doc comments of `args.rs` are help texts, where `cuda[:n]` is no link.
#![allow(clippy::print_stdout, clippy::print_stderr, rustdoc::broken_intra_doc_links)]

mod args;
mod commands;
mod hints;
mod input;
mod progress;
mod version;
mod weights;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};

fn main() -> ExitCode {
    keep_freed_memory();
    let outcome = match Arguments::parse().command {
        Command::Run(args) => commands::run::run(&args),
        Command::Chat(args) => commands::chat::run(&args),
        Command::Extract(args) => commands::extract::run(&args),
        Command::Embed(args) => commands::embed::run(&args),
        Command::Retrieve(args) => commands::retrieve::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Tokenize(args) => commands::tokenize::run(&args),
        Command::Devices(args) => commands::devices::run(&args),
        Command::Download(args) => commands::download::run(&args),
        Command::Models(args) => commands::models::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            if let Some(hint) = hints::for_error(&error) {
                eprintln!("hint: {hint}");
            }
            if error.is::<input::WrongUsage>() {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// The error and its causes in one line; candle adds a backtrace to its own messages where `RUST_BACKTRACE` is set.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        let text = text.lines().next().unwrap_or_default();
        // Some errors repeat their cause in their own text.
        if line.is_empty() {
            line = text.to_owned();
        } else if !line.ends_with(text) {
            line = format!("{line}: {text}");
        }
    }
    line
}

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
