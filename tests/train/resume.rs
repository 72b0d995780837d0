//! Runs that stop and go on, and runs that are repeated.

use needle_core::{
    Checkpoint, Error,
    train::{Row, Trainer, epoch_order},
};

use super::{cpu, options, rows, tok64, values};
use crate::golden;

fn data() -> Vec<Row> {
    let golden = golden::tensors("gen2/training/loss_and_grads.safetensors");
    rows(&golden["batch.ids"], &golden["batch.mask"], 160)
}

/// Takes the steps `from..to` of a run over `rows` in batches of two.
fn take(trainer: &mut Trainer, rows: &[Row], from: usize, to: usize) -> Vec<f64> {
    let per_epoch = rows.len() / 2;
    let batch = |step: usize| {
        let order = epoch_order(3, (step / per_epoch) as u64, rows.len());
        order[step % per_epoch * 2..][..2].to_vec()
    };
    (from..to)
        .map(|step| {
            trainer
                .step(&batch(step).iter().map(|&at| &rows[at]).collect::<Vec<_>>())
                .unwrap()
                .loss
        })
        .collect()
}

fn bits(trainer: &Trainer) -> Vec<u32> {
    let adapter = trainer.adapter().unwrap();
    let factors = adapter.pairs.values().flat_map(|(a, b)| [values(a), values(b)]);
    factors.flatten().map(f32::to_bits).collect()
}

#[test]
fn six_steps_and_six_more_are_twelve() {
    let rows = data();
    let new = || Trainer::new(&tok64(), &cpu(), options(12)).unwrap();
    let mut whole = new();
    let losses = take(&mut whole, &rows, 0, 12);
    let mut again = new();
    assert_eq!(take(&mut again, &rows, 0, 12), losses);
    assert_eq!(bits(&again), bits(&whole));

    let folder = super::adapters::folder("resume");
    let path = folder.join("state.safetensors");
    let mut first = new();
    let mut found = take(&mut first, &rows, 0, 6);
    first.save_state(&path).unwrap();
    drop(first);
    let mut second = Trainer::resume(&tok64(), &cpu(), options(12), &path).unwrap();
    assert_eq!(second.steps_taken(), 6);
    found.extend(take(&mut second, &rows, 6, 12));
    assert_eq!(found, losses);
    assert_eq!(bits(&second), bits(&whole));
    assert!(losses[11] < losses[0] - 0.3, "{losses:?}");
    assert!(second.step(&[&rows[0]]).unwrap_err().to_string().contains("12 steps"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn another_run_s_state_is_refused() {
    let folder = super::adapters::folder("refused");
    let path = folder.join("state.safetensors");
    let trainer = Trainer::new(&tok64(), &cpu(), options(12)).unwrap();
    trainer.save_state(&path).unwrap();
    let resume = |options| Trainer::resume(&tok64(), &cpu(), options, &path).map(drop).unwrap_err();
    let mut seed = options(12);
    seed.seed = 1;
    for (other, word) in [(options(13), "total_steps"), (seed, "seed")] {
        let error = resume(other);
        assert!(matches!(&error, Error::Format { .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    let other_base = Checkpoint::open(&golden::path("gen2/cact/tok64_w4.cact")).unwrap();
    let error = Trainer::resume(&other_base, &cpu(), options(12), &path)
        .map(drop)
        .unwrap_err();
    assert!(error.to_string().contains("another base"), "{error}");
    std::fs::write(&path, b"{}").unwrap();
    assert!(matches!(resume(options(12)), Error::Format { .. }));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn batches_that_teach_nothing_are_refused() {
    let mut trainer = Trainer::new(&tok64(), &cpu(), options(2)).unwrap();
    let refused = |trainer: &mut Trainer, row: Row| trainer.step(&[&row]).unwrap_err().to_string();
    assert!(trainer.step(&[]).is_err());
    let prompt_only = Row {
        ids: vec![2, 5, 6],
        target_start: 3,
    };
    assert!(refused(&mut trainer, prompt_only).contains("nothing to learn"));
    assert!(refused(&mut trainer, Row::text(vec![2, 8192])).contains("8192"));
    assert_eq!(trainer.steps_taken(), 0);
}
