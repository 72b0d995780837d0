//! What an adapter may stand on: a packed archive, a model in half precision.

use candle_core::{D, DType, Device, Tensor};
use needle_core::{
    Checkpoint, Model,
    ops::Mask,
    train::{Form, Row, Trainer},
};

use super::{cpu, options, rows, start, tok64};
use crate::golden;

fn batch() -> Vec<Row> {
    let golden = golden::tensors("gen2/training/loss_and_grads.safetensors");
    rows(&golden["batch.ids"], &golden["batch.mask"], 160)
}

/// The mean cross-entropy of the scored ids by the model that answers.
fn loss(checkpoint: &Checkpoint, rows: &[Row]) -> f64 {
    let model = Model::load(&checkpoint.config, &checkpoint.weights, DType::F32, &Device::Cpu).unwrap();
    let (mut sum, mut count) = (0.0, 0);
    for Row { ids, target_start } in rows {
        let logits = model
            .forward(std::slice::from_ref(ids), &Mask::causal(ids.len()))
            .unwrap();
        let log_p = log_softmax(&logits.squeeze(0).unwrap()).to_vec2::<f32>().unwrap();
        for at in *target_start..ids.len() {
            sum -= f64::from(log_p[at - 1][ids[at] as usize]);
            count += 1;
        }
    }
    sum / f64::from(count)
}

fn log_softmax(logits: &Tensor) -> Tensor {
    let total = logits.exp().unwrap().sum_keepdim(D::Minus1).unwrap().log().unwrap();
    logits.broadcast_sub(&total).unwrap()
}

#[test]
fn a_fresh_adapter_changes_nothing_of_float_and_packed_models() {
    let rows = batch();
    for file in [
        "checkpoints/tok64.safetensors",
        "cact/tok64_w4.cact",
        "cact/tok64_w2.cact",
    ] {
        let checkpoint = Checkpoint::open(&golden::path(&format!("gen2/{file}"))).unwrap();
        let trainer = Trainer::new(&checkpoint, &cpu(), options(1)).unwrap();
        let (found, expected) = (trainer.evaluate(&rows).unwrap(), loss(&checkpoint, &rows));
        assert!((found - expected).abs() < 1e-4, "{file}: {found}, {expected}");
    }
}

#[test]
fn gradients_on_a_base_in_half_precision_point_the_same_way() {
    let golden = golden::tensors("gen2/training/loss_and_grads.safetensors");
    let rows = batch();
    let rows: Vec<&Row> = rows.iter().collect();
    let of = |dtype| {
        let mut selected = cpu();
        selected.dtype = dtype;
        let mut options = options(1);
        options.form = Form::Composed;
        let mut trainer = Trainer::new(&tok64(), &selected, options).unwrap();
        start(&mut trainer, &golden, "adapter/");
        trainer.loss_and_gradients(&rows).unwrap()
    };
    let ((loss, gradients), (half_loss, halves)) = (of(DType::F32), of(DType::BF16));
    assert!((loss - half_loss).abs() < 0.05, "{loss}, {half_loss}");
    let sum = |x: &Tensor, y: &Tensor| (x * y).unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap();
    let all = |x: &[Tensor], y: &[Tensor]| x.iter().zip(y).map(|(x, y)| sum(x, y)).sum::<f32>();
    assert!(halves.iter().all(|half| half.dtype() == DType::F32));
    let cosine = all(&gradients, &halves) / (all(&gradients, &gradients) * all(&halves, &halves)).sqrt();
    assert!(cosine > 0.98, "{cosine}");
}
