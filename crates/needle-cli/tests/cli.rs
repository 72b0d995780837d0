//! Whole runs of the command with the demo model: exit code, stdout and stderr, as files under `snapshots/`.
//!
//! `NEEDLE_UPDATE_SNAPSHOTS=1 cargo test -p needle-cli` writes them anew; read the difference before committing it.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "cli/build.rs"]
mod build;
#[path = "cli/folder.rs"]
mod folder;
#[path = "cli/training.rs"]
mod training;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_needle"));
    command
        .args(arguments)
        .current_dir(repository())
        .env_remove("RUST_BACKTRACE")
        .env_remove("NEEDLE_HF_REPO")
        .env("HF_HUB_OFFLINE", "1")
        .env("HF_HOME", std::env::temp_dir().join("needle-cli-tests-empty-cache"))
        .env("COLUMNS", "100")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn needle(arguments: &[&str], stdin: impl AsRef<[u8]>) -> Output {
    let mut child = command(arguments).spawn().unwrap();
    // A command that does not read stdin closes it; that is no fault of the test's.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_ref());
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Compares a run with its snapshot.
#[track_caller]
fn snapshot(name: &str, arguments: &[&str], stdin: impl AsRef<[u8]>) {
    let output = needle(arguments, stdin);
    let found = format!(
        "exit code {}\n--- stdout\n{}--- stderr\n{}",
        output.status.code().unwrap(),
        steady(&stdout(&output)),
        steady(&String::from_utf8(output.stderr).unwrap()),
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(format!("{name}.txt"));
    if std::env::var_os("NEEDLE_UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &found).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(
        found, expected,
        "{name}: run again with NEEDLE_UPDATE_SNAPSHOTS=1 if this is meant"
    );
}

/// The text without what differs from run to run: rates, memory, the commit, this machine's folders.
fn steady(text: &str) -> String {
    let mut steady = String::new();
    for line in text.replace(&std::env::temp_dir().display().to_string(), "TMP").lines() {
        let mut line = line.to_owned();
        for key in ["prefill_tps", "decode_tps", "peak_ram_mb", "elapsed_ms"] {
            line = without_number(&line, &format!("\"{key}\":"));
        }
        if let Some(at) = line.find("(commit ") {
            line.truncate(at);
            line += "(commit …)";
        }
        steady += &line;
        steady.push('\n');
    }
    steady
}

fn without_number(line: &str, key: &str) -> String {
    let Some(at) = line.find(key) else {
        return line.to_owned();
    };
    let after = at + key.len();
    let end = line[after..].find([',', '}']).map_or(line.len(), |end| after + end);
    format!("{}…{}", &line[..after], &line[end..])
}

const HOME: [&str; 5] = ["run", "--model", "demo", "--tools", "examples/home.json"];

fn home(rest: &[&'static str]) -> Vec<&'static str> {
    [HOME.as_slice(), rest].concat()
}

#[test]
fn one_call_for_each_example_file() {
    for (file, query, call) in [
        (
            "home",
            "dim the kitchen to 30",
            r#"[{"name":"set_lights","arguments":{"room":"kitchen","brightness":30}}]"#,
        ),
        (
            "messages",
            "tell Priya that dinner is ready",
            r#"[{"name":"send_message","arguments":{"contact":"Priya","message":"dinner is ready"}}]"#,
        ),
        (
            "travel",
            "what's the weather in Lagos",
            r#"[{"name":"get_weather","arguments":{"city":"Lagos"}}]"#,
        ),
    ] {
        let output = needle(
            &[
                "run",
                "--model",
                "demo",
                "--tools",
                &format!("examples/{file}.json"),
                query,
            ],
            "",
        );
        assert!(output.status.success());
        assert_eq!(stdout(&output), format!("{call}\n"), "{file}");
    }
}

/// Thirty queries to the example tools: every answer is a list of calls that obey their schemas. How many are also what was
/// meant is the demo model's affair.
#[test]
fn thirty_queries_are_answered_in_schema() {
    let queries = fs::read_to_string(repository().join("examples/queries.jsonl")).unwrap();
    let mut called = 0;
    for line in queries.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let (file, query) = (line["tools"].as_str().unwrap(), line["query"].as_str().unwrap());
        let file = format!("examples/{file}");
        let output = needle(&["run", "-q", "--model", "demo", "--tools", &file, query], "");
        assert!(output.status.success(), "{query}");
        let tools = fs::read_to_string(repository().join(&file)).unwrap();
        let tools = needle_core::ToolSet::parse(&tools).unwrap();
        for call in needle_core::ToolCall::parse_list(&stdout(&output)).unwrap() {
            tools.check_call(&call).unwrap();
            called += 1;
        }
    }
    assert_eq!(queries.lines().count(), 30);
    assert!(called >= 20, "only {called} calls");
}

#[test]
fn run_says_where_it_runs_and_prints_only_the_answer() {
    snapshot("run", &home(&["--device", "cpu", "dim the kitchen to 30"]), "");
}

#[test]
fn run_reads_the_query_from_stdin() {
    snapshot("run_stdin", &home(&["--quiet"]), "set a timer for 12 minutes\n");
}

#[test]
fn run_json_is_the_whole_envelope() {
    snapshot(
        "run_json",
        &home(&["--json", "--device", "cpu", "make it 21 in here"]),
        "",
    );
}

#[test]
fn run_stream_writes_the_completion_as_it_comes() {
    snapshot("run_stream", &home(&["--stream", "--quiet", "make it 21 in here"]), "");
    let output = needle(&home(&["--stream", "--json", "--quiet", "make it 21 in here"]), "");
    let lines: Vec<serde_json::Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (answer, pieces) = lines.split_last().unwrap();
    let text: String = pieces.iter().map(|piece| piece["text"].as_str().unwrap()).collect();
    assert_eq!(
        text,
        r#"<tool_call>[{"name":"set_thermostat","arguments":{"temperature":21}}]</tool_call>"#
    );
    assert_eq!(answer["function_calls"][0]["name"], "set_thermostat");
}

#[test]
fn a_query_that_no_tool_fits_is_an_empty_list() {
    snapshot("run_refusal", &home(&["--quiet", "tell me a joke"]), "");
}

#[test]
fn stateless_answers_every_line() {
    snapshot(
        "run_stateless",
        &home(&["--quiet", "--stateless"]),
        "make it 21 in here\n\nset a timer for 12 minutes\n",
    );
}

#[test]
fn a_cut_completion_is_an_error_with_no_calls() {
    snapshot(
        "run_truncated",
        &home(&["--quiet", "--json", "--max-new-tokens", "5", "make it 21 in here"]),
        "",
    );
}

#[test]
fn errors_are_one_line_with_a_hint() {
    snapshot(
        "error_no_file",
        &[
            "run",
            "--model",
            "no-such-file.cact",
            "--tools",
            "examples/home.json",
            "hi",
        ],
        "",
    );
    snapshot("error_not_a_model", &["inspect", "examples/home.json"], "");
    snapshot(
        "error_no_tools",
        &["run", "--model", "demo", "--tools", "no-such-tools.json", "hi"],
        "",
    );
    snapshot(
        "error_bad_tools",
        &["run", "--model", "demo", "--tools", "[{\"nome\":1}]", "hi"],
        "",
    );
    snapshot(
        "error_bad_schema",
        &["run", "--model", "demo", "--tools", BAD_SCHEMA, "hi"],
        "",
    );
    snapshot("error_device", &home(&["--device", "metal:0", "hi"]), "");
    snapshot("error_empty_query", &home(&["--quiet"]), "\n");
    snapshot("error_two_stdins", &["run", "--model", "demo", "--tools", "-"], "[]");
    snapshot("error_no_weights", &["run", "--tools", "examples/home.json", "hi"], "");
}

const BAD_SCHEMA: &str = r#"[{"name":"paint","parameters":{"type":"object","properties":{"colour":{"enum":[]}}}}]"#;

#[test]
fn a_prompt_that_does_not_fit_says_how_long_it_is() {
    let words = "word ".repeat(4000);
    let output = needle(
        &["run", "-q", "--model", "demo", "--tools", "examples/home.json"],
        words,
    );
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.starts_with("error: the prompt has ") && message.contains("but at most 511 fit"),
        "{message}"
    );
}

#[test]
fn wrong_command_lines_exit_with_2() {
    for arguments in [
        &["run"][..],
        &["run", "--model", "demo"],
        &["frobnicate"],
        &["run", "--device", "tpu", "-t", "[]", "x"],
        &[],
        &["run", "-t", "[]", "--temperature", "1001", "x"],
        &["run", "-t", "[]", "--temperature", "nan", "x"],
        &["run", "-t", "[]", "--top-p", "0", "x"],
        &["run", "-t", "[]", "--top-k", "0", "x"],
        &["run", "-t", "[]", "--min-confidence", "-0.1", "x"],
        &["run", "-t", "[]", "--top-tools", "0", "x"],
        &["run", "-t", "[]", "--threads", "0", "x"],
        &["chat", "-t", "[]", "--exec-timeout", "0"],
        &["extract", "--schema", "-", "--jsonl", "-"],
        &["extract", "--schema", "-", "--text", "-"],
        &["retrieve", "-t", "-"],
        &["man", "fly"],
    ] {
        let output = needle(arguments, "");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn every_command_describes_its_flags() {
    for command in [
        "run",
        "chat",
        "extract",
        "generate-data",
        "embed",
        "retrieve",
        "inspect",
        "tokenize",
        "build",
        "data",
        "devices",
        "doctor",
        "eval",
        "finetune",
        "train",
        "download",
        "models",
        "completions",
        "man",
    ] {
        let output = needle(&[command, "--help"], "");
        assert!(output.status.success(), "{command}");
        let text = stdout(&output);
        assert!(
            text.contains("Usage: needle") && text.contains("--help"),
            "{command}: {text}"
        );
    }
}

#[test]
fn inspect_describes_the_demo() {
    snapshot("inspect_demo", &["inspect", "demo"], "");
    let output = needle(&["inspect", "demo", "--json"], "");
    let described: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(described["geometry"]["d_model"], 192);
    assert_eq!(described["tensors"].as_array().unwrap().len(), 90);
}

#[test]
fn inspect_opens_generation_three_and_running_it_says_what_is_missing() {
    let file = "tests/golden/gen3/cact/tok64_w4.cact";
    let output = needle(&["inspect", file, "--json"], "");
    let described: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(described["generation"], 3);
    snapshot(
        "run_generation_3",
        &["run", "-q", "--model", file, "--tools", "examples/home.json", "hi"],
        "",
    );
}

#[test]
fn a_generation_chooses_the_published_weights() {
    let ask = |generation| {
        needle(
            &["run", "--generation", generation, "--tools", "examples/home.json", "hi"],
            "",
        )
    };
    snapshot(
        "error_generation_3",
        &["run", "--generation", "3", "--tools", "examples/home.json", "hi"],
        "",
    );
    let two = String::from_utf8(ask("2").stderr).unwrap();
    assert!(two.contains("Cactus-Compute/needle2"), "{two}");
    assert_eq!(ask("4").status.code(), Some(2));
    let both = [&HOME[..], &["--generation", "2", "hi"]].concat();
    assert_eq!(needle(&both, "").status.code(), Some(2));
}

#[test]
fn tokenize_both_ways() {
    snapshot("tokenize", &["tokenize", "--model", "demo", "dim the lights"], "");
    let output = needle(&["tokenize", "--model", "demo", "--json", "dim the lights"], "");
    let tokens: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let ids = tokens["ids"].to_string();
    assert_eq!(
        stdout(&needle(&["tokenize", "--model", "demo", "--decode", &ids], "")),
        "dim the lights\n"
    );
    snapshot(
        "tokenize_bad_id",
        &["tokenize", "--model", "demo", "--decode", "99999"],
        "",
    );
}

#[test]
fn devices_explain_themselves() {
    let output = needle(&["devices", "--json"], "");
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(report["auto"]["device"].is_string() && report["auto"]["reason"].is_string());
    for backend in report["backends"].as_array().unwrap() {
        let (reason, devices) = (&backend["reason"], backend["devices"].as_array().unwrap());
        assert_eq!(reason.is_null(), !devices.is_empty(), "{backend}");
    }
    for word in ["toolkit", "kernels", "driver", "driver_release", "cublas"] {
        assert!(report["versions"].get(word).is_some(), "{word}");
    }
    let text = stdout(&needle(&["devices"], ""));
    let auto = format!("auto   {} ", report["auto"]["device"].as_str().unwrap());
    assert!(text.starts_with(&auto), "{text}");
    for name in ["cpu  ", "cuda ", "metal"] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name}: {text}");
    }
}

#[test]
fn the_doctor_computes_and_answers() {
    let output = needle(&["doctor"], "");
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.starts_with(concat!("needle ", env!("CARGO_PKG_VERSION"))),
        "{text}"
    );
    assert!(text.contains(&stdout(&needle(&["devices"], ""))), "{text}");
    assert!(text.contains("check  cpu computes in f32\n"), "{text}");
    assert!(text.contains("check  the built-in model answers on "), "{text}");
    let output = needle(&["doctor", "--json"], "");
    let diagnosis: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(diagnosis["healthy"], true);
    assert_eq!(diagnosis["checks"][0]["device"], "cpu");
    assert_eq!(diagnosis["answer"]["device"], diagnosis["devices"]["auto"]["device"]);
}

#[test]
fn version_names_commit_features_and_formats() {
    let text = stdout(&needle(&["--version"], ""));
    for part in [
        concat!("needle ", env!("CARGO_PKG_VERSION")),
        "commit ",
        "features: cpu",
        "reads: .cact 2 and 3",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn chat_carries_calls_out_with_programs_and_typed_results() {
    let query = "dim the kitchen to 30\n/quit\n";
    let program = [
        "chat",
        "-q",
        "-m",
        "demo",
        "-t",
        "examples/home.json",
        "--exec",
        "set_lights=/bin/cat",
    ];
    snapshot("chat_program", &program, query);
    snapshot(
        "chat_typed",
        &["chat", "-q", "-m", "demo", "-t", "examples/home.json"],
        "make it 21 in here\n{\"ok\":true}\n",
    );
    snapshot(
        "chat_unknown_tool",
        &[
            "chat",
            "-q",
            "-m",
            "demo",
            "-t",
            "examples/home.json",
            "--exec",
            "fly=/bin/cat",
        ],
        "",
    );
}

#[test]
fn extract_reads_one_text_and_many_lines() {
    let schema = r#"{"title":"contact","description":"Contact details found in a text.","type":"object","properties":{"name":{"type":"string"},"email":{"type":"string"}},"required":["name"]}"#;
    let text = "Contact: Lena Silva <lena@mail.com>";
    snapshot(
        "extract",
        &["extract", "-q", "-m", "demo", "--schema", schema, "--text", text],
        "",
    );
    let lines = format!("{{\"text\":\"{text}\"}}\nnot json\n\"Contact: Omar Novak <omar@post.org>\"\n");
    snapshot(
        "extract_lines",
        &["extract", "-q", "-m", "demo", "--schema", schema, "--jsonl", "-"],
        &lines,
    );
}

#[test]
fn retrieval_says_that_the_demo_has_no_head() {
    snapshot("embed_demo", &["embed", "-q", "-m", "demo", "hello"], "");
}

/// Lines of every sort: sound, wrong about their own tool, broken, the same again.
const EXAMPLES: &str = r#"{"query":"make it 21 in here","tools":[{"name":"set_thermostat","description":"Set the thermostat to a temperature.","parameters":{"type":"object","properties":{"temperature":{"type":"integer","maximum":30}},"required":["temperature"]}}],"answers":[{"name":"set_thermostat","arguments":{"temperature":21}}]}

{"query":"make it 45","tools":[{"name":"set_thermostat","parameters":{"type":"object","properties":{"temperature":{"type":"integer","maximum":30}},"required":["temperature"]}}],"answers":[{"name":"set_thermostat","arguments":{"temperature":45}}]}
{"query":"ping","tools":"[{\"name\":","answers":[]}
{"query":"tell me a joke","tools":[{"name":"ping"}],"answers":[]}
{"query":"Tell me a joke!","tools":"[{\"name\": \"ping\"}]","answers":[]}
"#;

#[test]
fn data_check_names_every_line() {
    snapshot("data_check", &["data", "check", "-"], EXAMPLES);
    snapshot(
        "data_check_json",
        &["data", "check", "-", "--json", "-m", "demo", "--max-len", "60"],
        EXAMPLES,
    );
    snapshot("data_check_sound", &["data", "check", "examples/finetune.jsonl"], "");
    snapshot("data_check_nothing", &["data", "check", "-"], "\n");
}

#[test]
fn data_stats_counts_the_sample() {
    snapshot(
        "data_stats",
        &["data", "stats", "examples/finetune.jsonl", "-m", "demo"],
        "",
    );
    let output = needle(&["data", "stats", "examples/finetune.jsonl", "--json"], "");
    let counts: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(counts["rows"].as_u64().unwrap() >= 200 && counts["tokens"].is_null());
}

#[test]
fn data_split_writes_both_sides_and_replaces_nothing_unasked() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("split");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("rows.jsonl");
    fs::copy(repository().join("examples/finetune.jsonl"), &file).unwrap();
    let arguments = ["data", "split", file.to_str().unwrap(), "--val-split", "0.2", "--json"];
    let output = needle(&arguments, "");
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let lines = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    let (train, held_out, all) = (
        lines("rows.train.jsonl"),
        lines("rows.held-out.jsonl"),
        lines("rows.jsonl"),
    );
    assert_eq!(report["train"]["rows"], train.len());
    assert_eq!(report["held_out"]["rows"], held_out.len());
    assert_eq!(
        (train.len() + held_out.len(), held_out.len()),
        (all.len(), (all.len() as f64 * 0.2).round() as usize)
    );
    assert!(held_out.iter().all(|line| !train.contains(line)));
    let again = needle(&arguments, "");
    assert_eq!(again.status.code(), Some(1));
    assert!(
        String::from_utf8(again.stderr)
            .unwrap()
            .contains("exists; --force replaces it")
    );
    assert!(
        needle(&[arguments.as_slice(), &["--force"]].concat(), "")
            .status
            .success()
    );
    assert_eq!(lines("rows.held-out.jsonl"), held_out);
    assert_eq!(needle(&["data", "split", "-"], EXAMPLES).status.code(), Some(2));
}

const EVAL: [&str; 6] = ["eval", "-m", "demo", "--device", "cpu", "-"];

#[test]
fn eval_counts_and_shows_what_went_wrong() {
    snapshot("eval", &[EVAL.as_slice(), &["--show-errors", "3"]].concat(), EXAMPLES);
    snapshot(
        "eval_json",
        &[EVAL.as_slice(), &["--json", "-q", "--limit", "2"]].concat(),
        EXAMPLES,
    );
    snapshot("eval_nothing", &[EVAL.as_slice(), &["-q"]].concat(), "{}\n");
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("eval.md");
    let tools = [
        "--tools",
        "examples/home.json",
        "-q",
        "--markdown",
        file.to_str().unwrap(),
    ];
    assert!(needle(&[EVAL.as_slice(), &tools].concat(), EXAMPLES).status.success());
    let tables = fs::read_to_string(&file).unwrap();
    assert!(
        tables.contains("| all | 4 |") && tables.contains("| set_thermostat | 2 |"),
        "{tables}"
    );
    let answers = [EVAL.as_slice(), &["-q", "--answers", "examples/home.json"]].concat();
    assert_eq!(needle(&answers, EXAMPLES).status.code(), Some(1));
}

/// A chat endpoint on loopback that writes the same ten examples again and again. Returns its address.
fn chat_endpoint() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let example = |number: usize| {
        let call = serde_json::json!([{ "name": "set_timer", "arguments": { "minutes": number } }]);
        serde_json::json!({ "query": format!("timer, {number} minutes"), "answers": call })
    };
    let list = serde_json::Value::from((1..=10).map(example).collect::<Vec<_>>()).to_string();
    let body = serde_json::json!({ "choices": [{ "message": { "content": list } }] }).to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut request, mut bytes) = (Vec::new(), [0; 4096]);
            while !request.ends_with(b"}") {
                let count = std::io::Read::read(&mut stream, &mut bytes).unwrap();
                assert!(count > 0);
                request.extend_from_slice(&bytes[..count]);
            }
            assert!(String::from_utf8_lossy(&request).contains("Bearer sk-secret"));
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all((head + &body).as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn generate_data_fills_a_file_and_says_what_is_missing() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("generate");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("rows.jsonl");
    let run = |arguments: &[&str], endpoint: Option<&str>| {
        let fixed = [
            "generate-data",
            "-m",
            "large",
            "--workers",
            "2",
            "--batch-size",
            "10",
            "-o",
        ];
        let mut command = command(&[fixed.as_slice(), &[file.to_str().unwrap()], arguments].concat());
        command.env_remove("OPENROUTER_API_KEY").env_remove("OPENROUTER_URL");
        if let Some(url) = endpoint {
            command
                .env("OPENROUTER_URL", url)
                .env("OPENROUTER_API_KEY", "sk-secret");
        }
        command.output().unwrap()
    };
    // A21: without a key one line names the variable, and no file is left behind.
    let output = run(&["-t", "examples/home.json"], None);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), said.lines().count(), file.exists()),
        (Some(1), 1, false)
    );
    assert!(said.starts_with("error: OPENROUTER_API_KEY is not set"), "{said}");
    let url = chat_endpoint();
    let output = run(&["-t", "examples/home.json", "--num-samples", "10"], Some(&url));
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(output.status.success() && !said.contains("sk-secret"), "{said}");
    assert!(
        stdout(&output).ends_with("rows.jsonl: 10 rows, 10 of them new\n"),
        "{}",
        stdout(&output)
    );
    let check = needle(&["data", "check", file.to_str().unwrap()], "");
    assert!(stdout(&check).ends_with("10 lines, 10 rows, 0 rejected, 0 warnings, 0 duplicates\n"));
    // The endpoint knows no others: what there is stays, and the exit code says that it is not enough.
    let output = run(
        &["--augment", file.to_str().unwrap(), "--num-samples", "15", "--json"],
        Some(&url),
    );
    let made: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (output.status.code(), &made["kept"], &made["added"]),
        (Some(1), &10.into(), &0.into())
    );
}

const CHAT: [&str; 6] = ["chat", "-m", "demo", "-t", "examples/home.json", "--device=cpu"];

fn chat(rest: &[&'static str]) -> Vec<&'static str> {
    [CHAT.as_slice(), rest].concat()
}

#[test]
fn chat_goes_on_after_a_line_that_fails_and_ends_with_1() {
    snapshot("chat_not_utf8", &chat(&[]), b"\xff\xfe\ntell me a joke\n");
    snapshot(
        "chat_no_answer",
        &chat(&["--max-new-tokens", "5"]),
        "make it 21 in here\n",
    );
    let twice = ["--exec", "set_timer=/bin/cat", "--exec", "set_timer=/bin/ls"];
    snapshot("chat_exec_twice", &chat(&twice), "");
}

/// stdin stays open, so only the closed stdout can be what ends it.
#[test]
fn chat_ends_when_nobody_reads_it() {
    let mut child = command(&chat(&["-q", "--exec", "set_thermostat=/bin/cat"]))
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"make it 21 in here\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_stderr_that_cannot_be_written_changes_nothing() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(&home(&["dim the kitchen to 30"]))
        .stderr(full())
        .output()
        .unwrap();
    assert!(output.status.success() && stdout(&output).contains("set_lights"));
    let output = command(&["inspect", "no-such-file.cact"])
        .stderr(full())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn stateless_lines_fail_alone() {
    let lines = format!("{}\nmake it 21 in here\n", "word ".repeat(4000));
    snapshot("run_stateless_failing", &home(&["-q", "--stateless"]), &lines);
    let output = needle(&home(&["-q", "--stateless", "--json"]), &lines);
    let lines: Vec<serde_json::Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        lines[0]["error"]
            .as_str()
            .unwrap()
            .starts_with("line 1: the prompt has ")
    );
    assert_eq!(lines[1]["function_calls"][0]["name"], "set_thermostat");
    snapshot("run_stateless_blank", &home(&["-q", "--stateless"]), "\n  \n\n");
}

#[test]
fn chance_is_only_bent_where_there_is_some() {
    snapshot("error_seed_alone", &home(&["--seed", "7", "hi"]), "");
    snapshot("error_top_k_alone", &home(&["--top-k", "7", "hi"]), "");
}

#[test]
fn one_bad_byte_fails_its_own_line() {
    let schema = r#"{"title":"contact","description":"Contact details found in a text.","type":"object","properties":{"name":{"type":"string"},"email":{"type":"string"}},"required":["name"]}"#;
    let arguments = ["extract", "-q", "-m", "demo", "--schema", schema, "--jsonl", "-"];
    let output = needle(&arguments, b"\"\xff\"\n\"Contact: Lena Silva <lena@mail.com>\"\n");
    let lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with(r#"{"error":"line 1: not UTF-8"#), "{}", lines[0]);
    assert!(lines[1].starts_with(r#"{"name":"#), "{}", lines[1]);
    assert_eq!((lines.len(), output.status.code()), (2, Some(1)));
}

#[test]
fn a_newcomer_is_told_three_things() {
    snapshot("welcome", &[], "");
}

#[test]
fn shells_and_man_are_served() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = needle(&["completions", shell], "");
        assert!(
            output.status.success() && stdout(&output).contains("extract"),
            "{shell}"
        );
    }
    assert!(stdout(&needle(&["man"], "")).contains(".TH needle 1"));
    assert!(stdout(&needle(&["man", "run"], "")).contains("stateless"));
}
