//! `needle run`: one query, one answer; with `--stateless`, one answer a line.

use std::io::{self, Write};

use anyhow::{Error, Result, bail};
use needle_core::{Flow, Needle, Response, compact_json};
use serde_json::json;

use crate::{args::RunArgs, input, notice, remarks};

pub(crate) fn run(args: &RunArgs) -> Result<()> {
    input::apart(("tools", &args.tools.tools), ("query", args.query.as_deref()))?;
    let sampling = args.decode.sampling()?;
    let query = input::text_or_stdin(args.query.as_deref(), "query")?;
    let queries: Vec<(usize, &str)> = if args.stateless {
        let lines = (1..).zip(query.lines());
        lines.filter(|(_, line)| !line.trim().is_empty()).collect()
    } else {
        vec![(1, &query)]
    };
    if queries.is_empty() {
        bail!("the query is empty");
    }
    let tools = input::tool_set(&args.tools.tools)?;
    let engine = input::engine(&args.model)?;
    if !args.model.quiet {
        input::warn_of_other_tools(&engine, &tools);
    }
    let mut builder = input::agent(&engine, &tools, &args.tools)
        .sampling(sampling)
        .max_new_tokens(args.decode.max_new_tokens);
    if args.stateless {
        builder = builder.stateless();
    }
    let mut agent = builder.build()?;
    let mut failures = 0;
    for (number, query) in &queries {
        let failure = match answer(args, &mut agent, query)? {
            Ok(response) => response.error.map(Error::msg),
            Err(error) => {
                let error = Error::from(error);
                if args.stateless && args.json {
                    let reason = format!("line {number}: {}", notice::one_line(&error));
                    writeln!(io::stdout().lock(), "{}", json!({ "error": reason }))?;
                }
                Some(error)
            }
        };
        let Some(failure) = failure else { continue };
        if !args.stateless {
            return Err(failure);
        }
        failures += 1;
        notice::say(format!("error: line {number}: {}", notice::one_line(&failure)));
    }
    if failures > 0 {
        bail!("{failures} of {} queries failed", queries.len());
    }
    Ok(())
}

/// The answer, printed; or why there is none. A stdout that cannot be written is the outer error.
fn answer(args: &RunArgs, agent: &mut Needle, query: &str) -> Result<needle_core::Result<Response>> {
    let mut written = Ok(());
    let answer = agent.complete_streaming(query, |text| {
        if written.is_ok() {
            written = stream(args, text);
        }
        match written {
            Ok(()) => Flow::Continue,
            Err(_) => Flow::Stop,
        }
    });
    written?;
    if let Ok(response) = &answer {
        print(args, response)?;
        match (args.model.quiet, args.json) {
            (true, _) => {}
            // The JSON has what was withheld.
            (false, true) => remarks::say(response, None),
            (false, false) => remarks::say(response, args.tools.min_confidence),
        }
    }
    Ok(answer)
}

/// A piece of the completion, as it is written.
fn stream(args: &RunArgs, text: &str) -> io::Result<()> {
    if !args.stream || text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json!({ "text": text }))?;
    } else {
        write!(out, "{text}")?;
    }
    out.flush()
}

fn print(args: &RunArgs, response: &Response) -> Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(response)?)?;
    } else if args.stream {
        writeln!(out)?;
    } else if response.success && response.function_calls.is_empty() && !response.text.is_empty() {
        writeln!(out, "{}", response.text)?;
    } else if response.success {
        writeln!(
            out,
            "{}",
            compact_json(&serde_json::to_value(&response.function_calls)?)
        )?;
    }
    Ok(())
}
