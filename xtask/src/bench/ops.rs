//! What each operation of a pass takes: a decode step after 64 tokens, then a pass over 12 positions, one tile, after as many.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use needle_core::{
    Checkpoint,
    cpu::{
        CpuModel, CpuOptions, Numerics, Threads,
        measure::{Operation, operations},
    },
};

/// Passes, of which the fastest counts for each operation: what else the machine does only adds.
const PASSES: usize = 25;
const CONTEXT: usize = 64;
/// Positions of one tile: a pass is over before the system is likely to take it off its core.
const PREFILL: usize = 12;

/// `FILE…`: archives of generation 2.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    ensure!(!args.is_empty(), "which archives? `cargo xtask bench ops FILE…`");
    for file in args {
        let checkpoint = Checkpoint::open(Path::new(file)).with_context(|| (*file).to_owned())?;
        for numerics in [Numerics::Exact, Numerics::Fast] {
            let options = CpuOptions {
                numerics,
                threads: Threads::Exactly(1),
                ..CpuOptions::default()
            };
            let model = Arc::new(CpuModel::load_with(&checkpoint.config, &checkpoint.weights, options)?);
            println!("\n{file}, {numerics:?}, {}: microseconds a position", options.isa);
            println!("{:<36}{:>18}{:>18}", "", "decode at 64", "pass over 12");
            let (decode, prefill) = (fastest(&model, 1)?, fastest(&model, PREFILL)?);
            let micros = |time: Duration, positions: usize| time.as_secs_f64() * 1e6 / positions as f64;
            let mut sums = [0.0; 2];
            for (one, many) in decode.iter().zip(&prefill) {
                let both = [micros(one.time, 1), micros(many.time, PREFILL)];
                sums.iter_mut().zip(both).for_each(|(sum, time)| *sum += time);
                println!("{:<36}{:>18.1}{:>18.1}", one.name, both[0], both[1]);
            }
            println!("{:<36}{:>18.1}{:>18.1}", "sum", sums[0], sums[1]);
        }
    }
    Ok(())
}

fn fastest(model: &Arc<CpuModel>, positions: usize) -> Result<Vec<Operation>> {
    let mut best = operations(model, CONTEXT, positions)?;
    for _ in 1..PASSES {
        for (best, found) in best.iter_mut().zip(operations(model, CONTEXT, positions)?) {
            best.time = best.time.min(found.time);
        }
    }
    Ok(best)
}
