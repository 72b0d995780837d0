//! Whole passes: logits, hidden cells, padded and packed batches.

use candle_core::{DType, Device, Tensor};
use needle_core::ops::Mask;

use super::{LOGITS, expect_close, keep, mask, model, model_in, rows};
use crate::golden;

const MODELS: [&str; 3] = ["a64", "b96", "c48"];

#[test]
fn logits_and_cells_of_every_length() {
    for name in MODELS {
        let model = model(&format!("gen2/checkpoints/{name}.safetensors"));
        let golden = golden::tensors(&format!("gen2/forward/{name}.safetensors"));
        for t in [1, 7, 33, 90] {
            let tokens = rows(&golden[&format!("len{t}.tokens")]);
            let logits = model.forward(&tokens, &Mask::causal(t)).unwrap();
            expect_close(
                &format!("{name} len{t}"),
                &logits,
                &golden[&format!("len{t}.logits")],
                LOGITS,
            );
        }
        let cells = model.cells(&rows(&golden["len33.tokens"]), &Mask::causal(33)).unwrap();
        expect_close(&format!("{name} len33 cells"), &cells, &golden["len33.cells"], LOGITS);
    }
}

#[test]
fn padded_batches_on_either_side() {
    for name in MODELS {
        let model = model(&format!("gen2/checkpoints/{name}.safetensors"));
        let golden = golden::tensors(&format!("gen2/forward/{name}.safetensors"));
        for side in ["right_pad", "left_pad"] {
            let tokens = rows(&golden[&format!("{side}.tokens")]);
            let kept = &golden[&format!("{side}.keep")];
            let causal = model.forward(&tokens, &Mask::causal(24)).unwrap();
            expect_close(
                &format!("{name} {side} causal"),
                &causal,
                &golden[&format!("{side}.logits_causal")],
                LOGITS,
            );
            let masked = model.forward(&tokens, &Mask::padded(&keep(kept))).unwrap();
            let masked = blank(&masked, kept);
            expect_close(
                &format!("{name} {side} masked"),
                &masked,
                &golden[&format!("{side}.logits_masked")],
                LOGITS,
            );
        }
    }
}

#[test]
fn two_documents_packed_into_one_row() {
    for name in MODELS {
        let model = model(&format!("gen2/checkpoints/{name}.safetensors"));
        let golden = golden::tensors(&format!("gen2/forward/{name}.safetensors"));
        let tokens = rows(&golden["packed.tokens"]);
        let in_document = golden["packed.seg_ids"].gt(0i32).unwrap();
        for case in ["plain", "window6", "window6_prefix"] {
            let mask = mask(&golden[&format!("packed.{case}.mask")]);
            let logits = blank(&model.forward(&tokens, &mask).unwrap(), &in_document);
            expect_close(
                &format!("{name} packed {case}"),
                &logits,
                &golden[&format!("packed.{case}.logits")],
                LOGITS,
            );
        }
    }
}

#[test]
fn half_precision_weights_load_and_run() {
    for (dtype, limit) in [(DType::F16, 0.02), (DType::BF16, 0.15)] {
        for name in MODELS {
            let model = model_in(&format!("gen2/checkpoints/{name}.safetensors"), dtype);
            let golden = golden::tensors(&format!("gen2/forward/{name}.safetensors"));
            let logits = model
                .forward(&rows(&golden["len33.tokens"]), &Mask::causal(33))
                .unwrap();
            assert_eq!(logits.dtype(), dtype);
            expect_close(&format!("{name} {dtype:?}"), &logits, &golden["len33.logits"], limit);
        }
    }
}

/// Rows of padding set to zero, as in the goldens: nothing may depend on them.
fn blank(logits: &Tensor, keep: &Tensor) -> Tensor {
    let keep = keep.to_dtype(DType::F32).unwrap().unsqueeze(2).unwrap();
    logits.to_device(&Device::Cpu).unwrap().broadcast_mul(&keep).unwrap()
}
