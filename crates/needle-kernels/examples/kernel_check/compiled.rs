//! Compiled PTX, executed on the host: the same numbers as the equations', no barrier to spare.

use std::{collections::BTreeMap, path::Path};

use needle_kernels::{
    Module,
    cases::{self, Case, Extent},
    ptx::{Entry, execute},
};

use crate::Outcome;

/// Threads times blocks above which a case is left to the emulator: the interpreter is slower.
const THREADS_MAX: u32 = 16_384;

#[derive(Default)]
struct Row {
    cases: u32,
    worst: f64,
    instructions: u64,
    barriers_removed: usize,
}

pub(crate) fn check(folder: &Path) -> Outcome {
    let mut modules = BTreeMap::new();
    for module in Module::ALL {
        let file = folder.join(module.name()).with_extension("ptx");
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        modules.insert(module.name(), text);
    }
    let cases = cases::all(Extent::Quick)?;
    let small = |case: &&Case| case.launch.grid.0 * case.launch.grid.1 * case.launch.threads <= THREADS_MAX;
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for case in cases.iter().filter(small) {
        let row = rows.entry(&case.launch.kernel).or_default();
        check_case(case, &modules[case.launch.module.name()], row)?;
    }
    println!(
        "{:<28} {:>6} {:>10} {:>13} {:>9}",
        "kernel", "cases", "difference", "instructions", "barriers"
    );
    for (kernel, row) in &rows {
        println!(
            "{kernel:<28} {:>6} {:>10.3} {:>13} {:>9}",
            row.cases, row.worst, row.instructions, row.barriers_removed
        );
    }
    let run: u32 = rows.values().map(|row| row.cases).sum();
    println!(
        "{} kernels, {run} of {} cases executed: all right.",
        rows.len(),
        cases.len()
    );
    Ok(())
}

fn check_case(case: &Case, module: &str, row: &mut Row) -> Outcome {
    let entry = Entry::decode(module, &case.launch.kernel)?;
    let mut memory = case.memory.clone();
    row.instructions +=
        execute(&entry, &case.launch, &mut memory).map_err(|error| format!("{}: {error}", case.name))?;
    let difference = case.difference(&memory);
    row.worst = row.worst.max(difference);
    // The interpreter's exponential and logarithm are not the host library's: twice the room.
    if difference > 2.0 {
        return Err(format!("{}: {difference} times what is allowed", case.name).into());
    }
    row.cases += 1;
    // Once a kernel is enough: a barrier is as needed in one shape as in another.
    if row.cases == 1 {
        for barrier in 0..entry.barrier_count() {
            let broken = entry.without_barrier(barrier);
            if execute(&broken, &case.launch, &mut case.memory.clone()).is_ok() && reaches(case, &entry, barrier) {
                return Err(format!("{}: nobody misses bar.sync {barrier}", case.name).into());
            }
            row.barriers_removed += 1;
        }
    }
    Ok(())
}

/// Whether the case comes by a barrier at all: a loop over one chunk does not come by the barrier between two.
fn reaches(case: &Case, entry: &Entry, barrier: usize) -> bool {
    execute(
        &entry.trapping_at_barrier(barrier),
        &case.launch,
        &mut case.memory.clone(),
    )
    .is_err()
}
