//! The emulator itself: kernels that are wrong on purpose are refused, for the right reason, in any order of threads.

use needle_kernels::{
    Arg, Launch, Module,
    cases::{self, Extent},
    emulator::{Fault, FaultKind, Memory, Schedule, run},
};

/// Any real launch, to borrow a parameter struct of one word from.
fn launch(kernel: &str) -> (Launch<usize>, Memory) {
    let mut memory = Memory::new();
    let x = memory.f32s(&[1.0; 64]);
    let y = memory.undefined(128 * 4);
    let launch = Launch {
        module: Module::RmsNorm,
        kernel: kernel.into(),
        grid: (2, 1),
        threads: 64,
        shared_bytes: 0,
        args: vec![Arg::In(x), Arg::Out(y)],
        params: needle_kernels::Params::words(&[64]),
    };
    (launch, memory)
}

fn fault(kernel: &str, seed: u64) -> Fault {
    let (launch, mut memory) = launch(kernel);
    let schedule = Schedule {
        seed,
        ..Schedule::default()
    };
    run(&launch, &mut memory, schedule).expect_err(kernel)
}

#[test]
fn wrong_kernels_are_refused_for_the_right_reason() {
    for (kernel, kind, says) in [
        (
            "wrong_divergent_barrier",
            FaultKind::Divergence,
            "at the barrier wrong.h",
        ),
        (
            "wrong_divergent_shuffle",
            FaultKind::Divergence,
            "at the shuffle wrong.h",
        ),
        ("wrong_lane", FaultKind::Divergence, "outside the SIMD group"),
        ("wrong_early_return", FaultKind::Divergence, "finished"),
        ("wrong_blocks_share", FaultKind::Race, ""),
        ("wrong_double_write", FaultKind::Race, "second write of argument 1"),
        ("wrong_shared_reuse", FaultKind::Race, "of s["),
        ("wrong_buffer_barrier", FaultKind::Race, "argument 1"),
        ("wrong_undefined_shared", FaultKind::Undefined, "shared s["),
        ("wrong_undefined_buffer", FaultKind::Undefined, "argument 1"),
        ("wrong_bounds", FaultKind::Bounds, "argument 0[64] of 64"),
    ] {
        for seed in 0..5 {
            let fault = fault(kernel, seed);
            // Blocks that share an element may meet as a read of what is not yet written.
            let early = kernel == "wrong_blocks_share" && fault.kind == FaultKind::Undefined;
            assert!(early || fault.kind == kind, "{fault}");
            assert!(early || fault.message.contains(says), "{fault}");
        }
    }
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let case = cases::all(Extent::Quick).unwrap().swap_remove(0);
    let refused = |change: fn(&mut Launch<usize>)| {
        let mut launch = case.launch.clone();
        change(&mut launch);
        let fault = run(&launch, &mut case.memory.clone(), Schedule::default()).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Usage, "{fault}");
        fault.message
    };
    assert!(refused(|launch| launch.threads /= 2).contains("128 threads, launched with 64"));
    assert!(refused(|launch| launch.kernel = "nothing".into()).contains("no such kernel"));
    assert!(refused(|launch| launch.args.truncate(2)).contains("takes 3 buffers, launched with 2"));
    assert!(refused(|launch| launch.params = needle_kernels::Params::words(&[1])).contains("8 bytes"));
    assert!(refused(|launch| launch.args[0] = Arg::In(99)).contains("no buffer 99"));
    let twice = refused(|launch| launch.args[0] = Arg::In(*launch.args[2].buffer()));
    assert!(twice.contains("is written and overlaps"), "{twice}");
}
