//! A fine-tuning step of the full generation-2 geometry, on random weights: seconds, processor seconds, peak memory; beside
//! the JAX reference where its Python environment is there.
//!
//! Every line is a process of its own, so that threads and memory are its own. The reference is the PyPI package, run by
//! `finetune/reference.py` on the same weights.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use needle_core::{
    Config, DeviceSpec, Generation,
    train::{Activations, AdapterShape, Row, TrainOptions, Trainable, Trainer, initial_checkpoint},
};
use serde_json::{Value, json};

use crate::cargo::{output, root, target_dir};

const LENGTH: usize = 256;
const SCORED: usize = 32;
const RANK: usize = 16;
/// Steps that count; one more comes first.
const STEPS: usize = 3;
const REFERENCE: &str = "cactus-needle[train]==2.0.15";

/// `[--python PATH] [--ours]`, or `--one BATCH ACTIVATIONS` for a child.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    match args {
        ["--one", batch, activations] => return one(batch.parse()?, activations),
        ["--ours"] => return table(None),
        ["--python", python] => return table(Some(PathBuf::from(python))),
        [] => {}
        _ => bail!("expected nothing, --ours or --python PATH"),
    }
    let usual = target_dir().join("reference-python/bin/python");
    table(usual.exists().then_some(usual))
}

fn table(python: Option<PathBuf>) -> Result<()> {
    println!(
        "one step, {LENGTH} tokens a row, rank {RANK}, width 512, 27 layers, float32; median of {STEPS}, the first left out"
    );
    println!(
        "{:<34} {:>5} {:>7} {:>9} {:>12} {:>11} {:>9}",
        "subject", "batch", "threads", "seconds", "processor s", "tokens/cpu s", "peak MB"
    );
    for threads in [1, 2] {
        for batch in [4, 16] {
            for (name, word) in [
                ("needle, everything kept", "kept"),
                ("needle, layers recomputed", "recomputed"),
            ] {
                let mut child = Command::new(std::env::current_exe()?);
                child.args(["bench", "finetune", "--one", &batch.to_string(), word]);
                child.env("RAYON_NUM_THREADS", threads.to_string());
                line(name, batch, threads, &output(&mut child)?)?;
            }
        }
    }
    let Some(python) = python else {
        println!("the JAX reference is not here: `python3.11 -m venv target/reference-python`, then");
        println!("`target/reference-python/bin/pip install '{REFERENCE}'`, or give --python PATH");
        return Ok(());
    };
    let checkpoint = target_dir().join("finetune-reference.safetensors");
    initial_checkpoint(&config()?, 1, None)?.save_safetensors(&checkpoint)?;
    for threads in [1, 2] {
        for batch in [4, 16] {
            let found = reference(&python, &checkpoint, batch, threads);
            line("JAX reference, float32", batch, threads, &found?)?;
        }
    }
    Ok(())
}

fn line(name: &str, batch: usize, threads: usize, text: &str) -> Result<()> {
    let last = text.lines().last().unwrap_or_default();
    let found: Value = serde_json::from_str(last).with_context(|| format!("{name} printed {last:?}"))?;
    let number = |key: &str| found[key].as_f64().with_context(|| format!("{name}: no {key}"));
    let processor = number("processor_s")?;
    println!(
        "{name:<34} {batch:>5} {threads:>7} {:>9.2} {processor:>12.2} {:>12.0} {:>9.0}",
        number("wall_s")?,
        (batch * LENGTH) as f64 / processor,
        number("peak_mb")?
    );
    Ok(())
}

fn reference(python: &Path, checkpoint: &Path, batch: usize, threads: usize) -> Result<String> {
    let script = root().join("xtask/src/bench/finetune/reference.py");
    let cores = (0..threads).map(|core| core.to_string()).collect::<Vec<_>>().join(",");
    // JAX takes as many threads as it is allowed cores.
    let mut command = Command::new("taskset");
    command.args(["-c", &cores]).arg(python).arg(script).arg(checkpoint);
    command.arg(root().join("tests/golden/gen2/tokenizer.model"));
    command.args([batch, LENGTH, RANK, STEPS].map(|number| number.to_string()));
    output(&mut command)
}

fn config() -> Result<Config> {
    let fields = json!({"d_model": 512, "num_heads": 8, "num_kv_heads": 4, "num_layers": 27, "max_seq_len": 2048});
    let fields = fields.as_object().context("an object")?;
    Ok(Config::from_json(fields, Generation::Two)?)
}

/// One measurement, as a line of JSON.
fn one(batch: usize, activations: &str) -> Result<()> {
    let checkpoint = initial_checkpoint(&config()?, 1, None)?;
    let shape = AdapterShape {
        rank: RANK,
        alpha: 2.0 * RANK as f64,
    };
    let options = TrainOptions {
        activations: match activations {
            "kept" => Activations::Kept,
            _ => Activations::Recomputed,
        },
        ..TrainOptions::new(Trainable::Adapter(shape), STEPS + 1)
    };
    let mut trainer = Trainer::new(&checkpoint, &DeviceSpec::Cpu.open()?, options)?;
    let row = |row: usize| Row {
        // As many positions as the reference's padded rows have.
        ids: (0..=LENGTH)
            .map(|at| ((at * 31 + row * 977 + 5) % 8000) as u32)
            .collect(),
        target_start: LENGTH + 1 - SCORED,
    };
    let rows: Vec<Row> = (0..batch).map(row).collect();
    let rows: Vec<&Row> = rows.iter().collect();
    let (mut wall, mut processor) = (vec![], vec![]);
    for _ in 0..=STEPS {
        let (start, before) = (Instant::now(), processor_seconds()?);
        let report = trainer.step(&rows)?;
        ensure!(report.loss.is_finite(), "the loss is {}", report.loss);
        wall.push(start.elapsed().as_secs_f64());
        processor.push(processor_seconds()? - before);
    }
    let median = |mut values: Vec<f64>| {
        values.remove(0);
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let found = json!({"wall_s": median(wall), "processor_s": median(processor), "peak_mb": peak_mb()?});
    println!("{found}");
    Ok(())
}

/// Processor time of this process so far, all threads.
fn processor_seconds() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").context("processor time is read from /proc")?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    // User and system time, in hundredths of a second.
    Ok((ticks(11).context("no user time")? + ticks(12).context("no system time")?) / 100.0)
}

fn peak_mb() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/status").context("memory is read from /proc")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    Ok(kilobytes.context("no VmHWM")? / 1024.0)
}
