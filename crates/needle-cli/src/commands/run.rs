//! `needle run`: one query, one answer.

use std::io::{self, Write};

use anyhow::{Result, bail};
use needle_core::{Flow, Response, compact_json};
use serde_json::json;

use crate::{args::RunArgs, input};

pub(crate) fn run(args: &RunArgs) -> Result<()> {
    if args.tools.tools == "-" && args.query.as_deref().is_none_or(|query| query == "-") {
        bail!(input::WrongUsage("tools and query cannot both come from stdin".into()));
    }
    let query = input::text_or_stdin(args.query.as_deref(), "query")?;
    let tools = input::tool_set(&args.tools.tools)?;
    let engine = input::engine(&args.model)?;
    let mut builder = input::agent(&engine, &tools, &args.tools, &args.decode);
    if args.stateless {
        builder = builder.stateless();
    }
    let mut agent = builder.build()?;
    let queries: Vec<&str> = if args.stateless {
        query.lines().filter(|line| !line.is_empty()).collect()
    } else {
        vec![&query]
    };
    let mut failed = None;
    for query in queries {
        let mut broken = None;
        let response = agent.complete_streaming(query, |text| match stream(args, text) {
            Ok(()) => Flow::Continue,
            Err(error) => {
                broken = Some(error);
                Flow::Stop
            }
        })?;
        if let Some(error) = broken {
            return Err(error.into());
        }
        print(args, &response)?;
        response
            .warnings
            .iter()
            .filter(|_| !args.model.quiet)
            .for_each(|warning| eprintln!("warning: {warning}"));
        failed = failed.or(response.error);
    }
    match failed {
        Some(error) => bail!(error),
        None => Ok(()),
    }
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
