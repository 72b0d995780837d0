//! Float32 numerics against the oracle, on every instruction set of the machine.

use needle_core::{
    Window,
    cpu::{CpuModel, CpuOptions, CpuState, Isa, Numerics, ProbeHead},
};
use serde_json::Value;

use super::{ARCHIVES, CHECKPOINTS, WHOLE, argmax, expect_close, ids, logits, model, options, state, values};
use crate::golden;

/// Largest deviation allowed, relative to the golden's largest entry.
const LOGITS: f64 = 1e-5;

fn on(isa: Isa) -> CpuOptions {
    CpuOptions {
        isa,
        ..options(Numerics::Exact)
    }
}

#[test]
fn every_length_of_every_checkpoint() {
    for isa in Isa::all() {
        for name in CHECKPOINTS {
            let model = model(&format!("gen2/checkpoints/{name}.safetensors"), on(isa));
            let golden = golden::tensors(&format!("gen2/forward/{name}.safetensors"));
            for t in [1, 7, 33, 90] {
                let found = logits(&mut state(&model), &ids(&golden[&format!("len{t}.tokens")]));
                let golden = values(&golden[&format!("len{t}.logits")]);
                expect_close(&format!("{isa} {name} len{t}"), &found, &golden, LOGITS);
            }
        }
    }
}

#[test]
fn every_archive_at_every_mix_of_bits() {
    for isa in Isa::all() {
        for name in ARCHIVES {
            let model = model(&format!("gen2/cact/{name}.cact"), on(isa));
            let golden = golden::tensors(&format!("gen2/cact/{name}.logits.safetensors"));
            for t in [7, 33] {
                let found = logits(&mut state(&model), &ids(&golden[&format!("len{t}.tokens")]));
                // Archives with a large vocabulary keep the golden of the last rows only.
                let golden = values(&golden[&format!("len{t}.logits")]);
                let found = &found[found.len() - golden.len()..];
                expect_close(&format!("{isa} {name} len{t}"), found, &golden, LOGITS);
            }
            let tokens = ids(&golden["len30.tokens"]);
            for (head, golden) in [
                (ProbeHead::Contrastive, &golden["len30.contrastive"]),
                (ProbeHead::Confidence, &golden["len30.confidence"]),
            ] {
                let mut state = state(&model);
                state.watch(head).unwrap();
                state.absorb(&tokens).unwrap();
                // The archive keeps the heads in float16; the golden used the checkpoint's float32.
                let found = state.verdict().unwrap();
                expect_close(&format!("{isa} {name} {head:?}"), &found, &values(golden), 2e-3);
            }
        }
    }
}

#[test]
fn heads_of_every_checkpoint() {
    for name in CHECKPOINTS {
        let model = model(
            &format!("gen2/checkpoints/{name}.safetensors"),
            options(Numerics::Exact),
        );
        let golden = golden::tensors(&format!("gen2/heads/{name}.safetensors"));
        for (head, golden_name) in [
            (ProbeHead::Contrastive, "contrastive"),
            (ProbeHead::Confidence, "confidence"),
        ] {
            let rows = golden["right.tokens"].to_dtype(candle_core::DType::U32).unwrap();
            let rows = rows.to_vec2::<u32>().unwrap();
            let found = rows.iter().flat_map(|row| {
                let text: Vec<u32> = row.iter().copied().filter(|id| *id != 0).collect();
                let mut state = state(&model);
                state.watch(head).unwrap();
                text.chunks(5).for_each(|part| state.absorb(part).unwrap());
                state.verdict().unwrap()
            });
            let found: Vec<f32> = found.collect();
            let golden = values(&golden[&format!("right.plain.{golden_name}")]);
            expect_close(&format!("{name} {golden_name}"), &found, &golden, 1e-4);
        }
    }
}

#[test]
fn every_greedy_continuation_through_its_window() {
    for isa in Isa::all() {
        for name in CHECKPOINTS {
            let model = model(&format!("gen2/checkpoints/{name}.safetensors"), on(isa));
            let golden = golden::tensors(&format!("gen2/decode/{name}.safetensors"));
            let cases = golden::json(&format!("gen2/decode/{name}.json"));
            let mut compared = 0;
            for case in cases["cases"].as_array().unwrap() {
                let tag = case["case"].as_str().unwrap();
                let Some(expected) = golden.get(&format!("{tag}.ids")) else {
                    continue;
                };
                let window = window(case);
                let mut state = CpuState::new(&model, window).unwrap();
                let mut found = state.extend(&ids(&golden[&format!("{tag}.prompt")])).unwrap().to_vec();
                let expected = ids(expected);
                let v = found.len();
                for id in &expected[..expected.len() - 1] {
                    found.extend_from_slice(state.extend(&[*id]).unwrap());
                }
                let picked: Vec<u32> = found.chunks(v).map(argmax).collect();
                assert_eq!(picked, expected, "{isa} {name} {tag}");
                let golden = values(&golden[&format!("{tag}.logits")]);
                expect_close(&format!("{isa} {name} {tag}"), &found, &golden, LOGITS);
                compared += 1;
            }
            assert!(compared > 0, "{name} has no case");
        }
    }
}

fn window(case: &Value) -> Window {
    let number = |key: &str| case[key].as_u64().unwrap() as usize;
    let size = match number("kv_window") {
        0 => WHOLE.size,
        size => size,
    };
    Window {
        size,
        sinks: number("sink_len"),
    }
}

#[test]
fn generation_three_is_refused_by_name() {
    let checkpoint = needle_core::Checkpoint::open(&golden::path("gen3/checkpoints/a64.safetensors")).unwrap();
    let error = CpuModel::load(&checkpoint.config, &checkpoint.weights)
        .unwrap_err()
        .to_string();
    assert!(error.contains("Needle 3"), "{error}");
}
