//! `needle extract`: values of a schema out of one text, or out of every line of a file.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
};

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use needle_core::{Extraction, Extractor, compact_json};
use serde_json::{Value, json};

use crate::{args::ExtractArgs, input, notice, progress};

pub(crate) fn run(args: &ExtractArgs) -> Result<()> {
    let (what, source) = match &args.jsonl {
        Some(source) => ("jsonl", Some(source.as_str())),
        None => ("text", args.text.as_deref()),
    };
    input::apart(("schema", &args.schema), (what, source))?;
    let (text, name) = input::json_text(&args.schema, "schema")?;
    let schema: Value = serde_json::from_str(&text).with_context(|| format!("{name}: not JSON"))?;
    let engine = input::engine(&args.model)?;
    let extractor = Extractor::new(&engine, &schema).with_context(|| name)?;
    let mut extractor = extractor.max_new_tokens(args.max_new_tokens);
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

/// One result line for every input line, in order, each as soon as it is there; a bad line gets an `error` and does not stop
/// the rest.
fn lines(args: &ExtractArgs, extractor: &mut Extractor, source: &str) -> Result<()> {
    let (mut input, size): (Box<dyn BufRead>, _) = match source {
        "-" => (Box::new(io::stdin().lock()), None),
        path => {
            let file = File::open(path).with_context(|| path.to_owned())?;
            let facts = file.metadata().with_context(|| path.to_owned())?;
            (Box::new(BufReader::new(file)), facts.is_file().then_some(facts.len()))
        }
    };
    let bar = match args.model.quiet {
        true => ProgressBar::hidden(),
        false => progress::of_bytes(size),
    };
    let (mut count, mut failures) = (0, 0);
    let mut raw = Vec::new();
    loop {
        raw.clear();
        let read = input.read_until(b'\n', &mut raw).with_context(|| source.to_owned())?;
        if read == 0 {
            break;
        }
        count += 1;
        let found = text_of(&raw)
            .and_then(|text| Ok(extractor.extract(&text)?))
            .and_then(|found| line(args, &found));
        let result = found.unwrap_or_else(|error| {
            failures += 1;
            compact_json(&json!({ "error": format!("line {count}: {}", notice::one_line(&error)) }))
        });
        bar.suspend(|| writeln!(io::stdout().lock(), "{result}"))?;
        bar.inc(read as u64);
    }
    bar.finish_and_clear();
    if failures > 0 {
        bail!("{failures} of {count} lines failed; each has its reason in its result");
    }
    Ok(())
}

/// A line is a JSON string, or an object with a field `text`.
fn text_of(line: &[u8]) -> Result<String> {
    let line = std::str::from_utf8(line).context("not UTF-8")?;
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
        "prefill_tps": response.prefill_tps, "decode_tps": response.decode_tps, "stop_reason": response.stop_reason,
        "device": response.device, "dtype": response.dtype,
    })))
}
