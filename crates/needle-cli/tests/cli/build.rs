//! `needle build`: what it prints, what it writes, and what serving says afterwards.

use std::fs;

use serde_json::Value;

use super::{folder::Folder, needle, snapshot, stdout};

const CHECKPOINT: &str = "tests/golden/gen2/checkpoints/tok64.safetensors";
const TOKENIZER: &str = "tests/golden/gen2/tokenizer.model";
const ADAPTER: &str = "tests/golden/gen2/training/adapter.protocol4.pkl";
const QAT_ADAPTER: &str = "tests/golden/gen2/training/finetune.adapter.pkl";

fn record(folder: &Folder, archive: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.file(&format!("{archive}.json"))).unwrap()).unwrap()
}

#[test]
fn a_checkpoint_becomes_the_oracles_archive() {
    let folder = Folder::new("build-archive");
    let out = folder.file("tuned.cact");
    snapshot(
        "build",
        &["build", CHECKPOINT, "--tokenizer", TOKENIZER, "--out", &out],
        "",
    );
    let golden = super::repository().join("tests/golden/gen2/cact/tok64_w4.cact");
    assert!(fs::read(&out).unwrap() == fs::read(golden).unwrap());
    assert_eq!(folder.names(), ["tuned.cact", "tuned.cact.json"]);
    let record = record(&folder, "tuned.cact");
    assert_eq!((&record["bits"], &record["tools"]), (&"4".into(), &Value::Null));
    assert_eq!(record["base"]["file"], "tok64.safetensors");
    assert_eq!(record["base"]["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn adapters_maps_and_heads() {
    let folder = Folder::new("build-adapter");
    let (out, float) = (folder.file("small.cact"), folder.file("float.safetensors"));
    let arguments = [
        "build",
        CHECKPOINT,
        "--tokenizer",
        TOKENIZER,
        "--adapter",
        ADAPTER,
        "--adapter",
        ADAPTER,
        "--safetensors",
        &float,
        "--out",
        &out,
    ];
    let output = needle(&arguments, "");
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("note: the heads are the base's own")
    );
    assert_eq!(record(&folder, "small.cact")["adapters"].as_array().unwrap().len(), 2);

    // The float model with its adapters is a base like any other, and a map may lie in a file.
    let map = folder.file("map.txt");
    fs::write(&map, "default=2\nembedding=4\n").unwrap();
    let arguments = [
        "build",
        &float,
        "--tokenizer",
        &out,
        "--bits",
        &map,
        "--no-heads",
        "--out",
        &out,
        "--json",
    ];
    let output = needle(&arguments, "");
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["bits"], "default=2,embedding=4");
    assert_eq!(report["heads"], serde_json::json!([]));
    let record = record(&folder, "small.cact");
    assert_eq!(record["archive"]["sha256"], report["sha256"]);
    assert_eq!(record["adapters"], serde_json::json!([]));
}

#[test]
fn mistakes_are_named_before_anything_is_written() {
    let folder = Folder::new("build-mistakes");
    let out = folder.file("x.cact");
    for (name, arguments) in [
        ("build_no_tokenizer", vec![CHECKPOINT]),
        ("build_unknown_rule", vec!["demo", "--bits", "default=4,atn=2"]),
        ("build_bad_bits", vec!["demo", "--bits", "5"]),
        (
            "build_other_bits",
            vec![
                CHECKPOINT,
                "--tokenizer",
                TOKENIZER,
                "--adapter",
                QAT_ADAPTER,
                "--bits",
                "2",
            ],
        ),
        ("build_other_model", vec!["demo", "--adapter", ADAPTER]),
        ("build_not_an_adapter", vec!["demo", "--adapter", CHECKPOINT]),
        (
            "build_generation_3",
            vec!["tests/golden/gen3/cact/tok64_w4.cact", "--bits", "4"],
        ),
    ] {
        snapshot(name, &[&["build"], &arguments[..], &["--out", &out]].concat(), "");
        assert_eq!(folder.names(), Vec::<String>::new(), "{name}");
    }
    fs::copy(super::repository().join("tests/golden/gen2/cact/tok64_w4.cact"), &out).unwrap();
    snapshot("build_onto_itself", &["build", &out, "--out", &out], "");
}

#[test]
fn serving_with_other_tools_is_warned_of() {
    let folder = Folder::new("build-tools");
    let out = folder.file("home.cact");
    let output = needle(&["build", "demo", "--tools", "examples/home.json", "--out", &out], "");
    assert!(output.status.success(), "{output:?}");
    let ask = |tools: &str| needle(&["run", "--model", &out, "--tools", tools, "dim the kitchen to 30"], "");
    let said = |output: &std::process::Output| String::from_utf8(output.stderr.clone()).unwrap();

    let same = ask("examples/home.json");
    assert!(same.status.success() && !said(&same).contains("warning"), "{same:?}");
    snapshot(
        "run_other_tools",
        &[
            "run",
            "--model",
            &out,
            "--tools",
            "examples/travel.json",
            "what's the weather in Lagos",
        ],
        "",
    );
    // The record of an archive that is not there any more is no record of this one.
    let other = folder.file("other.cact");
    needle(&["build", "demo", "--bits", "2", "--out", &other], "");
    fs::rename(&other, &out).unwrap();
    assert!(said(&ask("examples/home.json")).contains("is the record of another archive"));
    fs::write(folder.file("home.cact.json"), "{}").unwrap();
    assert!(said(&ask("examples/home.json")).contains("not a record of a build"));
}

#[test]
fn verify_shows_where_archive_and_float_model_part() {
    let folder = Folder::new("build-verify");
    let rows = folder.file("rows.jsonl");
    let tools = fs::read_to_string(super::repository().join("examples/home.json")).unwrap();
    let tools: Value = serde_json::from_str(&tools).unwrap();
    let queries = [
        "dim the kitchen to 30",
        "set the bedroom lights to 70 percent",
        "office lights at 15",
    ];
    let mut text: String = queries
        .map(|query| format!("{}\n", serde_json::json!({"query": query, "tools": tools})))
        .concat();
    text += "\nnot json\n";
    fs::write(&rows, text).unwrap();
    let build = |bits: &str| {
        let out = folder.file("x.cact");
        let output = needle(
            &[
                "build", "demo", "--bits", bits, "--out", &out, "--verify", &rows, "--json",
            ],
            "",
        );
        assert!(output.status.success(), "{output:?}");
        serde_json::from_str::<Value>(&stdout(&output)).unwrap()["verify"].clone()
    };
    // The demo's own widths: the very same weights.
    let same = needle(
        &["build", "demo", "--out", &folder.file("same.cact"), "--verify", &rows],
        "",
    );
    assert!(
        stdout(&same).contains("3 of 4 rows answered alike; largest deviation of a logit 0.000"),
        "{same:?}"
    );
    let rough = build("ternary");
    assert_eq!((&rough["rows"], &rough["refused"][0]["line"]), (&4.into(), &5.into()));
    assert!(rough["largest_deviation"].as_f64().unwrap() > 0.1, "{rough}");
    for row in rough["differing"].as_array().unwrap() {
        assert_ne!(row["float"], row["archive"]);
    }
}

#[test]
fn a_rehearsed_upload_names_files_hashes_and_target() {
    let folder = Folder::new("build-upload");
    let out = folder.file("x.cact");
    let rehearse = ["build", "demo", "--out", &out, "--upload", "me/kitchen", "--dry-run"];
    let output = needle(&rehearse, "");
    assert!(output.status.success(), "{output:?}");
    let text = stdout(&output);
    assert!(
        text.contains("would be sent to me/kitchen at https://huggingface.co\n"),
        "{text}"
    );
    let record = record(&folder, "x.cact");
    let (size, hash) = (
        &record["archive"]["size_bytes"],
        record["archive"]["sha256"].as_str().unwrap(),
    );
    assert!(
        text.contains(&format!("  x.cact  {size} bytes  sha256 {hash}\n")),
        "{text}"
    );
    assert!(text.contains("  x.cact.json  "), "{text}");
    let output = needle(&[&rehearse[..], &["--json"]].concat(), "");
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&report["upload"]["dry_run"], &report["upload"]["repo"]),
        (&true.into(), &"me/kitchen".into())
    );

    // Without the rehearsal this machine is offline; without a name there is no target, and nothing is built.
    let output = needle(&rehearse[..6], "");
    assert!(String::from_utf8(output.stderr).unwrap().contains("HF_HUB_OFFLINE"));
    let fresh = folder.file("fresh.cact");
    snapshot(
        "build_upload_nowhere",
        &["build", "demo", "--out", &fresh, "--upload"],
        "",
    );
    snapshot(
        "build_upload_odd",
        &["build", "demo", "--out", &fresh, "--upload", "kitchen"],
        "",
    );
    assert_eq!(folder.names(), ["x.cact", "x.cact.json"]);
}
