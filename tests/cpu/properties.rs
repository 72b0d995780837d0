//! What holds without goldens: results do not depend on how the work is cut, and a session costs a fixed amount of memory.

use needle_core::{
    Window,
    cpu::{CachePrecision, CpuOptions, CpuState, Isa, Numerics, ProbeHead, Threads, decode_batch},
};

use super::{logits, model, options, state, tokens};
use crate::allocations::peak_bytes;

const MIXED: &str = "gen2/cact/b96_mixed_group32.cact";
const FLOAT: &str = "gen2/checkpoints/a64.safetensors";

#[test]
fn a_prefill_equals_single_steps_to_the_last_bit() {
    for isa in Isa::all() {
        for numerics in [Numerics::Exact, Numerics::Fast] {
            for relative in [MIXED, FLOAT] {
                let model = model(
                    relative,
                    CpuOptions {
                        isa,
                        ..options(numerics)
                    },
                );
                let tokens = tokens(61, 140);
                let at_once = logits(&mut state(&model), &tokens);
                let v = model.config().vocab_size;
                let mut single = state(&model);
                for (token, expected) in tokens.iter().zip(at_once.chunks(v)) {
                    assert_eq!(
                        single.extend(&[*token]).unwrap(),
                        expected,
                        "{isa} {numerics:?} {relative}"
                    );
                }
                for size in [2, 3, 5, 7, 12, 13, 60] {
                    let mut chunked = state(&model);
                    let parts: Vec<f32> = tokens
                        .chunks(size)
                        .flat_map(|part| logits(&mut chunked, part))
                        .collect();
                    assert!(parts == at_once, "{isa} {numerics:?} {relative}: chunks of {size}");
                }
            }
        }
    }
}

#[test]
fn neither_threads_nor_the_instruction_set_change_a_bit() {
    let tokens = tokens(70, 140);
    for numerics in [Numerics::Exact, Numerics::Fast] {
        let run = |isa: Isa, threads: usize| {
            let threads = Threads::Exactly(threads);
            let cache = None;
            let model = model(
                MIXED,
                CpuOptions {
                    isa,
                    numerics,
                    threads,
                    cache,
                },
            );
            let mut state = state(&model);
            let mut all = logits(&mut state, &tokens);
            all.extend_from_slice(state.extend(&[5]).unwrap());
            all
        };
        let one = run(Isa::detect(), 1);
        for threads in [2, 3, 5] {
            assert!(run(Isa::detect(), threads) == one, "{numerics:?}, {threads} threads");
        }
        // The portable set has no fused multiply-add on every processor.
        for isa in Isa::all().into_iter().filter(|isa| isa.name() != "portable") {
            assert!(run(isa, 1) == one, "{numerics:?}, {isa}");
        }
    }
}

#[test]
fn the_window_turns_and_chunks_still_change_nothing() {
    let model = model(FLOAT, options(Numerics::Exact));
    for precision in [CachePrecision::Float, CachePrecision::Int8] {
        for window in [
            Window { size: 11, sinks: 3 },
            Window { size: 1, sinks: 0 },
            Window { size: 33, sinks: 0 },
        ] {
            let tokens = tokens(150, 160);
            let fresh = || CpuState::with_precision(&model, window, precision).unwrap();
            let mut single = fresh();
            let single: Vec<f32> = tokens
                .iter()
                .flat_map(|token| single.extend(&[*token]).unwrap().to_vec())
                .collect();
            for size in [2, 9, 16, 17, 31, 150] {
                let mut chunked = fresh();
                let found: Vec<f32> = tokens
                    .chunks(size)
                    .flat_map(|part| logits(&mut chunked, part))
                    .collect();
                assert!(found == single, "{window:?}, chunks of {size}");
            }
        }
    }
}

#[test]
fn a_batch_equals_its_sequences_alone() {
    for relative in [MIXED, FLOAT] {
        for threads in [1, 2] {
            let model = model(
                relative,
                CpuOptions {
                    threads: Threads::Exactly(threads),
                    ..options(Numerics::Fast)
                },
            );
            for count in [1, 3, 5, 16, 20] {
                let window = |i: usize| Window {
                    size: 20 + i,
                    sinks: i % 3,
                };
                let mut alone: Vec<CpuState> = (0..count).map(|i| CpuState::new(&model, window(i)).unwrap()).collect();
                for (i, state) in alone.iter_mut().enumerate() {
                    state.absorb(&tokens(1 + 3 * i, 140)).unwrap();
                }
                let mut batch: Vec<CpuState> = alone.iter().map(|state| state.fork().unwrap()).collect();
                for step in 0..4u32 {
                    let ids: Vec<u32> = (0..count as u32).map(|i| (7 * i + 3 * step) % 140).collect();
                    let mut states: Vec<&mut CpuState> = batch.iter_mut().collect();
                    decode_batch(&mut states, &ids).unwrap();
                    for ((alone, batch), id) in alone.iter_mut().zip(&batch).zip(&ids) {
                        assert_eq!(
                            alone.extend(&[*id]).unwrap(),
                            batch.logits(),
                            "{relative}, {count} sequences"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_rewound_or_forked_state_goes_on_as_if_nothing_had_been() {
    let model = model(FLOAT, options(Numerics::Exact));
    let mut state = state(&model);
    state.watch(ProbeHead::Confidence).unwrap();
    state.absorb(&tokens(20, 160)).unwrap();
    let (mark, mut fork) = (state.mark(), state.fork().unwrap());
    state.extend(&[1, 2, 3]).unwrap();
    state.rewind(&mark).unwrap();
    assert_eq!((state.position(), mark.position()), (20, 20));
    assert_eq!(state.extend(&[9, 8]).unwrap(), fork.extend(&[9, 8]).unwrap());
    assert_eq!(state.extend(&[7]).unwrap(), fork.extend(&[7]).unwrap());
    assert_eq!(state.verdict(), fork.verdict());

    let mut moved = CpuState::new(&model, Window { size: 8, sinks: 2 }).unwrap();
    moved.absorb(&tokens(6, 160)).unwrap();
    let mark = moved.mark();
    moved.absorb(&tokens(20, 160)).unwrap();
    let error = moved.rewind(&mark).unwrap_err().to_string();
    assert!(error.contains("window has moved"), "{error}");
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let model = model(FLOAT, options(Numerics::Exact));
    let other = super::model(FLOAT, options(Numerics::Exact));
    let mut state = state(&model);
    assert!(state.extend(&[]).is_err());
    let error = state.extend(&[1, 160]).unwrap_err().to_string();
    assert!(error.contains("160"), "{error}");
    assert_eq!(state.position(), 0);
    assert!(CpuState::new(&model, Window { size: 0, sinks: 3 }).is_err());
    let mut stranger = super::state(&other);
    assert!(decode_batch(&mut [&mut state, &mut stranger], &[1, 2]).is_err());
    assert!(decode_batch(&mut [&mut state], &[1, 2]).is_err());
    assert_eq!(state.position(), 0);
    assert!(state.verdict().is_none());
}

#[test]
fn neither_a_step_nor_a_prefill_nor_a_batch_asks_for_memory() {
    for relative in [MIXED, FLOAT] {
        for numerics in [Numerics::Exact, Numerics::Fast] {
            let model = model(relative, options(numerics));
            let fresh = || CpuState::new(&model, Window { size: 24, sinks: 2 }).unwrap();
            let (mut state, mut other) = (fresh(), fresh());
            let prompt = tokens(90, 140);
            let ((), bytes) = peak_bytes(|| {
                state.absorb(&prompt).unwrap();
                other.absorb(&prompt[..7]).unwrap();
                for token in &prompt {
                    state.extend(&[*token]).unwrap();
                }
                for pair in prompt.as_chunks::<2>().0 {
                    decode_batch(&mut [&mut state, &mut other], pair).unwrap();
                }
            });
            assert_eq!(bytes, 0, "{relative} {numerics:?}");
        }
    }
}

/// The memory of the whole process; other tests run beside this one, so the bound is loose.
#[test]
#[cfg(target_os = "linux")]
fn ten_thousand_turns_cost_no_memory() {
    let resident_kb = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("RssAnon"))
            .unwrap()
            .to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()
    };
    let model = model("gen2/checkpoints/c48.safetensors", options(Numerics::Exact));
    let mut state = CpuState::new(&model, Window { size: 40, sinks: 8 }).unwrap();
    let mark = state.mark();
    let turn = |state: &mut CpuState| {
        state.rewind(&mark).unwrap();
        state.extend(&tokens(9, 140)).unwrap();
        state.extend(&[3]).unwrap();
    };
    (0..100).for_each(|_| turn(&mut state));
    let before = resident_kb();
    (0..10_000).for_each(|_| turn(&mut state));
    let grown = resident_kb().saturating_sub(before);
    assert!(grown < 200_000, "grew by {grown} kB");
}

#[test]
fn any_number_of_threads_takes_any_number_of_positions() {
    for threads in [7, 16, 33] {
        let threads = Threads::Exactly(threads);
        let model = model(
            MIXED,
            CpuOptions {
                threads,
                ..options(Numerics::Fast)
            },
        );
        let one = crate::cpu::model(MIXED, options(Numerics::Fast));
        for count in [1, 47, 48, 49, 55, 56, 96, 97, 127, 128, 200] {
            let tokens = tokens(count, 140);
            let ours = state(&model).extend(&tokens).unwrap().to_vec();
            assert_eq!(ours, state(&one).extend(&tokens).unwrap(), "{count} positions");
        }
    }
}
