//! Every kernel in the emulator: right numbers, whatever the order of threads; nothing touched that should not be.

use std::collections::BTreeSet;

use needle_kernels::{
    Arg, Module,
    cases::{self, Case, Extent},
    emulator::{FaultKind, Schedule, signatures},
};

pub(crate) fn quick() -> Vec<Case> {
    cases::all(Extent::Quick).unwrap()
}

#[test]
fn every_kernel_gives_what_its_equation_gives() {
    for case in quick() {
        let (memory, _) = case
            .run(Schedule::default())
            .unwrap_or_else(|fault| panic!("{}: {fault}", case.name));
        let difference = case.difference(&memory);
        assert!(difference <= 1.0, "{}: {difference} times what is allowed", case.name);
    }
}

#[test]
fn outputs_are_written_whole() {
    for case in quick() {
        let (memory, _) = case.run(Schedule::default()).unwrap();
        for arg in &case.launch.args {
            if let Arg::Out(buffer) = arg {
                assert!(
                    memory.is_defined(*buffer),
                    "{}: buffer {buffer} is not written whole",
                    case.name
                );
            }
        }
    }
}

#[test]
fn no_order_of_threads_and_blocks_changes_a_bit() {
    for case in quick() {
        let (first, _) = case.run(Schedule::default()).unwrap();
        for seed in 1..4 {
            let schedule = Schedule {
                seed,
                ..Schedule::default()
            };
            let (again, _) = case.run(schedule).unwrap();
            for expected in &case.expected {
                let buffer = expected.buffer;
                assert!(
                    first.to_bytes(buffer) == again.to_bytes(buffer),
                    "{}: order {seed} changes buffer {buffer}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn every_barrier_is_needed() {
    let mut sites = BTreeSet::new();
    for case in quick() {
        let (_, trace) = case.run(Schedule::default()).unwrap();
        for barrier in 0..trace.barriers as u32 {
            let schedule = Schedule {
                without_barrier: Some(barrier),
                ..Schedule::default()
            };
            match case.run(schedule) {
                Ok(_) => panic!("{}: nobody misses barrier {barrier} of {}", case.name, trace.barriers),
                Err(fault) => assert!(
                    matches!(fault.kind, FaultKind::Race | FaultKind::Undefined),
                    "{}: {fault}",
                    case.name
                ),
            }
        }
        sites.extend(trace.sites);
    }
    // And every barrier of the texts was among them.
    let mut written = BTreeSet::new();
    for part in Module::ALL.iter().flat_map(|module| module.parts()) {
        for (line, text) in (1..).zip(part.text.lines()) {
            let code = text.split("//").next().unwrap_or_default();
            if code.contains("NK_BARRIER()") {
                written.insert(format!("{}:{line}", part.file));
            }
        }
    }
    assert_eq!(sites, written);
}

#[test]
fn every_buffer_too_short_is_noticed() {
    for case in quick() {
        for arg in &case.launch.args {
            let mut short = case.clone();
            let all = case.memory.len_bytes(*arg.buffer());
            // Of an output the last element is missing, of an input all: which of its elements are read is the data's affair.
            short
                .memory
                .shorten(*arg.buffer(), if matches!(arg, Arg::Out(_)) { 4 } else { all });
            match short.run(Schedule::default()) {
                Ok(_) => panic!("{}: nobody misses buffer {}", case.name, arg.buffer()),
                Err(fault) => assert_eq!(fault.kind, FaultKind::Bounds, "{}: {fault}", case.name),
            }
        }
    }
}

#[test]
fn launches_fit_the_kernels() {
    let known = signatures();
    let mut launched = BTreeSet::new();
    for case in quick() {
        let launch = &case.launch;
        let kernel = known.iter().find(|kernel| kernel.name == launch.kernel);
        let kernel = kernel.unwrap_or_else(|| panic!("{}: no kernel {}", case.name, launch.kernel));
        let written = (0..)
            .zip(&launch.args)
            .map(|(i, arg)| u32::from(arg.is_written()) << i)
            .sum::<u32>();
        assert_eq!(
            (launch.threads, launch.args.len(), launch.params.bytes().len(), written),
            (kernel.threads, kernel.buffers, kernel.params_bytes, kernel.written),
            "{}",
            launch.kernel
        );
        let (_, trace) = case.run(Schedule::default()).unwrap();
        assert_eq!(trace.shared_bytes, u64::from(launch.shared_bytes), "{}", launch.kernel);
        assert!(
            launch.module.cuda().contains(launch.kernel.split('_').next().unwrap()),
            "{}",
            launch.kernel
        );
        launched.insert(launch.kernel.clone());
    }
    let known: BTreeSet<String> = known
        .into_iter()
        .map(|kernel| kernel.name)
        .filter(|name| !name.starts_with("wrong"))
        .collect();
    assert_eq!(launched, known, "every kernel is launched by some case");
}

/// 31 buffers, 1024 threads, 32 KiB of threadgroup memory; on CUDA 48 KiB without asking.
#[test]
fn limits_of_both_gpus_hold() {
    for case in quick() {
        let launch = &case.launch;
        assert!(
            launch.args.len() < 31 && launch.threads <= 1024 && launch.threads % 32 == 0,
            "{}",
            case.name
        );
        assert!(
            launch.shared_bytes <= 32 * 1024,
            "{}: {}",
            launch.kernel,
            launch.shared_bytes
        );
        assert!(
            launch.grid.0 >= 1 && (1..=65_535).contains(&launch.grid.1),
            "{}",
            case.name
        );
    }
}
