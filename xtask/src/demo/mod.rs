//! `cargo xtask demo-data ROWS [SEED]`: the training lines of the built-in demo model, printed as JSON lines.
//!
//! Everyday tools under several names, tools that no one has, refusals and a few double calls. The same seed gives the same lines.

mod dice;
mod example;
mod tools;
mod value;
mod words;

use std::io::Write;

use anyhow::{Context, Result};

/// Prints `rows` lines.
pub(crate) fn run(rows: &str, seed: &str) -> Result<()> {
    let rows: usize = rows
        .parse()
        .with_context(|| format!("ROWS should be a number, found {rows:?}"))?;
    let seed = seed
        .parse()
        .with_context(|| format!("SEED should be a number, found {seed:?}"))?;
    let mut dice = dice::Dice(seed);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for _ in 0..rows {
        writeln!(out, "{}", example::line(&mut dice))?;
    }
    out.flush()?;
    Ok(())
}
