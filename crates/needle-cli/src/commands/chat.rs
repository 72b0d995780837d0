//! `needle chat`: a conversation in the terminal. Tool results are typed in, or come from programs.

use std::{
    collections::HashMap,
    io::{self, BufRead, IsTerminal, Write},
    string::FromUtf8Error,
    time::Duration,
};

use anyhow::{Context, Error, Result, bail};
use needle_core::{Flow, Needle, Response, RunOptions, Tool, ToolSet, compact_json, tool::HandlerError};
use serde_json::{Value, json};

use crate::{args::ChatArgs, input, notice, program, remarks};

pub(crate) fn run(args: &ChatArgs) -> Result<()> {
    if args.tools.tools == "-" {
        bail!(input::WrongUsage(
            "the conversation is read from stdin, so the tools cannot be".into()
        ));
    }
    let sampling = args.decode.sampling()?;
    let programs = programs(&args.exec)?;
    let declared = input::tool_set(&args.tools.tools)?;
    if let Some(unknown) = programs.keys().find(|name| declared.find(name).is_none()) {
        bail!(input::WrongUsage(format!("--exec {unknown}: there is no such tool")));
    }
    let limit = Duration::from_secs(args.exec_timeout);
    let equipped = declared
        .tools()
        .map(|tool| equip(tool, programs.get(tool.name()), limit));
    let tools = ToolSet::new(equipped)?;
    let engine = input::engine(&args.model)?;
    if !args.model.quiet {
        input::warn_of_other_tools(&engine, &declared);
    }
    let mut builder = input::agent(&engine, &tools, &args.tools)
        .sampling(sampling)
        .max_new_tokens(args.decode.max_new_tokens);
    if args.stateless {
        builder = builder.stateless();
    }
    converse(args, &mut builder.build()?)
}

/// Answers line by line. A query that fails does not end the conversation; a stdout that cannot be written does.
fn converse(args: &ChatArgs, agent: &mut Needle) -> Result<()> {
    let talk = io::stdin().is_terminal();
    if talk {
        notice::say("Ask in words. /reset forgets the conversation, /quit or Ctrl-D ends it.");
    }
    let (mut asked, mut failed) = (0, 0);
    loop {
        if talk {
            notice::ask("> ");
        }
        let Some(line) = read_line().context("stdin")? else {
            break;
        };
        let answered = match line.as_deref().map(str::trim) {
            Ok("") => continue,
            Ok("/quit") => break,
            Ok("/reset") => {
                agent.reset();
                continue;
            }
            Ok(query) => agent
                .run_with(query, RunOptions::default(), |_| Flow::Continue)
                .map_err(Error::from),
            Err(_) => Err(Error::msg("the line is not UTF-8")),
        };
        asked += 1;
        failed += usize::from(!answered.as_ref().is_ok_and(|response| response.success));
        match answered {
            Ok(response) => show(args, &response)?,
            Err(error) => {
                let reason = notice::one_line(&error);
                notice::say(format!("error: {reason}"));
                if args.json {
                    writeln!(io::stdout().lock(), "{}", json!({ "error": reason }))?;
                }
            }
        }
    }
    if failed > 0 {
        bail!("{failed} of {asked} queries failed");
    }
    Ok(())
}

/// Calls, results and words on stdout; what is to be said about them on stderr.
fn show(args: &ChatArgs, response: &Response) -> Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(response)?)?;
        return Ok(());
    }
    if let Some(reasoning) = &response.reasoning {
        writeln!(out, "({reasoning})")?;
    }
    for (call, result) in response.function_calls.iter().zip(&response.results) {
        let (arguments, result) = (compact_json(&call.arguments), compact_json(result));
        writeln!(out, "{}({arguments}) = {result}", call.name)?;
    }
    if !response.text.is_empty() {
        writeln!(out, "{}", response.text)?;
    }
    let nothing =
        response.function_calls.is_empty() && response.suppressed_calls.is_empty() && response.text.is_empty();
    match &response.error {
        Some(error) => notice::say(format!("no answer: {}", notice::flat(error))),
        None if nothing && !args.model.quiet => notice::say("no tool fits"),
        None => {}
    }
    if !args.model.quiet {
        remarks::say(response, args.tools.min_confidence);
    }
    Ok(())
}

/// The tool with a handler: its program, or whoever sits at the terminal.
fn equip(tool: &Tool, program: Option<&String>, limit: Duration) -> Tool {
    let name = tool.name().to_owned();
    match program.cloned() {
        Some(program) => tool.clone().handler(move |arguments| {
            program::execute(&program, arguments, limit).map_err(|error| format!("{program}: {error:#}").into())
        }),
        None => tool.clone().handler(move |arguments| typed(&name, arguments)),
    }
}

/// A result from the terminal. Where stdin is none, its lines are the next queries and no results.
fn typed(name: &str, arguments: &Value) -> Result<Value, HandlerError> {
    if !io::stdin().is_terminal() {
        return Err(format!("nobody can type the result of {name}: give --exec {name}=PROGRAM").into());
    }
    notice::ask(format!(
        "result of {name}({}), as JSON or text: ",
        compact_json(arguments)
    ));
    let line = read_line()?.ok_or_else(|| format!("the input ended before a result of {name}"))??;
    Ok(serde_json::from_str(&line).unwrap_or(Value::String(line)))
}

/// Which program carries out which tool.
fn programs(exec: &[String]) -> Result<HashMap<String, String>> {
    let mut programs = HashMap::new();
    for entry in exec {
        let (tool, program) = match entry.split_once('=') {
            Some((tool, program)) if !tool.is_empty() && !program.is_empty() => (tool, program),
            _ => bail!(input::WrongUsage(format!("--exec {entry}: expected TOOL=PROGRAM"))),
        };
        if programs.insert(tool.to_owned(), program.to_owned()).is_some() {
            bail!(input::WrongUsage(format!("--exec {tool}: given twice")));
        }
    }
    Ok(programs)
}

/// A line without its end, `None` where there are no more.
fn read_line() -> io::Result<Option<Result<String, FromUtf8Error>>> {
    let mut line = Vec::new();
    if io::stdin().lock().read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let text = String::from_utf8(line);
    Ok(Some(text.map(|text| text.trim_end_matches(['\n', '\r']).to_owned())))
}
