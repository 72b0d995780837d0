//! The peer's side of `cargo xtask bench inference`: `needle-infer` from crates.io behind the same few words as our worker.
//!
//! This file is a program of its own, built in a folder of its own; nothing of the workspace sees it.

use std::{
    error::Error,
    io::{BufRead, Write},
    time::Instant,
};

use needle_core::v2::{V2Batch, V2State};
use needle_infer::v2_engine::V2Engine;

/// Positions that the peer's batched prefill takes at once.
const BATCH: usize = 128;

struct Worker {
    engine: V2Engine,
    state: V2State,
    batch: V2Batch,
    logits: Vec<f32>,
}

impl Worker {
    fn prefill(&mut self, ids: &[u32]) -> Result<(), Box<dyn Error>> {
        self.state.reset();
        let logits = Some(&mut self.logits[..]);
        let model = self.engine.model();
        Ok(model.prefill_batch(ids, &mut self.state, &mut self.batch, logits)?)
    }

    fn steps(&mut self, count: usize) -> Result<(), Box<dyn Error>> {
        for _ in 0..count {
            let next = likeliest(&self.logits);
            self.engine.model().step(next, &mut self.state, &mut self.logits)?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let file = std::env::args().nth(1).ok_or("which file?")?;
    let engine = V2Engine::load(&file)?;
    let (state, batch) = (engine.new_state(), V2Batch::new(engine.model(), BATCH));
    let logits = vec![0.0; engine.model().cfg.vocab_size];
    let mut worker = Worker { engine, state, batch, logits };
    let load = start.elapsed();
    worker.prefill(&[20])?;
    reply(&[load.as_nanos(), start.elapsed().as_nanos(), processor_ns()])?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let &["run", context, steps] = words.as_slice() else { break };
        let ids = prompt(context.parse()?, worker.logits.len());
        let steps = steps.parse()?;
        let prefill = timed(|| worker.prefill(&ids))?;
        let decode = timed(|| worker.steps(steps))?;
        reply(&[prefill.0, prefill.1, decode.0, decode.1])?;
    }
    Ok(())
}

/// The same ids as our worker's.
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
fn timed(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<(u128, u128), Box<dyn Error>> {
    let (wall, processor) = (Instant::now(), processor_ns());
    work()?;
    Ok((wall.elapsed().as_nanos(), processor_ns() - processor))
}

fn processor_ns() -> u128 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place for the answer is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u128 * 1_000_000_000 + time.tv_nsec as u128
}

fn reply(numbers: &[u128]) -> std::io::Result<()> {
    let words: Vec<String> = numbers.iter().map(u128::to_string).collect();
    println!("{}", words.join(" "));
    std::io::stdout().flush()
}
