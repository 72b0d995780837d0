//! Every case in the emulator.

use std::collections::BTreeMap;

use needle_kernels::{
    cases::{self, Case, Extent},
    emulator::{FaultKind, Schedule},
};

use crate::Outcome;

/// Orders of threads and blocks besides the plain one.
const ORDERS: u64 = 5;

#[derive(Default)]
struct Row {
    cases: u32,
    worst: f64,
    /// How many cases fail without each barrier, counted from 0 in a thread.
    missed: BTreeMap<u64, u32>,
}

pub(crate) fn check() -> Outcome {
    let cases = cases::all(Extent::Full)?;
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for case in &cases {
        let row = rows.entry(&case.launch.kernel).or_default();
        row.cases += 1;
        check_case(case, row)?;
    }
    println!(
        "{:<28} {:>6} {:>10}  barriers, and how many cases fail without each",
        "kernel", "cases", "difference"
    );
    for (kernel, row) in &rows {
        let missed: Vec<String> = row.missed.values().map(u32::to_string).collect();
        println!(
            "{kernel:<28} {:>6} {:>10.3}  {}",
            row.cases,
            row.worst,
            missed.join(" ")
        );
        if row.missed.values().any(|&cases| cases == 0) {
            return Err(format!("{kernel}: nobody misses one of its barriers").into());
        }
    }
    println!(
        "{} kernels, {} cases in {} orders each: all right. A difference of 1 is what is allowed.",
        rows.len(),
        cases.len(),
        ORDERS + 1
    );
    Ok(())
}

fn check_case(case: &Case, row: &mut Row) -> Outcome {
    let (first, trace) = case.run(Schedule::default())?;
    let difference = case.difference(&first);
    row.worst = row.worst.max(difference);
    if difference > 1.0 {
        return Err(format!("{}: {difference} times what is allowed", case.name).into());
    }
    for seed in 1..=ORDERS {
        let (again, _) = case.run(Schedule {
            seed,
            without_barrier: None,
        })?;
        let same = |buffer| first.to_bytes(buffer) == again.to_bytes(buffer);
        if !case.expected.iter().all(|expected| same(expected.buffer)) {
            return Err(format!("{}: order {seed} changes the result", case.name).into());
        }
    }
    for barrier in 0..trace.barriers {
        let schedule = Schedule {
            seed: 0,
            without_barrier: Some(barrier as u32),
        };
        match case.run(schedule) {
            Err(fault) if matches!(fault.kind, FaultKind::Race | FaultKind::Undefined) => {
                *row.missed.entry(barrier).or_default() += 1;
            }
            Err(fault) => return Err(format!("{} without barrier {barrier}: {fault}", case.name).into()),
            // In some shapes a thread reads only what it wrote itself; in others it must be missed.
            Ok(_) => drop(row.missed.entry(barrier).or_default()),
        }
    }
    Ok(())
}
