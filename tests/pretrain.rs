//! A model from nothing, with its heads, as one archive.

use needle_core::{
    Checkpoint, DeviceSpec, Engine, Flow,
    checkpoint::BitMap,
    course::Start,
    data::Dataset,
    pretrain::{HeadRecipe, Pretrain, Recipe, train_confidence, train_contrastive},
    retrieval,
};

use crate::scratch::Scratch;

const RECIPE: &str = r#"{
    "model": {
        "d_model": 64, "num_heads": 4, "num_kv_heads": 2, "num_layers": 2, "max_seq_len": 512, "mhc_lanes": 2,
        "engram_orders": [2, 3], "engram_heads": 1, "engram_slots": 64, "engram_layers": [1]
    },
    "tokenizer": { "learnt": { "vocab_size": 600, "coverage": 1.0 } },
    "steps": 12, "batch_size": 4, "learning_rate": 0.01, "max_len": 500, "val_split": 0.1
}"#;

fn data() -> Dataset {
    let lines: Vec<_> = include_str!("../examples/finetune.jsonl").lines().take(40).collect();
    Dataset::read(lines.join("\n").as_bytes(), "sample").unwrap()
}

fn trained() -> (Checkpoint, Dataset, f64, f64) {
    let data = data();
    let run = Pretrain::prepare(Recipe::parse(RECIPE).unwrap(), &data).unwrap();
    assert_eq!(run.counts().2, 0);
    let ended = run
        .course()
        .run(&DeviceSpec::Cpu.open().unwrap(), Start::Anew, None, |_| Flow::Continue)
        .unwrap();
    let losses = ended.history.losses();
    (
        ended.trainer.checkpoint().unwrap(),
        data,
        losses[0].1,
        losses[losses.len() - 1].1,
    )
}

#[test]
fn the_loss_falls_and_the_heads_go_into_the_archive() {
    let (mut model, data, first, last) = trained();
    assert!(
        (first - 600f64.ln()).abs() < 0.5,
        "an untrained model knows nothing: {first}"
    );
    assert!(last < first - 1.0, "{first} to {last}");
    let head = HeadRecipe {
        steps: 6,
        batch_size: 8,
        width: 16,
        ..HeadRecipe::default()
    };
    let mut losses = vec![];
    train_contrastive(&mut model, &data.rows, &head, 1, |progress| losses.push(progress.loss)).unwrap();
    assert!(losses.len() == 6 && losses[5] < losses[0], "{losses:?}");

    let folder = Scratch::new("pretrain-1");
    let path = folder.join("model.cact");
    model.save_cact(&path, &BitMap::parse("4").unwrap()).unwrap();
    let engine = Engine::open(&path, DeviceSpec::Cpu).unwrap();
    let vector = retrieval::embed(&engine, "open the gate").unwrap();
    let length: f32 = vector.iter().map(|x| x * x).sum();
    assert!(vector.len() == 16 && (length - 1.0).abs() < 1e-3);
    assert!(!engine.runner().has_confidence());

    let checkpoint = folder.join("model.safetensors");
    model.save_safetensors(&checkpoint).unwrap();
    assert!(
        Checkpoint::open(&checkpoint)
            .unwrap()
            .weights
            .get("heads.contrastive.probes")
            .is_ok()
    );
}

#[test]
fn a_confidence_head_needs_right_and_wrong_answers() {
    let (mut model, data, ..) = trained();
    let head = HeadRecipe {
        steps: 2,
        ..HeadRecipe::default()
    };
    let refused = train_confidence(&mut model, &data.rows[..4], &head, 1, |_| {})
        .err()
        .unwrap()
        .to_string();
    assert!(refused.contains("nothing to tell apart"), "{refused}");
    let mut demo = Checkpoint::demo().unwrap();
    let mut steps = 0;
    let share = train_confidence(&mut demo, &data.rows, &head, 1, |_| steps += 1).unwrap();
    assert!(steps == 2 && share > 0.0 && share < 1.0);
    assert!(demo.weights.get("heads.confidence.bias").is_ok());
}

#[test]
fn a_recipe_s_faults_are_named() {
    let fault = |from: &str, to: &str| Recipe::parse(&RECIPE.replace(from, to)).err().unwrap();
    assert!(fault("\"steps\": 12, ", "").contains("steps"));
    assert!(fault("val_split", "val_spilt").contains("val_spilt"));
    let long = Recipe::parse(&RECIPE.replace("\"max_len\": 500", "\"max_len\": 600")).unwrap();
    let error = Pretrain::prepare(long, &data()).err().unwrap().to_string();
    assert!(error.contains("max_seq_len"), "{error}");
}
