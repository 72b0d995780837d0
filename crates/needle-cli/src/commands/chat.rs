//! `needle chat`: a conversation in the terminal. Tool results are typed in, or come from programs.

use std::{
    collections::HashMap,
    io::{self, BufRead, IsTerminal, Write},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use needle_core::{Flow, Needle, Response, RunOptions, Tool, ToolSet, compact_json};
use serde_json::Value;

use crate::{args::ChatArgs, input};

pub(crate) fn run(args: &ChatArgs) -> Result<()> {
    if args.tools.tools == "-" {
        bail!(input::WrongUsage(
            "the conversation is read from stdin, so the tools cannot be".into()
        ));
    }
    let programs = programs(&args.exec)?;
    let declared = input::tool_set(&args.tools.tools)?;
    if let Some(unknown) = programs.keys().find(|name| declared.find(name).is_none()) {
        bail!(input::WrongUsage(format!("--exec {unknown}: there is no such tool")));
    }
    let tools = ToolSet::new(declared.tools().map(|tool| equip(tool, programs.get(tool.name()))))?;
    let engine = input::engine(&args.model)?;
    let mut builder = input::agent(&engine, &tools, &args.tools, &args.decode);
    if args.stateless {
        builder = builder.stateless();
    }
    let mut agent = builder.build()?;
    let talk = io::stdin().is_terminal();
    if talk {
        eprintln!("Ask in words. /reset forgets the conversation, /quit or Ctrl-D ends it.");
    }
    loop {
        if talk {
            eprint!("> ");
        }
        let Some(line) = read_line()? else { return Ok(()) };
        match line.trim() {
            "" => {}
            "/quit" => return Ok(()),
            "/reset" => agent.reset(),
            query => {
                if let Err(error) = answer(args, &mut agent, query) {
                    eprintln!("error: {error:#}");
                }
            }
        }
    }
}

fn answer(args: &ChatArgs, agent: &mut Needle, query: &str) -> Result<()> {
    let response = agent.run_with(query, RunOptions::default(), |_| Flow::Continue)?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&response)?)?;
        return Ok(());
    }
    show(&mut out, &response)?;
    response
        .warnings
        .iter()
        .filter(|_| !args.model.quiet)
        .for_each(|warning| eprintln!("warning: {warning}"));
    Ok(())
}

fn show(out: &mut impl Write, response: &Response) -> Result<()> {
    if let Some(reasoning) = &response.reasoning {
        writeln!(out, "({reasoning})")?;
    }
    for (call, result) in response.function_calls.iter().zip(&response.results) {
        writeln!(
            out,
            "{}({}) = {}",
            call.name,
            compact_json(&call.arguments),
            compact_json(result)
        )?;
    }
    if !response.text.is_empty() {
        writeln!(out, "{}", response.text)?;
    }
    match &response.error {
        Some(error) => writeln!(out, "no answer: {error}")?,
        None if response.function_calls.is_empty() => writeln!(out, "no tool fits")?,
        None => {}
    }
    Ok(())
}

/// The tool with a handler: its program, or whoever sits at the terminal.
fn equip(tool: &Tool, program: Option<&String>) -> Tool {
    let name = tool.name().to_owned();
    match program.cloned() {
        Some(program) => tool.clone().handler(move |arguments| {
            execute(&program, arguments).map_err(|error| format!("{program}: {error:#}").into())
        }),
        None => tool.clone().handler(move |arguments| {
            eprint!("result of {name}({}), as JSON or text: ", compact_json(arguments));
            let line = read_line()?.unwrap_or_default();
            Ok(serde_json::from_str(&line).unwrap_or(Value::String(line)))
        }),
    }
}

/// Runs a program with the arguments on its stdin; its stdout is the result. No shell, no command-line arguments.
fn execute(program: &str, arguments: &Value) -> Result<Value> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start")?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its arguments is no error.
        let _ = writeln!(stdin, "{}", compact_json(arguments));
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("ended with {}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn programs(exec: &[String]) -> Result<HashMap<String, String>> {
    let pair = |entry: &String| match entry.split_once('=') {
        Some((tool, program)) if !tool.is_empty() && !program.is_empty() => Ok((tool.to_owned(), program.to_owned())),
        _ => bail!(input::WrongUsage(format!("--exec {entry}: expected TOOL=PROGRAM"))),
    };
    exec.iter().map(pair).collect()
}

fn read_line() -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned()))
}
