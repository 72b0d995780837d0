//! Examples from a chat endpoint, against a stand-in that misbehaves in every way that real ones do.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use needle_core::{
    Error, HubFault, ToolSet,
    data::Dataset,
    hub::{Patience, Secret},
    synth::{Endpoint, Event, Generated, Source, SynthOptions, generate},
};
use serde_json::{Value, json};

use crate::hub::http::{Answer, Request, Wire, serve};

const KEY: &str = "sk-very-secret";
const TOOLS: &str = r#"[{"name":"set_lamp","description":"Switch a lamp.","parameters":{"type":"object","properties":{"room":{"type":"string"},"level":{"type":"integer","maximum":100}},"required":["room","level"]}}]"#;

/// An endpoint on loopback that keeps what it was asked.
struct StandIn {
    endpoint: Endpoint,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl StandIn {
    /// `answer` gets the number of the request, from 0.
    fn start(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, count) = (asked.clone(), AtomicUsize::new(0));
        let port = serve(Wire::Plain, move |request| {
            log.lock().unwrap().push(request);
            answer(count.fetch_add(1, Ordering::SeqCst))
        });
        let mut endpoint = Endpoint::new(format!("http://127.0.0.1:{port}/v1"), "large-model");
        endpoint.key = Some(Secret::new(KEY));
        endpoint.patience = Patience {
            attempts: 4,
            first_pause: Duration::from_millis(2),
            longest_pause: Duration::from_millis(1500),
            connect_timeout: Duration::from_secs(5),
            read_timeout: Duration::from_millis(400),
        };
        Self { endpoint, asked }
    }

    fn requests(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn bodies(&self) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .map(|request| serde_json::from_slice(&request.body).unwrap())
            .collect()
    }

    fn run(&self, name: &str, samples: usize, workers: usize) -> (PathBuf, needle_core::Result<Generated>) {
        let output = folder(name).join("out.jsonl");
        let made = self.fill(&output, samples, workers, |_| {});
        (output, made)
    }

    fn fill(
        &self,
        output: &std::path::Path,
        samples: usize,
        workers: usize,
        on_event: impl FnMut(Event<'_>) + Send,
    ) -> needle_core::Result<Generated> {
        let options = SynthOptions {
            samples,
            workers,
            batch_size: 10,
            ..SynthOptions::default()
        };
        generate(&self.endpoint, &Source::Tools(tools()), output, &options, on_event)
    }
}

fn tools() -> ToolSet {
    ToolSet::parse(TOOLS).unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("synth").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Ten good examples that no other number gives; the arguments stand in the wrong order, which is put right.
fn examples(number: usize) -> String {
    let example = |at: usize| {
        let level = (number * 10 + at) % 101;
        json!({
            "query": format!("lamp {number} {at} to {level}"),
            "answers": [{ "name": "set_lamp", "arguments": { "level": level, "room": format!("room {number}") } }],
        })
    };
    Value::from((0..10).map(example).collect::<Vec<_>>()).to_string()
}

fn completion(content: &str) -> Answer {
    let body =
        json!({ "choices": [{ "message": { "role": "assistant", "content": content }, "finish_reason": "stop" }] });
    Answer::new(200, &[("content-type", "application/json")], body.to_string())
}

fn good(number: usize) -> Answer {
    completion(&examples(number))
}

#[test]
fn workers_fill_a_file_that_trains() {
    let server = StandIn::start(good);
    let output = folder("fills").join("out.jsonl");
    let mut seen = 0;
    let made = server.fill(&output, 55, 16, |event| {
        if let Event::Added { rows } = event {
            seen = rows;
        }
    });
    let made = made.unwrap();
    assert_eq!(
        (made.kept, made.added, made.duplicates, made.failed, seen),
        (0, 55, 0, 0, 55)
    );
    let data = Dataset::open(&output).unwrap();
    assert_eq!(
        (
            data.rows.len(),
            data.rejected.len(),
            data.warnings.len(),
            data.duplicates.len()
        ),
        (55, 0, 0, 0)
    );
    assert!(
        data.rows[0].example.answers.contains(r#""arguments":{"room":"#),
        "{:?}",
        data.rows[0]
    );
    let body = &server.bodies()[0];
    assert_eq!(body["model"], "large-model");
    assert!(body["messages"][1]["content"].as_str().unwrap().contains("set_lamp"));
    let asked = server.asked.lock().unwrap();
    // 55 rows are six batches of ten, and two more under way at most, whatever the number of workers.
    assert!(asked.len() <= 8, "{}", asked.len());
    assert_eq!(asked[0].path, "/v1/chat/completions");
    assert_eq!(asked[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
}

#[test]
fn a_server_that_misbehaves_is_survived() {
    let server = StandIn::start(|number| match number {
        0 => Answer::new(500, &[], "internal"),
        1 => Answer::new(429, &[("retry-after", "0")], r#"{"error":{"message":"slow down"}}"#),
        2 => {
            let mut slow = good(2);
            slow.stall_after = Some((0, Duration::from_millis(900)));
            slow
        }
        3 => {
            let mut cut = good(3);
            cut.cut_after = Some(40);
            cut
        }
        4 => Answer::new(200, &[], r#"{"choices": [{"mess"#),
        5 => Answer::new(200, &[], r#"{"error":{"code":503,"message":"overloaded"}}"#),
        6 => {
            let list = examples(6);
            completion(&list[..list.len() - 30])
        }
        7 => completion(&format!(
            "Here you are!\n```json\n{}\n```\nEnjoy {{them}}.",
            examples(7)
        )),
        8 => completion(&examples(8).replace("\"level\":", "\"brightness\":")),
        9 => completion(&examples(7)),
        10 => completion("I would rather not."),
        11 => completion(
            r#"[{"query":"x"},{"answers":[]},{"query":"y","answers":"no"},{"query":"joke please","answers":[]}]"#,
        ),
        number => good(number),
    });
    let mut reasons = Vec::new();
    let output = folder("misbehaves").join("out.jsonl");
    let made = server.fill(&output, 60, 1, |event| {
        if let Event::Waiting { reason, .. } = event {
            reasons.push(reason.to_owned());
        }
    });
    let made = made.unwrap();
    assert_eq!(made.added, 60, "{made:?}");
    assert_eq!(made.duplicates, 10);
    let rejected: Vec<(&str, usize)> = made
        .rejected
        .iter()
        .map(|(reason, count)| (reason.as_str(), *count))
        .collect();
    let expected = [
        ("a call that its tool's schema rejects", 10),
        ("an answer without examples", 1),
        ("answers that are no list of calls", 1),
        ("no answers", 1),
        ("no query", 1),
    ];
    assert_eq!(rejected, expected);
    let said = reasons.join("\n");
    for words in [
        "500",
        "429: too many requests (slow down)",
        "no answer in time",
        "not JSON",
        "overloaded",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let data = Dataset::open(&output).unwrap();
    assert_eq!((data.rows.len(), data.rejected.len(), data.warnings.len()), (60, 0, 0));
}

#[test]
fn a_wrong_key_ends_it_at_once_and_is_never_said() {
    let echo = format!(r#"{{"error":{{"message":"no user has the key {KEY} here"}}}}"#);
    let server = StandIn::start(move |_| Answer::new(401, &[], echo.clone()));
    let (output, made) = server.run("wrong_key", 20, 1);
    let error = made.unwrap_err();
    let text = format!("{error} {error:?} {:?}", server.endpoint);
    assert!(
        text.contains("401") && text.contains("[key]") && !text.contains(KEY),
        "{text}"
    );
    assert!(matches!(
        error,
        Error::Hub {
            fault: HubFault::Unauthorized,
            ..
        }
    ));
    assert_eq!((server.requests(), output.exists()), (1, false));
}

#[test]
fn a_server_that_stays_down_is_given_up_and_nothing_is_written() {
    let server = StandIn::start(|_| Answer::new(503, &[], ""));
    let (output, made) = server.run("down", 1000, 1);
    let error = made.unwrap_err().to_string();
    assert!(
        error.contains("503") && error.contains("gave up after 4 tries"),
        "{error}"
    );
    // Three requests, four tries each.
    assert_eq!((server.requests(), output.exists()), (12, false));
    let server = StandIn::start(|_| Answer::new(429, &[("retry-after", "3600")], ""));
    let error = server.run("long_pause", 1000, 1).1.unwrap_err().to_string();
    assert!(error.contains("it asks to wait 3600 s"), "{error}");
    assert_eq!(server.requests(), 3);
    let server = StandIn::start(|_| Answer::new(302, &[("location", "http://127.0.0.1:9/")], ""));
    let error = server.run("redirect", 10, 1).1.unwrap_err().to_string();
    assert!(error.contains("a redirect"), "{error}");
}

#[test]
fn a_stopped_run_goes_on_where_it_was() {
    let server = StandIn::start(good);
    let (output, made) = server.run("resume", 20, 2);
    assert_eq!(made.unwrap().added, 20);
    let before = fs::read_to_string(&output).unwrap();
    fs::write(&output, format!("{before}{{\"query\":\"cut o")).unwrap();
    let made = server.fill(&output, 45, 2, |_| {}).unwrap();
    assert_eq!((made.kept, made.added), (20, 25));
    let after = fs::read_to_string(&output).unwrap();
    assert!(after.starts_with(&before));
    let data = Dataset::open(&output).unwrap();
    assert_eq!(
        (data.rows.len(), data.rejected.len(), data.duplicates.len()),
        (45, 1, 0)
    );
    let asked = server.requests();
    assert_eq!(server.fill(&output, 45, 2, |_| {}).unwrap().added, 0);
    assert_eq!(server.requests(), asked);
}

#[test]
fn a_model_that_runs_dry_is_not_asked_for_ever() {
    let server = StandIn::start(|_| good(0));
    let (_, made) = server.run("dry", 50, 3);
    let made = made.unwrap();
    assert_eq!((made.added, made.batches), (10, 15));
    assert_eq!(made.duplicates, 140);
}

#[test]
fn rows_are_shown_and_others_with_their_tools_come_back() {
    let server = StandIn::start(good);
    let row = json!({
        "query": "hall lamp to 7", "tools": serde_json::from_str::<Value>(TOOLS).unwrap(),
        "answers": [{ "name": "set_lamp", "arguments": { "room": "hall", "level": 7 } }],
    });
    let data = Dataset::read(row.to_string().as_bytes(), "rows").unwrap();
    let output = folder("rows").join("out.jsonl");
    let options = SynthOptions {
        samples: 10,
        batch_size: 10,
        ..SynthOptions::default()
    };
    let made = generate(&server.endpoint, &Source::Rows(data.rows), &output, &options, |_| {}).unwrap();
    assert_eq!(made.added, 10);
    let body = server.bodies()[0].to_string();
    assert!(body.contains("hall lamp to 7"), "{body}");
    let none = generate(&server.endpoint, &Source::Rows(Vec::new()), &output, &options, |_| {});
    assert!(matches!(none, Err(Error::Unsupported(_))));
}

#[test]
fn the_same_seed_asks_the_same_questions() {
    let questions = |name| {
        let server = StandIn::start(good);
        server.run(name, 30, 1).1.unwrap();
        server.bodies()
    };
    let (first, second) = (questions("seed_1"), questions("seed_2"));
    assert_eq!(first, second);
    assert_ne!(first[0]["messages"], first[1]["messages"]);
}

#[test]
fn addresses_that_are_none_are_refused_before_anything_is_sent() {
    for url in ["", "localhost:8080", "ftp://host/v1", "http://user:pw@host/v1"] {
        let endpoint = Endpoint::new(url, "m");
        let output = folder("address").join("out.jsonl");
        let made = generate(
            &endpoint,
            &Source::Tools(tools()),
            &output,
            &SynthOptions::default(),
            |_| {},
        );
        let error = made.unwrap_err().to_string();
        assert!(
            error.contains("expected an address") && !error.contains("pw"),
            "{url}: {error}"
        );
    }
}
