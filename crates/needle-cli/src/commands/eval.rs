//! `needle eval`: how often a model calls what a file of examples wants.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use needle_core::{
    compact_json,
    cpu::Threads,
    data::Dataset,
    score::{self, Case, EvalOptions, Form, Outcome, Report, Scores, bfcl},
};
use serde_json::json;

use crate::{args::ModelArgs, input, notice, numbers, progress};

/// Ask a model every query of a file and count how often it calls what is wanted.
///
/// The file holds JSON lines as `needle data` describes them, or the questions of BFCL.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,

    /// File of examples, or - for stdin
    #[arg(value_name = "DATA|-")]
    data: String,

    /// Offer these tools to every query: a JSON file or the JSON itself [default: each line's own]
    #[arg(long, short, value_name = "FILE|JSON")]
    tools: Option<String>,

    /// Possible answers, where DATA is a file of BFCL's questions
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,

    /// Ask the first N only [default: all]
    #[arg(long, value_name = "N", value_parser = numbers::count())]
    limit: Option<usize>,

    /// Let the model write freely; what is no valid call counts as a fault
    #[arg(long)]
    no_grammar: bool,

    /// Queries answered at once [default: as many as there are cores on the CPU, else 1]
    #[arg(long, value_name = "N", value_parser = numbers::count())]
    sessions: Option<usize>,

    /// Tokens to write at most, for each query
    #[arg(long, default_value_t = 256, value_name = "N")]
    max_new_tokens: usize,

    /// Show up to N queries that went wrong
    #[arg(long, value_name = "N", default_value_t = 0)]
    show_errors: usize,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Also write the tables to this file, as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut cases = cases(args)?;
    if let Some(tools) = &args.tools {
        let tools = input::tool_set(tools)?;
        cases.iter_mut().for_each(|case| case.tools = Ok(tools.clone()));
    }
    cases.truncate(args.limit.unwrap_or(usize::MAX));
    // Every session has a core of its own.
    let engine = input::engine_with(&args.model, Threads::Exactly(1))?;
    let options = EvalOptions {
        form: if args.no_grammar { Form::Free } else { Form::Constrained },
        sessions: args.sessions,
        max_new_tokens: args.max_new_tokens,
    };
    let bar = match args.model.quiet {
        true => ProgressBar::hidden(),
        false => progress::of_cases(cases.len()),
    };
    let report = score::evaluate(&engine, &cases, &options, |progress| {
        bar.set_position(progress.done as u64);
        bar.set_message(format!("{} exact", progress.exact));
    });
    bar.finish_and_clear();
    let report = report?;
    if let Some(path) = &args.markdown {
        needle_core::data::write_lines(path, report.markdown().lines())?;
    }
    let errors = report.errors();
    let shown = &errors[..args.show_errors.min(errors.len())];
    let mut out = io::stdout().lock();
    if args.json {
        let mut value = serde_json::to_value(&report)?;
        value["errors"] = serde_json::to_value(shown)?;
        writeln!(out, "{value}")?;
    } else {
        write!(
            out,
            "{}{}",
            text(&report),
            shown.iter().map(|outcome| error(outcome)).collect::<String>()
        )?;
    }
    Ok(())
}

/// The cases of the file, whatever its form. Lines that cannot be used are said aloud.
fn cases(args: &Args) -> Result<Vec<Case>> {
    let bytes = input::bytes(&args.data)?;
    let questions = std::str::from_utf8(&bytes).ok().filter(|text| bfcl::is_questions(text));
    let (cases, rejected) = match (questions, &args.answers) {
        (Some(questions), answers) => {
            let read = |path: &PathBuf| fs::read_to_string(path).with_context(|| path.display().to_string());
            let answers = answers.as_ref().map(read).transpose()?;
            bfcl::cases(questions, answers.as_deref())?
        }
        (None, Some(_)) => bail!(
            "{}: --answers goes with a file of BFCL's questions, and this is none",
            args.data
        ),
        (None, None) => {
            let data = Dataset::read(bytes.as_slice(), input::source_name(&args.data))?;
            data.expect_rows()?;
            (score::cases(&data.rows), data.rejected)
        }
    };
    if cases.is_empty() {
        let why = rejected.first().map(|first| format!(": {first}")).unwrap_or_default();
        bail!("{}: nothing to ask{why}", args.data);
    }
    if !args.model.quiet {
        input::say_rejected(&rejected);
    }
    Ok(cases)
}

fn text(report: &Report) -> String {
    let overall = &report.overall;
    let mut lines = vec![
        format!("exact call          {}", overall.exact.words()),
        format!("right tools         {}", overall.tools.words()),
        format!("argument precision  {}", overall.argument_precision.words()),
        format!("argument recall     {}", overall.argument_recall.words()),
        format!("refusals            {}", overall.refusals.words()),
        format!("faults              {}", overall.faults),
    ];
    for (title, groups) in [("by category", &report.categories), ("by tool wanted", &report.tools)] {
        let width = groups
            .iter()
            .map(|group| notice::flat(&group.name).chars().count())
            .max()
            .unwrap_or(0);
        let line = |group: &Scores| format!("  {:width$}  {}", notice::flat(&group.name), group.exact.words());
        if !groups.is_empty() {
            lines.push(format!("exact call {title}"));
            lines.extend(groups.iter().map(line));
        }
    }
    if let Some(reliability) = &report.reliability {
        lines.push(format!(
            "calibration error   {:.3} over {} cases",
            reliability.ece, reliability.n
        ));
        lines.push("exact call by least confidence".into());
        for row in &reliability.thresholds {
            lines.push(format!(
                "  {:.2}  kept {:>5}  {}",
                row.least,
                row.kept.right,
                row.exact.words()
            ));
        }
    }
    lines.join("\n") + "\n"
}

fn error(outcome: &Outcome) -> String {
    let made = match (&outcome.fault, json!(outcome.made)) {
        (Some(fault), _) => format!("fault   {}", notice::flat(fault)),
        (None, made) => format!("made    {}", notice::flat(&compact_json(&made))),
    };
    format!(
        "\n{} ({})\nquery   {}\nwanted  {}\n{made}\n",
        outcome.id,
        notice::flat(&outcome.category),
        notice::flat(&outcome.query),
        notice::flat(&compact_json(&json!(outcome.expected))),
    )
}
