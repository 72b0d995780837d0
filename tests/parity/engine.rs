//! The engine for the CPU against the same goldens as the tensors, and against the tensors themselves.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use needle_core::{
    Checkpoint, Session, Window,
    cpu::{CpuModel, CpuOptions, CpuState, Isa, Numerics, ProbeHead, decode_batch},
    ops::Mask,
};

use super::{LOGITS, expect_close, model, rows};
use crate::golden;

const WINDOW: Window = Window { size: 256, sinks: 0 };

fn engine(relative: &str, isa: Isa) -> Arc<CpuModel> {
    let Checkpoint { config, weights, .. } = Checkpoint::open(&golden::path(relative)).unwrap();
    Arc::new(
        CpuModel::load_with(
            &config,
            &weights,
            CpuOptions {
                isa,
                numerics: Numerics::Exact,
                ..CpuOptions::default()
            },
        )
        .unwrap(),
    )
}

/// Every instruction set that this processor has, the portable one last: what is left when features are masked.
#[test]
fn logits_of_checkpoints_and_archives_on_every_instruction_set() {
    for isa in Isa::all() {
        for name in ["a64", "b96", "c48"] {
            let engine = engine(&format!("gen2/checkpoints/{name}.safetensors"), isa);
            let golden = golden::tensors(&format!("gen2/forward/{name}.safetensors"));
            for t in [1, 7, 33, 90] {
                let tokens = rows(&golden[&format!("len{t}.tokens")]);
                let found = Session::on_cpu(&engine, WINDOW)
                    .unwrap()
                    .extend_all(&tokens[0])
                    .unwrap();
                let found = Tensor::new(vec![found], &Device::Cpu).unwrap();
                expect_close(
                    &format!("{isa} {name} len{t}"),
                    &found,
                    &golden[&format!("len{t}.logits")],
                    LOGITS,
                );
            }
        }
        for name in ["a64_mixed", "b96_mixed_group32", "c48_w2", "tok64_w2", "tok64_w4"] {
            let engine = engine(&format!("gen2/cact/{name}.cact"), isa);
            let golden = golden::tensors(&format!("gen2/cact/{name}.logits.safetensors"));
            let tokens = rows(&golden["len33.tokens"]);
            let (_, last, _) = golden["len33.logits"].dims3().unwrap();
            let found = Session::on_cpu(&engine, WINDOW)
                .unwrap()
                .extend_all(&tokens[0])
                .unwrap();
            let found = Tensor::new(vec![found[33 - last..].to_vec()], &Device::Cpu).unwrap();
            expect_close(&format!("{isa} {name}"), &found, &golden["len33.logits"], LOGITS);
        }
    }
}

#[test]
fn greedy_continuations_through_every_window() {
    for name in ["a64", "b96", "c48"] {
        let engine = engine(&format!("gen2/checkpoints/{name}.safetensors"), Isa::detect());
        let golden = golden::tensors(&format!("gen2/decode/{name}.safetensors"));
        let ids = |key: String| -> Vec<u32> {
            golden[&key]
                .to_vec1::<i32>()
                .unwrap()
                .into_iter()
                .map(|id| id as u32)
                .collect()
        };
        for (case, size, sinks) in [
            ("full_p9", 256, 0),
            ("full_p24", 256, 0),
            ("window16_p24", 16, 0),
            ("window16_sink7_p24", 16, 7),
            ("window6_p12", 6, 0),
        ] {
            if !golden.contains_key(&format!("{case}.ids")) {
                assert_ne!(name, "a64");
                continue;
            }
            let mut session = Session::on_cpu(&engine, Window { size, sinks }).unwrap();
            let mut found = vec![session.extend(&ids(format!("{case}.prompt"))).unwrap()];
            for id in &ids(format!("{case}.ids"))[..47] {
                found.push(session.extend(&[*id]).unwrap());
            }
            let picked = Tensor::new(found, &Device::Cpu).unwrap();
            expect_close(
                &format!("{name} {case}"),
                &picked,
                &golden[&format!("{case}.logits")],
                LOGITS,
            );
            assert_eq!(
                picked.argmax(1).unwrap().to_vec1::<u32>().unwrap(),
                ids(format!("{case}.ids")),
                "{name} {case}"
            );
        }
    }
}

#[test]
fn a_result_depends_neither_on_cuts_nor_on_neighbours() {
    let engine = engine("gen2/cact/a64_mixed.cact", Isa::detect());
    let tokens: Vec<u32> = (0..40u32).map(|i| (i * 7919 + 13) % 160).collect();
    let at_once = Session::on_cpu(&engine, WINDOW).unwrap().extend_all(&tokens).unwrap();
    let mut single = Session::on_cpu(&engine, WINDOW).unwrap();
    for (position, &token) in tokens.iter().enumerate() {
        assert_eq!(
            single.extend(&[token]).unwrap(),
            at_once[position],
            "position {position}"
        );
    }
    let mut states: Vec<CpuState> = (0..3).map(|_| CpuState::new(&engine, WINDOW).unwrap()).collect();
    for (position, &token) in tokens.iter().enumerate() {
        let mut batch: Vec<&mut CpuState> = states.iter_mut().collect();
        decode_batch(&mut batch, &[token, token, 5]).unwrap();
        assert_eq!(states[0].logits(), at_once[position]);
        assert_eq!(states[1].logits(), at_once[position]);
    }
}

#[test]
fn heads_pool_as_they_go() {
    for name in ["a64_mixed", "tok64_w4"] {
        let relative = format!("gen2/cact/{name}.cact");
        let (engine, tensors) = (engine(&relative, Isa::detect()), model(&relative));
        let tokens: Vec<u32> = (0..30u32).map(|i| (i * 31 + 7) % 150).collect();
        let (batch, keep, mask) = (vec![tokens.clone()], vec![vec![true; 30]], Mask::causal(30));
        for (head, golden) in [
            (
                ProbeHead::Contrastive,
                tensors
                    .contrastive(&batch, &keep, &mask)
                    .unwrap()
                    .unwrap()
                    .squeeze(0)
                    .unwrap(),
            ),
            (
                ProbeHead::Confidence,
                tensors.confidence(&batch, &keep, &mask).unwrap().unwrap(),
            ),
        ] {
            let mut state = CpuState::new(&engine, WINDOW).unwrap();
            state.watch(head).unwrap();
            state.absorb(&tokens).unwrap();
            let found = Tensor::new(state.verdict().unwrap(), &Device::Cpu).unwrap();
            expect_close(&format!("{name} {head:?}"), &found, &golden, 1e-5);
        }
    }
}
