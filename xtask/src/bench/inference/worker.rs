//! Our side of the comparison: a process with one model, told what to run by lines on its standard input.
//!
//! `run C K` takes a fresh prompt of `C` tokens and then `K` greedy steps; `batch B C K` lets `B` sequences of `C` tokens take
//! `K` steps together. Answers are numbers: nanoseconds on the wall and of the processor, for each of the two parts.

use std::{
    io::{BufRead, Write},
    path::Path,
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, Result, bail};
use needle_core::{
    Checkpoint, Window,
    cpu::{CpuModel, CpuOptions, CpuState, Numerics, Threads, decode_batch},
};

use crate::bench::timing::processor_ns;

/// What our worker is told on its command line: the file, the numerics, the threads, the window.
pub(super) fn run(args: &[&str]) -> Result<()> {
    let start = Instant::now();
    let &[file, numerics, threads, window] = args else {
        bail!("a worker needs a file, numerics, threads and a window");
    };
    let options = CpuOptions {
        numerics: match numerics {
            "fast" => Numerics::Fast,
            _ => Numerics::Exact,
        },
        threads: match threads {
            "measured" => Threads::Measured,
            count => Threads::Exactly(count.parse()?),
        },
        ..CpuOptions::default()
    };
    let window = Window {
        size: window.parse()?,
        sinks: 0,
    };
    let checkpoint = Checkpoint::open(Path::new(file))?;
    let model = Arc::new(CpuModel::load_with(&checkpoint.config, &checkpoint.weights, options)?);
    drop(checkpoint);
    let mut state = CpuState::new(&model, window)?;
    let fresh = state.mark();
    let load = start.elapsed();
    state.extend(&[20])?;
    reply(&[load.as_nanos(), start.elapsed().as_nanos(), processor_ns()])?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| -> Result<usize> { Ok(words.get(i).context("a number is missing")?.parse()?) };
        match words.first() {
            Some(&"run") => {
                let ids = prompt(number(1)?, model.config().vocab_size);
                let steps = number(2)?;
                if state.rewind(&fresh).is_err() {
                    state = CpuState::new(&model, window)?;
                }
                let prefill = timed(|| state.extend(&ids).map(drop))?;
                let decode = timed(|| {
                    for _ in 0..steps {
                        let next = likeliest(state.logits());
                        state.extend(&[next])?;
                    }
                    Ok(())
                })?;
                reply(&[prefill.0, prefill.1, decode.0, decode.1])?;
            }
            Some(&"batch") => {
                let ids = prompt(number(2)?, model.config().vocab_size);
                let steps = number(3)?;
                let mut states = Vec::new();
                for _ in 0..number(1)? {
                    let mut state = CpuState::new(&model, window)?;
                    state.extend(&ids)?;
                    states.push(state);
                }
                let decode = timed(|| {
                    for _ in 0..steps {
                        let next: Vec<u32> = states.iter().map(|state| likeliest(state.logits())).collect();
                        decode_batch(&mut states.iter_mut().collect::<Vec<_>>(), &next)?;
                    }
                    Ok(())
                })?;
                reply(&[0, 0, decode.0, decode.1])?;
            }
            _ => break,
        }
    }
    Ok(())
}

/// The same ids as the peer's.
fn prompt(count: usize, vocabulary: usize) -> Vec<u32> {
    let id = |i: usize| 20 + i as u32 * 7919 % (vocabulary as u32 - 20);
    (0..count).map(id).collect()
}

fn likeliest(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (i, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = i;
        }
    }
    best as u32
}

/// Nanoseconds on the wall and of the processor.
fn timed(work: impl FnOnce() -> needle_core::Result<()>) -> Result<(u128, u128)> {
    let (wall, processor) = (Instant::now(), processor_ns());
    work()?;
    Ok((wall.elapsed().as_nanos(), processor_ns() - processor))
}

fn reply(numbers: &[u128]) -> Result<()> {
    let words: Vec<String> = numbers.iter().map(u128::to_string).collect();
    println!("{}", words.join(" "));
    Ok(std::io::stdout().flush()?)
}
