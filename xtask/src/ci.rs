//! All checks in one go, the cheap ones first. A failed step does not keep the others from running: one run tells all.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{
    cargo::{cargo, run as execute},
    check, features, licences, tidy,
};

/// A name for the table, and what it runs.
type Step = (&'static str, fn() -> Result<()>);

const STEPS: &[Step] = &[
    ("fmt", fmt),
    ("tidy", tidy::run),
    ("features", features::run),
    ("licences", licences::run),
    ("clippy", clippy),
    ("library", library),
    ("test", test),
    ("docs", docs),
    ("check metal", check::metal),
    ("check cuda", check::cuda),
];

/// Runs every step, prints a table of wall times, and fails when a step did.
pub(crate) fn run() -> Result<()> {
    let mut results = Vec::new();
    for (name, step) in STEPS {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = step();
        let wall = start.elapsed();
        match &outcome {
            Ok(()) => println!("== {name}: ok, {:.1} s", wall.as_secs_f64()),
            Err(error) => println!("== {name}: FAILED, {:.1} s: {error:#}", wall.as_secs_f64()),
        }
        results.push(Outcome {
            name,
            wall,
            passed: outcome.is_ok(),
        });
    }
    println!("\n{}", table(&results));
    let failed: Vec<&str> = results
        .iter()
        .filter(|result| !result.passed)
        .map(|result| result.name)
        .collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

struct Outcome<'a> {
    name: &'a str,
    wall: Duration,
    passed: bool,
}

fn table(results: &[Outcome<'_>]) -> String {
    let mut table = format!("{:<12} {:>8}  result\n", "step", "wall [s]");
    for result in results {
        let verdict = if result.passed { "ok" } else { "FAILED" };
        let _ = writeln!(
            table,
            "{:<12} {:>8.1}  {verdict}",
            result.name,
            result.wall.as_secs_f64()
        );
    }
    let total: Duration = results.iter().map(|result| result.wall).sum();
    let _ = write!(table, "{:<12} {:>8.1}", "total", total.as_secs_f64());
    table
}

fn fmt() -> Result<()> {
    execute(&mut cargo(&["fmt", "--all", "--", "--check"]))
}

fn clippy() -> Result<()> {
    let mut clippy = cargo(&["clippy", "--workspace", "--all-targets", "--features", "xtask/bench"]);
    execute(clippy.args(["--", "-D", "warnings"]))
}

/// Clippy of needle-core without its defaults, as a program on a device would take it.
fn library() -> Result<()> {
    let mut clippy = cargo(&["clippy", "--package", "needle-core", "--no-default-features"]);
    execute(clippy.args(["--", "-D", "warnings"]))
}

fn test() -> Result<()> {
    execute(&mut cargo(&[
        "test",
        "--workspace",
        "--features",
        "xtask/bench",
        "--no-fail-fast",
    ]))
}

fn docs() -> Result<()> {
    execute(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_every_step_and_adds_up() {
        let step = |name, millis, passed| Outcome {
            name,
            wall: Duration::from_millis(millis),
            passed,
        };
        let text = table(&[step("fmt", 1500, true), step("check cuda", 61_000, false)]);
        let expected = "\
step         wall [s]  result
fmt               1.5  ok
check cuda       61.0  FAILED
total            62.5";
        assert_eq!(text, expected);
    }
}
