//! Steps from real files against the oracle's logits, and what they launch.

use std::sync::atomic::Ordering;

use candle_core::{DType, Tensor};
use needle_core::{
    Checkpoint, Config, Session, Window,
    gpu::{GpuOptions, GpuState, Launching, Recording, StepWeights, refusal},
};
use needle_kernels::plan::StepPart;

use super::{WHOLE, close, emulated, emulated::Emulated, emulated_on, one_by_one, text};
use crate::golden;

const LOGITS: f32 = 2e-5;

fn ids(golden: &Tensor) -> Vec<u32> {
    let ids: Vec<i32> = golden.to_vec1().unwrap();
    ids.into_iter().map(|id| id as u32).collect()
}

/// The prompt goes through a pass on tensors, what follows through steps: so keys, values and the engram's memory are
/// handed over, rings turn, and first positions stay pinned.
#[test]
fn greedy_continuations_through_every_window() {
    for name in ["a64", "b96", "c48"] {
        let (model, log) = emulated(
            &format!("gen2/checkpoints/{name}.safetensors"),
            DType::F32,
            GpuOptions::default(),
        );
        let golden = golden::tensors(&format!("gen2/decode/{name}.safetensors"));
        for (case, size, sinks, count) in [
            ("full_p9", 128, 0, 12),
            ("window16_p24", 16, 0, 20),
            ("window16_sink7_p24", 16, 7, 20),
            ("window6_p12", 6, 0, 16),
        ] {
            let Some(expected) = golden.get(&format!("{case}.logits")) else {
                assert_ne!(name, "a64");
                continue;
            };
            let expected: Vec<Vec<f32>> = expected.to_vec2().unwrap();
            let mut session = Session::on_gpu(&model, Window { size, sinks }).unwrap();
            let prompt = ids(&golden[&format!("{case}.prompt")]);
            let ids = ids(&golden[&format!("{case}.ids")]);
            let mut found = vec![session.extend(&prompt).unwrap()];
            let before = log.runs.load(Ordering::Relaxed);
            found.extend(one_by_one(&mut session, &ids[..count]));
            assert_eq!(log.runs.load(Ordering::Relaxed) - before, count);
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                close(&format!("{name} {case} {i}"), found, expected, LOGITS);
            }
        }
    }
}

#[test]
fn archives_packed_and_widened() {
    for name in ["a64_mixed", "b96_mixed_group32", "c48_w2", "tok64_w2", "tok64_w4"] {
        let golden = golden::tensors(&format!("gen2/cact/{name}.logits.safetensors"));
        let tokens: Vec<u32> = golden["len33.tokens"]
            .to_dtype(DType::U32)
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1()
            .unwrap();
        let expected: Vec<Vec<f32>> = golden["len33.logits"].squeeze(0).unwrap().to_vec2().unwrap();
        for weights in [StepWeights::Packed, StepWeights::Widened] {
            let options = GpuOptions {
                weights,
                ..GpuOptions::default()
            };
            let (model, _) = emulated(&format!("gen2/cact/{name}.cact"), DType::F32, options);
            let mut session = Session::on_gpu(&model, WHOLE).unwrap();
            session.absorb(&tokens[..29]).unwrap();
            let found = one_by_one(&mut session, &tokens[29..]);
            for (i, (found, expected)) in found.iter().rev().zip(expected.iter().rev()).enumerate() {
                close(&format!("{name} {weights:?} -{i}"), found, expected, LOGITS);
            }
        }
    }
}

#[test]
fn half_precision_stays_near() {
    for (dtype, limit) in [(DType::F16, 0.02), (DType::BF16, 0.15)] {
        let relative = "gen2/cact/a64_mixed.cact";
        let exact = emulated(relative, DType::F32, GpuOptions::default()).0;
        for weights in [StepWeights::Packed, StepWeights::Widened] {
            let (model, _) = emulated(
                relative,
                dtype,
                GpuOptions {
                    weights,
                    ..GpuOptions::default()
                },
            );
            let logits = |model| {
                let mut session = Session::on_gpu(model, Window { size: 8, sinks: 2 }).unwrap();
                session.absorb(&text(12, 1)).unwrap();
                one_by_one(&mut session, &text(5, 2)).pop().unwrap()
            };
            close(
                &format!("{dtype:?} {weights:?}"),
                &logits(&model),
                &logits(&exact),
                limit,
            );
        }
    }
}

/// The figure that the plan promises, for a plan that comes from a file.
#[test]
fn a_layer_launches_five_kernels_and_six_at_an_engram_site() {
    let files = ["a64_mixed", "b96_mixed_group32", "c48_w2", "tok64_w2", "tok64_w4"];
    for relative in files.map(|name| format!("gen2/cact/{name}.cact")) {
        let (model, _) = emulated(&relative, DType::BF16, GpuOptions::default());
        for rows in [1, 8] {
            let plan = model.plan(rows, 100).unwrap();
            let config = model.config();
            for l in 0..config.num_layers {
                let site = usize::from(config.engram.layers.contains(&l));
                assert_eq!(plan.count(StepPart::Layer(l)), 5 + site, "{relative}, layer {l}");
            }
            let sites = config.engram.layers.iter().filter(|&&l| l < config.num_layers).count();
            assert_eq!(plan.launches.len(), 2 + 5 * config.num_layers + sites, "{relative}");
        }
    }
}

#[test]
fn a_step_is_recorded_once_and_a_refusal_is_told() {
    let relative = "gen2/checkpoints/c48.safetensors";
    for (records, launching, captures) in [
        (true, Launching::Graph, 1),
        (false, Launching::Graph, 1),
        (true, Launching::Single, 0),
    ] {
        let options = GpuOptions {
            launching,
            ..GpuOptions::default()
        };
        let (model, log) = emulated_on(Emulated::new(records), relative, DType::F32, options);
        let mut state = GpuState::new(&model, WHOLE).unwrap();
        assert_eq!(state.recording(), Recording::None);
        for token in text(3, 4) {
            state.extend(&[token]).unwrap();
        }
        assert_eq!(
            (log.steps.load(Ordering::Relaxed), log.runs.load(Ordering::Relaxed)),
            (1, 3)
        );
        assert_eq!(log.captures.load(Ordering::Relaxed), captures);
        match (state.recording(), captures, records) {
            (Recording::Replayed, 1, true) | (Recording::None, 0, _) => {}
            (Recording::Refused { reason }, 1, false) => assert!(reason.contains("nothing records here"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_model_without_kernels_is_refused_by_name() {
    let Checkpoint {
        mut config, weights, ..
    } = Checkpoint::open(&golden::path("gen2/checkpoints/a64.safetensors")).unwrap();
    let reason = |config: &Config| refusal(config, &weights, DType::BF16, GpuOptions::default()).unwrap();
    assert_eq!(reason(&config), None);
    config.mhc_lanes = 5;
    assert_eq!(
        reason(&config).unwrap(),
        "lanes: the number of lanes is 5, the kernels take 1 to 4"
    );
}
