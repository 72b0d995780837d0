//! `needle data`: what a file of examples holds, line by line, in numbers, and cut in two.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Result, bail};
use needle_core::{
    Tokenizer,
    data::{Dataset, Row, Spread, Statistics, write_lines},
};
use serde_json::json;

use crate::{
    input::{self, WrongUsage},
    notice, numbers,
    progress::Progress,
};

/// Check, count or split a file of training or evaluation examples.
///
/// Examples are JSON lines: `query`, `tools`, `answers` (or `function_calls`), `reasoning`, `system`, `category`; or OpenAI's
/// `messages` and `tools`, one turn each. Packed with gzip or not.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Name every line that cannot be used, is odd, or says the same as another; ends with 1 where a line is rejected
    Check(CheckArgs),
    /// Count rows, tools, categories, refusals and, with a model, tokens
    Stats(StatsArgs),
    /// Hold out a share of the rows; rows that ask the same stay on one side, and every kind gives its share
    Split(SplitArgs),
}

#[derive(clap::Args, Debug)]
struct CheckArgs {
    /// File of examples, or - for stdin
    #[arg(value_name = "FILE|-")]
    file: String,

    /// Also name lines that are longer than --max-len with this model's tokenizer [default: lengths are not looked at]
    #[arg(long, short, value_name = "FILE|NAME|demo")]
    model: Option<String>,

    /// Tokens that a row may have, prompt and answer
    #[arg(long, value_name = "N", default_value_t = 1024, requires = "model", value_parser = numbers::count())]
    max_len: usize,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct StatsArgs {
    /// File of examples, or - for stdin
    #[arg(value_name = "FILE|-")]
    file: String,

    /// Count tokens with this model's tokenizer [default: no tokens are counted]
    #[arg(long, short, value_name = "FILE|NAME|demo")]
    model: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct SplitArgs {
    /// File of examples, or - for stdin
    #[arg(value_name = "FILE|-")]
    file: String,

    /// Share of the rows to hold out, above 0 and at most 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = numbers::share)]
    val_split: f64,

    /// The same seed holds out the same rows
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Where the rows to train on go [default: FILE with .train before its ending]
    #[arg(long, value_name = "FILE")]
    train: Option<PathBuf>,

    /// Where the rows held out go [default: FILE with .held-out before its ending]
    #[arg(long, value_name = "FILE")]
    held_out: Option<PathBuf>,

    /// Replace files that exist
    #[arg(long)]
    force: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::Check(args) => check(args),
        Action::Stats(args) => stats(args),
        Action::Split(args) => split(args),
    }
}

fn check(args: &CheckArgs) -> Result<()> {
    let data = input::dataset(&args.file)?;
    let overlong = match &args.model {
        Some(model) => data.overlong(&tokenizer(model)?, args.max_len),
        None => Vec::new(),
    };
    let mut out = io::stdout().lock();
    if args.json {
        let report = json!({
            "source": data.source, "lines": data.lines(), "rows": data.rows.len(), "blank": data.blank,
            "rejected": data.rejected, "warnings": data.warnings, "duplicates": data.duplicates, "overlong": overlong,
        });
        writeln!(out, "{report}")?;
    } else {
        let mut lines: Vec<(usize, String)> = Vec::new();
        let rejected = data.rejected.iter();
        lines.extend(rejected.map(|found| (found.line, format!("rejected: {}", found.reason))));
        let warnings = data.warnings.iter();
        lines.extend(warnings.map(|found| (found.line, format!("warning: {}", found.caution))));
        let duplicates = data.duplicates.iter();
        lines.extend(duplicates.map(|found| (found.line, format!("the same as line {}", found.first))));
        lines.extend(overlong.iter().map(|found| {
            let cut = match found.target_cut {
                0 => String::new(),
                cut => format!(", which cuts {cut} of its answer"),
            };
            (
                found.line,
                format!("{} tokens, more than {}{cut}", found.tokens, args.max_len),
            )
        }));
        lines.sort_by_key(|(line, _)| *line);
        for (line, what) in lines {
            writeln!(out, "line {line}: {}", notice::flat(&what))?;
        }
        let Dataset {
            rows,
            rejected,
            warnings,
            duplicates,
            ..
        } = &data;
        writeln!(
            out,
            "{}: {}, {}, {} rejected, {}, {}",
            data.source,
            count(data.lines(), "line"),
            count(rows.len(), "row"),
            rejected.len(),
            count(warnings.len(), "warning"),
            count(duplicates.len(), "duplicate"),
        )?;
    }
    if !data.rejected.is_empty() {
        bail!("{} of {} lines cannot be used", data.rejected.len(), data.lines());
    }
    data.expect_rows()?;
    Ok(())
}

fn stats(args: &StatsArgs) -> Result<()> {
    let data = input::dataset(&args.file)?;
    let tokenizer = args.model.as_deref().map(tokenizer).transpose()?;
    let statistics = data.statistics(tokenizer.as_ref());
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&statistics)?)?;
    } else {
        write!(out, "{}", text(&statistics))?;
    }
    Ok(())
}

fn text(statistics: &Statistics) -> String {
    let mut lines = vec![
        format!("rows        {}", statistics.rows),
        format!("rejected    {}", statistics.rejected),
        format!("warned      {}", statistics.warned),
        format!("duplicates  {}", statistics.duplicates),
        format!("refusals    {}", statistics.refusals),
        format!("parallel    {}", statistics.parallel),
        format!("reasoning   {}", statistics.with_reasoning),
        format!("system      {}", statistics.with_system),
        format!("tools a row {}", spread(&statistics.tools_offered)),
    ];
    if let Some(tokens) = &statistics.tokens {
        lines.push(format!("prompt      {}", spread(&tokens.prompt)));
        lines.push(format!("answer      {}", spread(&tokens.target)));
        lines.push(format!("tokens      {}, {} in all", spread(&tokens.total), tokens.sum));
    }
    lines.push("categories".into());
    let categories = statistics.categories.iter();
    lines.extend(categories.map(|(name, rows)| format!("  {rows:>6}  {}", notice::flat(name))));
    lines.push("tools (offered, called)".into());
    let tools = statistics.tools.iter();
    lines.extend(tools.map(|tool| format!("  {:>6} {:>6}  {}", tool.offered, tool.called, notice::flat(&tool.name))));
    lines.join("\n") + "\n"
}

fn spread(spread: &Spread) -> String {
    let Spread {
        min,
        mean,
        p50,
        p90,
        p95,
        p99,
        max,
    } = spread;
    format!("{min} to {max}, mean {mean:.1}; 50 % {p50}, 90 % {p90}, 95 % {p95}, 99 % {p99}")
}

fn split(args: &SplitArgs) -> Result<()> {
    let [train, held_out] = outputs(args)?;
    let data = input::dataset(&args.file)?;
    data.expect_rows()?;
    input::say_findings(&data);
    let split = data.split(args.val_split, args.seed);
    if split.held_out.is_empty() {
        bail!("all rows ask the same: nothing can be held out");
    }
    for (path, rows) in [(&train, &split.train), (&held_out, &split.held_out)] {
        let lines: Vec<String> = rows.iter().map(Row::to_line).collect();
        write_lines(path, lines.iter().map(String::as_str))?;
    }
    let mut out = io::stdout().lock();
    let sides = [
        ("train", &train, split.train.len()),
        ("held_out", &held_out, split.held_out.len()),
    ];
    if args.json {
        let side = |path: &PathBuf, rows: usize| json!({ "file": path, "rows": rows });
        let [train, held_out] = sides.map(|(_, path, rows)| side(path, rows));
        writeln!(
            out,
            "{}",
            json!({ "train": train, "held_out": held_out, "rejected": data.rejected.len() })
        )?;
    } else {
        for (name, path, rows) in sides {
            writeln!(out, "{name:<9} {rows:>6} rows  {}", path.display())?;
        }
    }
    Ok(())
}

/// Where the two sides go. Nothing that exists is replaced unasked.
fn outputs(args: &SplitArgs) -> Result<[PathBuf; 2]> {
    let file = PathBuf::from(&args.file);
    let beside = |word: &str| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let (stem, ending) = name.rsplit_once('.').unwrap_or((name, "jsonl"));
        file.with_file_name(format!("{stem}.{word}.{ending}"))
    };
    let path = |given: &Option<PathBuf>, word: &str| match given {
        Some(path) => Ok(path.clone()),
        None if args.file == "-" => Err(WrongUsage(
            "from stdin, --train and --held-out say where the rows go".into(),
        )),
        None => Ok(beside(word)),
    };
    let paths = [path(&args.train, "train")?, path(&args.held_out, "held-out")?];
    if paths[0] == paths[1] {
        return Err(WrongUsage("--train and --held-out are the same file".into()).into());
    }
    for path in &paths {
        if *path == file || (path.exists() && !args.force) {
            bail!("{} exists; --force replaces it", path.display());
        }
    }
    Ok(paths)
}

/// The tokenizer of a model.
fn tokenizer(model: &str) -> Result<Tokenizer> {
    Ok(input::checkpoint(Some(model), &Progress::stderr())?.tokenizer()?)
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
