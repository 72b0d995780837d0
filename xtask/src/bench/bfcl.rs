//! The grammar against the Berkeley function-calling data: every schema compiles or is refused by name, every reference
//! answer is accepted, every mutation of one is refused.
//!
//! The data comes out of the PyPI wheel `bfcl-eval`; it is fetched, not committed. Its dialect (`dict`, `float`, `tuple`,
//! `any`, Java and JavaScript type names) is translated by the library's reader of these files, never by its schemas. A reference answer that its own schema
//! does not allow is counted apart, by the reason the last check gives.

mod dialect;
mod walk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use needle_core::grammar::{Grammar, GrammarOptions, Markers, Token, TokenKind, Vocabulary};
use needle_core::{ToolCall, ToolSet, score::bfcl::tool};

use serde_json::{Map, Value};

use dialect::{concrete, in_order};

const WHEEL: &str = "bfcl-eval==2026.3.23";

/// Fetches the data into `dir` where it is not there yet, runs all of it and prints a table, one row a file.
pub(crate) fn run(dir: &Path) -> Result<()> {
    let data = fetch(dir)?;
    let vocabulary = bytes()?;
    let mut total = Row::default();
    println!("{:<64} {}", "file", Row::HEAD);
    for file in files(&data)? {
        let row = check(&data, &file, &vocabulary).with_context(|| format!("in {file}"))?;
        println!("{file:<64} {}", row.figures());
        total.add(&row);
    }
    println!("{:<64} {}", "all", total.figures());
    for (title, reasons) in [
        ("refused schemas", &total.refused),
        ("references outside the schemas", &total.contradictions),
    ] {
        println!("\n{title}:");
        reasons
            .iter()
            .for_each(|(reason, count)| println!("{count:>6}  {reason}"));
    }
    println!("\nmutations, all refused:");
    total
        .mutations
        .iter()
        .for_each(|(kind, count)| println!("{count:>6}  {kind}"));
    for failure in &total.failures {
        println!("FAILED {failure}");
    }
    ensure!(total.failures.is_empty(), "{} failures", total.failures.len());
    Ok(())
}

/// What became of one file.
#[derive(Default)]
struct Row {
    schemas: usize,
    refused: BTreeMap<String, usize>,
    /// Random walks that came to an end; each of their calls passed the last check.
    walks: usize,
    references: usize,
    contradictions: BTreeMap<String, usize>,
    mutations: BTreeMap<&'static str, usize>,
    failures: Vec<String>,
}

impl Row {
    const HEAD: &'static str = "schemas refused  walks  answers outside accepted  mutations refused  failures";

    fn figures(&self) -> String {
        let outside: usize = self.contradictions.values().sum();
        format!(
            "{:>7} {:>7} {:>6}  {:>7} {outside:>7} {:>8}  {:>17}  {:>8}",
            self.schemas,
            self.refused.values().sum::<usize>(),
            self.walks,
            self.references,
            self.references - outside,
            self.mutations.values().sum::<usize>(),
            self.failures.len(),
        )
    }

    fn add(&mut self, other: &Self) {
        self.schemas += other.schemas;
        self.walks += other.walks;
        self.references += other.references;
        for (mine, theirs) in [
            (&mut self.refused, &other.refused),
            (&mut self.contradictions, &other.contradictions),
        ] {
            theirs
                .iter()
                .for_each(|(reason, count)| *mine.entry(reason.clone()).or_default() += count);
        }
        other
            .mutations
            .iter()
            .for_each(|(kind, count)| *self.mutations.entry(kind).or_default() += count);
        self.failures.extend(other.failures.iter().cloned());
    }
}

fn fetch(dir: &Path) -> Result<PathBuf> {
    let data = dir.join("bfcl_eval/data");
    if data.is_dir() {
        return Ok(data);
    }
    std::fs::create_dir_all(dir)?;
    let python = |args: &[&str]| -> Result<()> {
        let status = Command::new("python3")
            .args(args)
            .current_dir(dir)
            .status()
            .context("python3 is needed to fetch the data")?;
        ensure!(status.success(), "python3 {} failed", args.join(" "));
        Ok(())
    };
    python(&["-m", "pip", "download", "--quiet", "--no-deps", "--dest", ".", WHEEL])?;
    let wheel = std::fs::read_dir(dir)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find(|name| name.ends_with(".whl"));
    python(&["-m", "zipfile", "-e", &wheel.context("no wheel was downloaded")?, "."])?;
    Ok(data)
}

/// The files with tools in them, by name.
fn files(data: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in ["", "multi_turn_func_doc/", "unused_datasets/question/"] {
        for entry in std::fs::read_dir(data.join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let listed = name.ends_with(".json") && !name.contains("format_sensitivity");
            found.extend(listed.then(|| format!("{folder}{name}")));
        }
    }
    found.sort();
    Ok(found)
}

fn lines(path: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| path.display().to_string()))
        .collect()
}

fn check(data: &Path, file: &str, vocabulary: &Vocabulary) -> Result<Row> {
    let answers = data.join("possible_answer").join(file);
    let answers: BTreeMap<String, Value> = match answers.is_file() {
        false => BTreeMap::new(),
        true => lines(&answers)?
            .into_iter()
            .filter_map(|line| Some((line["id"].as_str()?.to_string(), line["ground_truth"].clone())))
            .collect(),
    };
    let mut row = Row::default();
    for entry in lines(&data.join(file))? {
        let tools: Vec<Value> = match &entry {
            Value::Object(map) if map.contains_key("parameters") => vec![tool(&entry)],
            _ => match &entry["function"] {
                Value::Array(tools) => tools.iter().map(tool).collect(),
                Value::Object(_) => vec![tool(&entry["function"])],
                _ => Vec::new(),
            },
        };
        let mut usable: Vec<Value> = Vec::new();
        for tool in tools {
            row.schemas += 1;
            let compiled = ToolSet::from_json(&tool)
                .and_then(|set| Ok((Grammar::compile(&set, vocabulary, &GrammarOptions::default())?, set)));
            if let Ok((grammar, set)) = &compiled
                && let Some(text) = walk::finished(grammar, row.schemas as u64)?
            {
                match walk::judge(&text, set) {
                    Ok(()) => row.walks += 1,
                    Err(error) => row.failures.push(format!("a walk: {error}: {text}")),
                }
            }
            match compiled {
                Ok(_) if usable.iter().all(|other| other["name"] != tool["name"]) => usable.push(tool),
                Ok(_) => {}
                Err(error) => *row.refused.entry(reason(&error.to_string())).or_default() += 1,
            }
        }
        let truth = entry["id"].as_str().and_then(|id| answers.get(id));
        let Some(Value::Array(truth)) = truth else { continue };
        let set = ToolSet::from_json(&Value::Array(usable.clone()))?;
        let grammar = Grammar::compile(&set, vocabulary, &GrammarOptions::default())?;
        for call in truth {
            let Some((name, arguments)) = call.as_object().and_then(|call| call.iter().next()) else {
                continue;
            };
            row.references += 1;
            let Some(tool) = usable.iter().find(|tool| tool["name"] == name.as_str()) else {
                let reason = "the tool is refused or not among those offered";
                *row.contradictions.entry(reason.into()).or_default() += 1;
                continue;
            };
            let call = ToolCall {
                name: name.clone(),
                arguments: in_order(&concrete(arguments), &tool["parameters"]),
            };
            reference(&mut row, &set, &grammar, &call, &tool["parameters"]);
        }
    }
    Ok(row)
}

/// One reference answer and everything that is wrong in its neighbourhood.
fn reference(row: &mut Row, set: &ToolSet, grammar: &Grammar, call: &ToolCall, parameters: &Value) {
    if let Err(error) = set.check_call(call) {
        *row.contradictions.entry(reason(&error.to_string())).or_default() += 1;
        return;
    }
    if !admits(grammar, call) {
        row.failures.push(format!("refused: {} {}", call.name, call.arguments));
        return;
    }
    for (kind, mutation) in mutations(call, parameters) {
        // A value of another type may be allowed as well: only what the last check refuses is wrong.
        if kind == "wrong type" && set.check_call(&mutation).is_ok() {
            continue;
        }
        match admits(grammar, &mutation) {
            true => row.failures.push(format!(
                "accepted with {kind}: {} {}",
                mutation.name, mutation.arguments
            )),
            false => *row.mutations.entry(kind).or_default() += 1,
        }
    }
}

/// Calls that are wrong in one place.
fn mutations(call: &ToolCall, parameters: &Value) -> Vec<(&'static str, ToolCall)> {
    let mut found = vec![(
        "unknown tool",
        ToolCall {
            name: format!("{}_x", call.name),
            ..call.clone()
        },
    )];
    let Some(arguments) = call.arguments.as_object() else {
        return found;
    };
    let mut with = |kind, change: &dyn Fn(&mut Map<String, Value>)| {
        let mut changed = arguments.clone();
        change(&mut changed);
        found.push((
            kind,
            ToolCall {
                arguments: changed.into(),
                ..call.clone()
            },
        ));
    };
    for name in parameters["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        with("missing required", &|changed| {
            changed.shift_remove(name);
        });
    }
    with("unknown key", &|changed| {
        changed.insert("no_such_key".into(), 1.into());
    });
    for (name, value) in arguments {
        let other = match value {
            Value::String(_) => Value::from(12),
            _ => Value::from("twelve"),
        };
        with("wrong type", &|changed| {
            changed.insert(name.clone(), other.clone());
        });
        let schema = &parameters["properties"][name];
        if schema.get("enum").is_some() {
            with("out of range", &|changed| {
                changed.insert(name.clone(), "no such value".into());
            });
        }
        if let Some(maximum) = schema["maximum"].as_i64() {
            with("out of range", &|changed| {
                changed.insert(name.clone(), (maximum + 1).into());
            });
        }
    }
    found
}

/// Whether the grammar lets the call through, byte by byte.
fn admits(grammar: &Grammar, call: &ToolCall) -> bool {
    let name = Value::from(call.name.as_str());
    let text = format!("[{{\"name\":{name},\"arguments\":{}}}]", call.arguments);
    let (open, close) = grammar.vocabulary().markers().tool_call;
    let mut matcher = grammar.matcher();
    std::iter::once(open)
        .chain(text.bytes().map(u32::from))
        .chain([close])
        .all(|token| matcher.accept(token).is_ok())
}

/// An error without the names in it, to count its kind.
fn reason(error: &str) -> String {
    let mut words = Vec::new();
    let mut quoted = false;
    for part in error.split('"') {
        if !quoted {
            words.push(part.to_string());
        }
        quoted = !quoted;
    }
    let text = words.join("…");
    let parts: Vec<&str> = text.split(": ").collect();
    // A schema's refusal ends in keyword and reason, a call's in the reason alone.
    let kept = if text.starts_with("call") { 1 } else { 2 };
    parts[parts.len().saturating_sub(kept)..].join(": ")
}

/// One token a byte: the cut into tokens makes no difference to what is accepted.
fn bytes() -> Result<Vocabulary> {
    let mut tokens: Vec<Token> = (0..=255)
        .map(|byte| Token {
            bytes: vec![byte],
            kind: TokenKind::Byte,
        })
        .collect();
    for marker in ["<tool_call>", "</tool_call>", "</s>"] {
        tokens.push(Token {
            bytes: marker.into(),
            kind: TokenKind::Marker,
        });
    }
    let markers = Markers {
        think: None,
        tool_call: (256, 257),
        im_end: None,
        eos: 258,
    };
    match Vocabulary::new(tokens, markers) {
        Ok(vocabulary) => Ok(vocabulary),
        Err(error) => bail!("{error}"),
    }
}
