//! Gradients against finite differences, for every kind of parameter of models with every kind of layer.

use candle_core::{DType, Tensor};
use needle_core::{
    Checkpoint,
    train::{Activations, Form, Row, TrainOptions, Trainable, Trainer},
    weights::{Dense, Weight},
};

use super::cpu;
use crate::golden;

fn checkpoint(name: &str) -> Checkpoint {
    Checkpoint::open(&golden::path(&format!("gen2/checkpoints/{name}.safetensors"))).unwrap()
}

/// Two rows of made-up ids, the first with a prompt.
fn batch(vocabulary: usize) -> Vec<Row> {
    let ids = |length: usize, step: usize| (0..length).map(|at| ((at * step + 7) % vocabulary) as u32).collect();
    vec![
        Row {
            ids: ids(19, 13),
            target_start: 6,
        },
        Row::text(ids(11, 29)),
    ]
}

fn trainer(checkpoint: &Checkpoint, trainable: Trainable, activations: Activations) -> Trainer {
    let options = TrainOptions {
        activations,
        ..TrainOptions::new(trainable, 4)
    };
    Trainer::new(checkpoint, &cpu(), options).unwrap()
}

/// `checkpoint` with `direction` times `step` added to the tensor `name`.
fn moved(checkpoint: &Checkpoint, name: &str, direction: &Tensor, step: f64) -> Checkpoint {
    let mut moved = checkpoint.clone();
    let weight = checkpoint
        .weights
        .get(name)
        .unwrap()
        .to_tensor(DType::F32, direction.device())
        .unwrap();
    let weight = (weight + (direction * step).unwrap()).unwrap();
    let values = weight.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    moved
        .weights
        .insert(name, Weight::Dense(Dense::from_f32(&values, weight.dims())));
    moved
}

#[test]
fn every_tensor_of_every_model() {
    let mut wrong = vec![];
    for model in ["a64", "b96", "c48"] {
        let checkpoint = checkpoint(model);
        let rows = batch(checkpoint.config.vocab_size);
        let rows_by: Vec<&Row> = rows.iter().collect();
        let trained = trainer(&checkpoint, Trainable::Everything, Activations::Recomputed);
        let (_, gradients) = trained.loss_and_gradients(&rows_by).unwrap();
        for (name, gradient) in trained.parameter_names().iter().zip(&gradients) {
            // Along the gradient itself, whose slope is its squared norm; a step that moves the loss by about 0.02.
            let square = f64::from(gradient.sqr().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap());
            let norm = square.sqrt();
            if norm < 1e-6 {
                println!("{model} {name}: no gradient");
                continue;
            }
            let direction = (gradient / norm).unwrap();
            let step = (0.02 / norm).min(0.05);
            let loss = |step: f64| {
                let moved = moved(&checkpoint, name, &direction, step);
                trainer(&moved, Trainable::Everything, Activations::Recomputed)
                    .evaluate(&rows)
                    .unwrap()
            };
            // Two central differences, so that the third derivative falls out.
            let slope = |step: f64| (loss(step) - loss(-step)) / (2.0 * step);
            let slope = (4.0 * slope(step / 2.0) - slope(step)) / 3.0;
            let apart = (slope - norm).abs() / norm;
            println!("{model} {name}: gradient {norm:.3e}, difference {apart:.1e}");
            let noise = 3e-6 / step / norm;
            if apart > 5e-3 + noise {
                wrong.push(format!(
                    "{model} {name}: {slope:.4e} along the gradient, expected {norm:.4e}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn both_forms_kept_or_recomputed_are_the_same() {
    for model in ["a64", "b96", "c48"] {
        let checkpoint = checkpoint(model);
        let rows = batch(checkpoint.config.vocab_size);
        let rows: Vec<&Row> = rows.iter().collect();
        for trainable in [Trainable::Everything, Trainable::Adapter(super::SHAPE)] {
            let of = |form, activations| {
                let options = TrainOptions {
                    form,
                    activations,
                    ..TrainOptions::new(trainable.clone(), 4)
                };
                let trainer = Trainer::new(&checkpoint, &cpu(), options).unwrap();
                let names = trainer.parameter_names().to_vec();
                (names, trainer.loss_and_gradients(&rows).unwrap())
            };
            let (names, (loss, gradients)) = of(Form::Composed, Activations::Recomputed);
            for (form, activations) in [
                (Form::Composed, Activations::Kept),
                (Form::Fused, Activations::Kept),
                (Form::Fused, Activations::Recomputed),
            ] {
                let (_, (other_loss, others)) = of(form, activations);
                assert!((loss - other_loss).abs() < 1e-5, "{model}: {loss}, {other_loss}");
                for ((name, gradient), other) in names.iter().zip(&gradients).zip(&others) {
                    let largest = |t: &Tensor| t.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
                    let apart = largest(&(gradient - other).unwrap());
                    let limit = 2e-4 * largest(gradient) + 1e-6;
                    assert!(
                        apart < limit,
                        "{model} {form:?} {activations:?} {name}: {apart:.1e}, at most {limit:.1e}"
                    );
                }
            }
        }
    }
}

#[test]
fn rows_do_not_see_each_other() {
    let checkpoint = checkpoint("a64");
    let rows = batch(checkpoint.config.vocab_size);
    let trainer = trainer(&checkpoint, Trainable::Adapter(super::SHAPE), Activations::Recomputed);
    let alone = |at: usize| trainer.evaluate(&rows[at..=at]).unwrap() * rows[at].scored() as f64;
    let scored: usize = rows.iter().map(Row::scored).sum();
    let together = trainer.evaluate(&rows).unwrap() * scored as f64;
    assert!((alone(0) + alone(1) - together).abs() < 1e-3, "{together}");
}
