//! `needle finetune` and `needle train`: what they write, what they print, and how they refuse.

use std::fs;

use serde_json::Value;

use super::{folder::Folder, needle, snapshot, stdout};

/// The first lines of the sample data, as a file.
fn data(folder: &Folder, lines: usize) -> String {
    let all = fs::read_to_string(super::repository().join("examples/finetune.jsonl")).unwrap();
    let some: String = all.lines().take(lines).map(|line| format!("{line}\n")).collect();
    let path = folder.file("data.jsonl");
    fs::write(&path, some).unwrap();
    path
}

fn json(arguments: &[&str]) -> Value {
    let output = needle(arguments, "");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn a_run_writes_its_files_and_the_archive_serves() {
    let folder = Folder::new("finetune");
    let (rows, out) = (data(&folder, 12), folder.file("tuned.safetensors"));
    let run = ["finetune", &rows, "-m", "demo", "--epochs", "1", "--out", &out];
    let outcome = json(&[&run[..], &["--batch-size", "4", "--val-split", "0.25", "--json"]].concat());
    assert_eq!(outcome["steps"], 3);
    assert_eq!(outcome["held_out"], 3);
    for side in ["before", "after"] {
        assert_eq!(outcome["scores"][side]["overall"]["exact"]["n"], 3, "{outcome}");
    }
    let files = [
        "data.jsonl",
        "tuned.cact",
        "tuned.cact.json",
        "tuned.metrics.jsonl",
        "tuned.report.html",
        "tuned.safetensors",
    ];
    assert_eq!(folder.names(), files);
    let metrics = fs::read_to_string(folder.file("tuned.metrics.jsonl")).unwrap();
    assert_eq!(metrics.lines().count(), 4, "three steps and a look");
    let record: Value = serde_json::from_str(&fs::read_to_string(folder.file("tuned.cact.json")).unwrap()).unwrap();
    assert!(
        record["tools"]
            .as_object()
            .is_some_and(|tools| tools.contains_key("rent_boat")),
        "{record}"
    );

    let archive = folder.file("tuned.cact");
    let ask = [
        "run",
        "-m",
        &archive,
        "-t",
        "examples/boathouse.json",
        "--json",
        "the east gate is stuck",
    ];
    assert_eq!(json(&ask)["success"], true);
    let adapter = json(&["inspect", &out, "--json"]);
    assert_eq!(adapter["rank"], 16, "{adapter}");
}

#[test]
fn a_dry_run_says_what_would_be_and_writes_nothing() {
    let folder = Folder::new("finetune-dry");
    let (rows, out) = (data(&folder, 8), folder.file("tuned.safetensors"));
    let plan = json(&[
        "finetune",
        &rows,
        "-m",
        "demo",
        "--dry-run",
        "--json",
        "--batch-size",
        "3",
        "--out",
        &out,
    ]);
    assert_eq!(
        (&plan["plan"]["rows"], &plan["plan"]["held_out"]),
        (&7.into(), &1.into())
    );
    assert_eq!(
        (&plan["plan"]["steps"], &plan["plan"]["groups"]),
        (&9.into(), &25.into())
    );
    assert!(plan["trial"]["step_ms"].as_f64().is_some_and(|time| time > 0.0));
    assert_eq!(folder.names(), ["data.jsonl"]);
}

#[test]
fn an_interrupted_run_is_neither_lost_nor_resumed_by_accident() {
    let folder = Folder::new("finetune-resume");
    let (rows, out) = (data(&folder, 4), folder.file("tuned.safetensors"));
    let run = ["finetune", &rows, "-m", "demo", "-q", "--out", &out];
    snapshot("finetune_nothing_to_resume", &[&run[..], &["--resume"]].concat(), "");
    fs::write(folder.file("tuned.state"), "not a state").unwrap();
    snapshot("finetune_interrupted", &run, "");
    snapshot("finetune_bad_state", &[&run[..], &["--resume"]].concat(), "");
    assert_eq!(fs::read_to_string(folder.file("tuned.state")).unwrap(), "not a state");
}

#[test]
fn what_is_read_is_never_replaced() {
    let folder = Folder::new("finetune-apart");
    let rows = data(&folder, 4);
    let base = folder.file("base.cact");
    fs::copy(super::repository().join("crates/needle-core/assets/demo.cact"), &base).unwrap();
    let out = |name: &str| folder.file(name);
    snapshot(
        "finetune_over_data",
        &["finetune", &rows, "-m", "demo", "--out", &rows],
        "",
    );
    snapshot(
        "finetune_over_base",
        &["finetune", &rows, "-m", &base, "--out", &out("base.safetensors")],
        "",
    );
    snapshot(
        "finetune_twice",
        &["finetune", &rows, "-m", "demo", "--out", &out("a.cact")],
        "",
    );
    snapshot(
        "finetune_no_folder",
        &["finetune", &rows, "-m", "demo", "--out", &out("none/a.safetensors")],
        "",
    );
    snapshot(
        "train_over_data",
        &["train", &rows, "--config", "examples/train.json", "--out", &rows],
        "",
    );
    assert_eq!(folder.names(), ["base.cact", "data.jsonl"]);
}

#[test]
fn what_cannot_be_trained_is_refused_in_a_line() {
    let folder = Folder::new("finetune-refused");
    let rows = folder.file("data.jsonl");
    fs::write(&rows, "{\"query\": 1}\n\nnot json\n").unwrap();
    snapshot("finetune_no_rows", &["finetune", &rows, "-m", "demo"], "");
    snapshot("finetune_no_file", &["finetune", "missing.jsonl", "-m", "demo"], "");
    let rows = data(&folder, 4);
    let stop = [
        "finetune",
        &rows,
        "-m",
        "demo",
        "-q",
        "--val-split",
        "0",
        "--early-stop",
        "2",
        "--out",
    ];
    snapshot(
        "finetune_no_held_out",
        &[&stop[..], &[&folder.file("a.safetensors")]].concat(),
        "",
    );
    snapshot(
        "finetune_bad_bits",
        &["finetune", &rows, "-m", "demo", "--bits", "9"],
        "",
    );
}

#[test]
fn a_recipe_becomes_a_model_with_its_tokenizer_and_archive() {
    let folder = Folder::new("train");
    let (rows, recipe, out) = (
        data(&folder, 40),
        folder.file("recipe.json"),
        folder.file("model.safetensors"),
    );
    let text = r#"{
        "model": { "d_model": 64, "num_heads": 4, "num_kv_heads": 2, "num_layers": 2, "max_seq_len": 512, "mhc_lanes": 2,
                   "engram_heads": 1, "engram_slots": 64, "engram_layers": [1] },
        "tokenizer": { "learnt": { "vocab_size": 600, "coverage": 1.0 } },
        "steps": 4, "batch_size": 4, "max_len": 500, "val_split": 0.1, "contrastive": { "steps": 2, "width": 16 }
    }"#;
    fs::write(&recipe, text).unwrap();
    let outcome = json(&["train", &rows, "--config", &recipe, "--out", &out, "--json", "-q"]);
    assert_eq!(outcome["steps"], 4);
    let files = [
        "data.jsonl",
        "model.cact",
        "model.metrics.jsonl",
        "model.safetensors",
        "model.tokenizer.model",
        "recipe.json",
    ];
    assert_eq!(folder.names(), files);
    let tokenizer = folder.file("model.tokenizer.model");
    let archive = folder.file("model.cact");
    let pieces = |model: &str| stdout(&needle(&["tokenize", "-m", model, "the east gate"], ""));
    assert_eq!(pieces(&tokenizer), pieces(&archive));
    assert_eq!(
        json(&["inspect", &archive, "--json"])["heads"],
        serde_json::json!(["contrastive"])
    );

    fs::write(&recipe, text.replace("\"steps\": 4", "\"stops\": 4")).unwrap();
    snapshot(
        "train_bad_recipe",
        &["train", &rows, "--config", &recipe, "--out", &out],
        "",
    );
}
