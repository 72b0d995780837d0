//! `--verify`: the archive beside the float model, row by row.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use needle_core::{
    Checkpoint, DeviceSpec, Engine,
    agreement::{Answers, Comparison},
    prompt::Example,
};
use serde_json::{Value, json};

use crate::notice;

/// What became of the rows, by their line numbers.
pub(super) struct Verified {
    rows: usize,
    differing: Vec<(usize, Answers)>,
    refused: Vec<(usize, String)>,
    largest_deviation: f32,
}

/// Opens both on the CPU and compares them.
pub(super) fn run(model: &Checkpoint, archive: &Path, rows: &Path) -> Result<Verified> {
    let text = fs::read_to_string(rows).with_context(|| format!("rows {}", rows.display()))?;
    let cpu = DeviceSpec::Cpu;
    let float: Arc<Engine> = Engine::new(model, cpu)?;
    let mut comparison = Comparison::new(&float, &Engine::open(archive, cpu)?);
    let mut verified = Verified {
        rows: 0,
        differing: vec![],
        refused: vec![],
        largest_deviation: 0.0,
    };
    for (line, row) in (1..).zip(text.lines()) {
        let answers = match Example::parse(row) {
            Ok(None) => continue,
            Ok(Some(row)) => comparison.answers(&row),
            Err(error) => Err(error),
        };
        verified.rows += 1;
        match answers {
            Err(error) => verified.refused.push((line, notice::flat(&error.to_string()))),
            Ok(answers) => {
                verified.largest_deviation = verified.largest_deviation.max(answers.largest_deviation);
                if !answers.are_equal() {
                    verified.differing.push((line, answers));
                }
            }
        }
    }
    if verified.rows == 0 {
        bail!("{}: no rows", rows.display());
    }
    Ok(verified)
}

impl Verified {
    pub(super) fn to_json(&self) -> Value {
        let differing = self.differing.iter().map(|(line, answers)| {
            json!({ "line": line, "float": answers.first, "archive": answers.second, "largest_deviation": answers.largest_deviation })
        });
        let refused = self
            .refused
            .iter()
            .map(|(line, reason)| json!({ "line": line, "reason": reason }));
        json!({
            "rows": self.rows, "equal": self.equal(), "largest_deviation": self.largest_deviation,
            "differing": differing.collect::<Vec<_>>(), "refused": refused.collect::<Vec<_>>(),
        })
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        for (line, answers) in &self.differing {
            writeln!(out, "line {line} differs")?;
            writeln!(out, "  float    {}", notice::flat(&answers.first))?;
            writeln!(out, "  archive  {}", notice::flat(&answers.second))?;
        }
        for (line, reason) in &self.refused {
            writeln!(out, "line {line} could not be answered: {reason}")?;
        }
        let (rows, equal, largest) = (self.rows, self.equal(), self.largest_deviation);
        writeln!(
            out,
            "verified: {equal} of {rows} rows answered alike; largest deviation of a logit {largest:.3}"
        )
    }

    fn equal(&self) -> usize {
        self.rows - self.differing.len() - self.refused.len()
    }
}
