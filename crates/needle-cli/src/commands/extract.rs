//! `needle extract`: values of a schema out of one text, or out of every line of a file.

use std::{
    fs,
    io::{self, BufRead, IsTerminal, Write},
};

use anyhow::{Context, Result, bail};
use needle_core::{Extraction, Extractor, compact_json};
use serde_json::{Value, json};

use crate::{args::ExtractArgs, input};

pub(crate) fn run(args: &ExtractArgs) -> Result<()> {
    let (text, name) = input::json_text(&args.schema, "schema")?;
    let schema: Value = serde_json::from_str(&text).with_context(|| format!("{name}: not JSON"))?;
    let engine = input::engine(&args.model)?;
    let mut extractor = Extractor::new(&engine, &schema).with_context(|| name)?;
    if args.strict {
        extractor = extractor.strict();
    }
    if let Some(source) = &args.jsonl {
        return lines(args, &mut extractor, source);
    }
    let text = input::text_or_stdin(args.text.as_deref(), "text")?;
    let found = extractor.extract(&text)?;
    writeln!(io::stdout().lock(), "{}", line(args, &found)?)?;
    Ok(())
}

/// One result line for every input line, in order; a bad line gets an `error` and does not stop the rest.
fn lines(args: &ExtractArgs, extractor: &mut Extractor, source: &str) -> Result<()> {
    let all = match source {
        "-" => io::read_to_string(io::stdin().lock()).context("stdin")?,
        path => fs::read_to_string(path).with_context(|| path.to_owned())?,
    };
    let count = all.lines().count();
    let progress = (!args.model.quiet && io::stderr().is_terminal()).then(|| indicatif::ProgressBar::new(count as u64));
    let mut failures = 0;
    for (at, raw) in io::Cursor::new(&all).lines().enumerate() {
        let found = text_of(&raw?)
            .and_then(|text| Ok(extractor.extract(&text)?))
            .and_then(|found| line(args, &found));
        let result = found.unwrap_or_else(|error| {
            failures += 1;
            compact_json(&json!({ "error": format!("line {}: {error:#}", at + 1) }))
        });
        writeln!(io::stdout().lock(), "{result}")?;
        progress.iter().for_each(|bar| bar.inc(1));
    }
    progress.iter().for_each(|bar| bar.finish_and_clear());
    if failures > 0 {
        bail!("{failures} of {count} lines failed; each has its reason in its result");
    }
    Ok(())
}

/// A line is a JSON string, or an object with a field `text`.
fn text_of(line: &str) -> Result<String> {
    match serde_json::from_str(line).context("not JSON")? {
        Value::String(text) => Ok(text),
        Value::Object(fields) => match fields.get("text") {
            Some(Value::String(text)) => Ok(text.clone()),
            _ => bail!("expected a field `text`"),
        },
        _ => bail!("expected a text or an object with a field `text`"),
    }
}

fn line(args: &ExtractArgs, found: &Extraction) -> Result<String> {
    let value = found.value.clone().unwrap_or(Value::Null);
    if !args.json {
        return Ok(compact_json(&value));
    }
    let response = &found.response;
    Ok(compact_json(&json!({
        "value": value, "confidence": response.confidence, "validation": response.validation,
        "prompt_tokens": response.prompt_tokens, "completion_tokens": response.completion_tokens,
        "prefill_tps": response.prefill_tps, "decode_tps": response.decode_tps, "device": response.device,
    })))
}
