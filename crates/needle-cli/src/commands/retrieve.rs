//! `needle retrieve`: tools by nearness to a query.

use std::io::{self, Write};

use anyhow::Result;
use needle_core::ToolIndex;
use serde_json::json;

use crate::{args::RetrieveArgs, input, notice};

pub(crate) fn run(args: &RetrieveArgs) -> Result<()> {
    input::apart(("tools", &args.tools), ("query", args.query.as_deref()))?;
    let query = input::text_or_stdin(args.query.as_deref(), "query")?;
    let tools = input::tool_set(&args.tools)?;
    let engine = input::engine(&args.model)?;
    let index = ToolIndex::build(&engine, &tools, args.tool_index.as_deref())?;
    if !args.model.quiet {
        notice::say(format!("embedded {} of {} tools", index.embedded(), tools.len()));
    }
    let mut out = io::stdout().lock();
    for tool in index.rank(&engine, &query)?.into_iter().take(args.top_tools) {
        if args.json {
            let line = json!({ "name": tool.name, "similarity": tool.similarity, "named": tool.named });
            writeln!(out, "{line}")?;
        } else {
            writeln!(
                out,
                "{:+.4}  {}{}",
                tool.similarity,
                tool.name,
                if tool.named { "  (named)" } else { "" }
            )?;
        }
    }
    Ok(())
}
