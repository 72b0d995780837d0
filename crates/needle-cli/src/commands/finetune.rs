//! `needle finetune`: an adapter from a file of examples, judged on the archive that it makes.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use needle_core::{
    Adapter, Checkpoint, EngineOptions, Flow, Tokenizer,
    checkpoint::{BitMap, FileMark, Provenance},
    course::{Advice, Files, Finished, Start},
    cpu::Threads,
    data::{Dataset, Row, write_lines},
    finetune::{Finetune, FinetuneOptions, Plan, Report, Side, Trial, Verdict, judge},
    train::AdapterShape,
};
use serde_json::{Value, json};

use super::generate_data;
use crate::{args::ModelArgs, input, notice, numbers, outputs, training::Bar};

/// Lines of the data that are named at most.
const LINES: usize = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Examples: JSON lines with query, tools, answers (reasoning, system), or OpenAI chat lines; gzip or not
    #[arg(value_name = "DATA.jsonl|-")]
    data: String,

    #[command(flatten)]
    model: ModelArgs,

    /// The adapter; its report, metrics and archive are written beside it. A name in .pkl has the reference's own form
    #[arg(long, value_name = "FILE", default_value = "adapter.safetensors")]
    out: PathBuf,

    /// Times that every row is learnt from
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = numbers::count())]
    epochs: usize,

    /// Rows a step
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = numbers::count())]
    batch_size: usize,

    /// Learning rate after the warm-up
    #[arg(long, default_value_t = 1e-4, value_name = "RATE")]
    lr: f64,

    /// Width of the adapter
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = numbers::count())]
    lora_rank: usize,

    /// The adapter counts alpha/rank times
    #[arg(long, default_value_t = 32.0, value_name = "ALPHA")]
    lora_alpha: f64,

    /// Tokens of a row at most; a longer one loses its end, and is named
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = numbers::count())]
    max_len: usize,

    /// Share of the rows held out to judge by, 0 for none
    #[arg(long, default_value_t = 0.1, value_name = "SHARE")]
    val_split: f64,

    /// Decides the split, the first values and the order of the rows
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,

    /// Look at the held-out rows every N steps [default: at the end of every epoch]
    #[arg(long, value_name = "N", value_parser = numbers::count())]
    eval_every: Option<usize>,

    /// Stop after N looks without a new best, and take the best adapter [default: run to the end, take the last]
    #[arg(long, value_name = "N", value_parser = numbers::count())]
    early_stop: Option<usize>,

    /// First have a large model write N more rows like these, as `needle generate-data --augment` does
    #[arg(long, value_name = "N", requires = "generate_model", value_parser = numbers::count())]
    generate: Option<usize>,

    /// The large model, by its name at the endpoint (OPENROUTER_URL, OPENROUTER_API_KEY)
    #[arg(long, value_name = "NAME")]
    generate_model: Option<String>,

    /// Go on with the interrupted run of the same --out
    #[arg(long)]
    resume: bool,

    /// Say what the run would do and take, and do nothing
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,

    /// Widths of the archive's matrices: 2, 3, 4, ternary, or NAME=BITS,… as `needle build` has it [default: the base's own]
    #[arg(long, value_name = "BITS|MAP")]
    bits: Option<String>,

    /// Write no archive, and do not ask the held-out rows
    #[arg(long)]
    no_archive: bool,

    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

/// The files of a finished run.
struct Outputs {
    adapter: PathBuf,
    metrics: PathBuf,
    report: PathBuf,
    archive: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(threads) = args.model.threads {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    }
    let outputs = Outputs::of(&args.out);
    let files = Files::beside(&args.out);
    outputs.expect_apart(args, &files)?;
    let (base, tokenizer) = input::model(&args.model)?;
    let map = match &args.bits {
        Some(text) => BitMap::parse(text)?,
        None => BitMap::of(&base)?,
    };
    let data = input::dataset(&args.data)?;
    if !args.model.quiet {
        input::say_findings(&data);
    }
    let data = with_generated(args, data)?;
    let run = Finetune::prepare(&base, &tokenizer, &data, options(args))?;
    let device = input::device(&args.model)?;
    let plan = run.plan(&device)?;
    say_plan(args, &plan);
    if args.dry_run {
        return print_plan(args, &plan, &run.try_step(&device)?);
    }
    let start = start(args, &files)?;
    let bar = Bar::new(args.model.quiet, plan.steps);
    let course = run.course();
    let tuned = course.run(&device, start, Some(&files), |event| {
        bar.show(&event, plan.epochs);
        Flow::Continue
    })?;
    bar.finish();
    let adapter = tuned.trainer.adapter()?;
    adapter.save(&outputs.adapter)?;
    if let Some(advice) = Advice::of(&tuned.history) {
        notice::say(format!("hint: {advice}"));
    }
    let verdict = match args.no_archive {
        true => None,
        false => Some(ship(args, &base, &tokenizer, &adapter, &map, &run, &outputs)?),
    };
    let report = Report {
        base: &base.path.display().to_string(),
        device: &device.name,
        data: &data,
        options: run.options(),
        plan: &plan,
        history: &tuned.history,
        verdict: verdict.as_ref(),
    };
    report.save(&outputs.report)?;
    files.clear()?;
    print(args, &outputs, &tuned, &plan, verdict.as_ref())
}

fn options(args: &Args) -> FinetuneOptions {
    FinetuneOptions {
        epochs: args.epochs,
        batch_size: args.batch_size,
        learning_rate: args.lr,
        adapter: AdapterShape {
            rank: args.lora_rank,
            alpha: args.lora_alpha,
        },
        max_len: args.max_len,
        val_split: args.val_split,
        seed: args.seed,
        eval_every: args.eval_every,
        early_stop: args.early_stop,
    }
}

/// A run that was interrupted is neither lost by starting again nor resumed by accident.
fn start(args: &Args, files: &Files) -> Result<Start> {
    match (args.resume, files.state.exists()) {
        (true, true) => Ok(Start::Resumed),
        (true, false) => bail!("nothing to resume: {} is not there", files.state.display()),
        (false, true) => bail!(
            "{} is of an interrupted run: go on with --resume, or remove it to start anew",
            files.state.display()
        ),
        (false, false) => Ok(Start::Anew),
    }
}

/// Writes the archive and asks the held-out rows of it.
fn ship(
    args: &Args,
    base: &Checkpoint,
    tokenizer: &Tokenizer,
    adapter: &Adapter,
    map: &BitMap,
    run: &Finetune<'_>,
    outputs: &Outputs,
) -> Result<Verdict> {
    let merged = base
        .with_adapters(std::slice::from_ref(adapter))?
        .with_tokenizer(tokenizer)?;
    let written = merged.save_cact(&outputs.archive, map)?;
    let mark = match args.model.model.as_deref() {
        Some(input::DEMO) => FileMark::demo(),
        _ => FileMark::of(&base.path)?,
    };
    let mut record = Provenance::new(&written, map, mark, vec![FileMark::of(&outputs.adapter)?])?;
    record.tools = tools_of(run);
    record.save(&outputs.archive)?;
    let rows = &run.split().held_out;
    // Every session has a core of its own.
    let mut options = EngineOptions::from(args.model.device);
    options.cpu.threads = Threads::Exactly(1);
    let bar = Bar::new(args.model.quiet, 2 * rows.len());
    let verdict = judge(base, tokenizer, adapter, map, rows, options, |side, progress| {
        let (asked, before) = match side {
            Side::Before => ("before", 0),
            Side::After => ("after", rows.len()),
        };
        let message = format!("asking the held-out rows, {asked}: {} exact", progress.exact);
        bar.at(before + progress.done, message);
    })?;
    bar.finish();
    Ok(verdict)
}

/// The fingerprints of all tools that the rows offer; `None` where one name stands for different tools.
fn tools_of(run: &Finetune<'_>) -> Option<BTreeMap<String, String>> {
    let mut known = BTreeMap::new();
    let rows = run.split().train.iter().chain(&run.split().held_out);
    for (name, print) in rows
        .filter_map(|row| row.tools.as_ref())
        .flat_map(|tools| tools.fingerprints())
    {
        if *known.entry(name).or_insert_with(|| print.clone()) != print {
            return None;
        }
    }
    Some(known)
}

impl Outputs {
    fn of(adapter: &Path) -> Self {
        Self {
            adapter: adapter.to_owned(),
            metrics: Files::beside(adapter).metrics,
            report: adapter.with_extension("report.html"),
            archive: adapter.with_extension("cact"),
        }
    }

    /// Nothing that is read may be written, nor one file twice.
    fn expect_apart(&self, args: &Args, files: &Files) -> Result<()> {
        let made = ["data.jsonl", "generated.jsonl"].map(|ending| args.out.with_extension(ending));
        let mut written = vec![
            &self.adapter,
            &self.metrics,
            &self.report,
            &self.archive,
            &files.state,
            &files.best,
        ];
        if args.generate.is_some() {
            written.extend(&made);
        }
        let model = args.model.model.as_deref().map(Path::new);
        let read = [Some(Path::new(&args.data)), model, args.model.tokenizer.as_deref()];
        outputs::expect_apart(written, read.into_iter().flatten())
    }
}

/// The rows with those that a large model writes, all of them once more in one file, so that equal ones are found.
fn with_generated(args: &Args, data: Dataset) -> Result<Dataset> {
    let (Some(count), Some(model)) = (args.generate, &args.generate_model) else {
        return Ok(data);
    };
    let own: Vec<_> = data.rows.iter().map(Row::to_line).collect();
    let all = args.out.with_extension("data.jsonl");
    write_lines(&all, own.iter().map(String::as_str))?;
    let generated = args.out.with_extension("generated.jsonl");
    generate_data::generate(&generate_data::Args::like(
        &all,
        generated.clone(),
        count,
        model,
        args.model.quiet,
    ))?;
    let new = Dataset::open(&generated)?;
    let new: Vec<_> = new.rows.iter().map(Row::to_line).collect();
    write_lines(&all, own.iter().chain(&new).map(String::as_str))?;
    let mut both = Dataset::open(&all)?;
    (both.rejected, both.warnings) = (data.rejected, data.warnings);
    Ok(both)
}

fn say_lines(args: &Args, what: &str, lines: Vec<String>) {
    if args.model.quiet {
        return;
    }
    for line in lines.iter().take(LINES) {
        notice::say(format!("{what}: {}", notice::flat(line)));
    }
    if lines.len() > LINES {
        notice::say(format!(
            "{what}: {} more; `needle data check` lists them all",
            lines.len() - LINES
        ));
    }
}

fn say_plan(args: &Args, plan: &Plan) {
    let cut = plan.cut.iter().map(|row| {
        format!(
            "line {}: {} tokens, the last {} of the completion are lost",
            row.line, row.tokens, row.target_cut
        )
    });
    let left = plan
        .left_out
        .iter()
        .map(|row| format!("line {}: {} tokens, the prompt alone is too long", row.line, row.tokens));
    say_lines(args, "cut", cut.collect());
    say_lines(args, "left out", left.collect());
    if args.model.quiet {
        return;
    }
    notice::say(format!(
        "rows: {} to learn from, {} held out; {} to {} tokens, {:.0} in the middle",
        plan.rows, plan.held_out, plan.tokens.min, plan.tokens.max, plan.tokens.mean
    ));
    notice::say(format!(
        "adapter: {} matrices, {} numbers; {} steps, {} of them warm-up",
        plan.groups, plan.parameters, plan.steps, plan.warmup_steps
    ));
}

fn print_plan(args: &Args, plan: &Plan, trial: &Trial) -> Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json!({ "plan": plan, "trial": trial }))?;
        return Ok(());
    }
    writeln!(out, "steps      {} ({} an epoch)", plan.steps, plan.steps_per_epoch)?;
    writeln!(
        out,
        "tokens     {} an epoch, {} of them scored",
        plan.epoch_tokens, plan.epoch_scored_tokens
    )?;
    writeln!(out, "a step     {:.1} s", trial.step_ms / 1e3)?;
    writeln!(out, "the run    {}", duration(trial.run_s))?;
    if let Some(mb) = trial.peak_ram_mb {
        writeln!(out, "memory     {mb:.0} MB")?;
    }
    Ok(())
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

fn print(args: &Args, outputs: &Outputs, tuned: &Finished, plan: &Plan, verdict: Option<&Verdict>) -> Result<()> {
    let mut out = io::stdout().lock();
    let step = tuned.trainer.steps_taken();
    let loss = tuned.history.losses().last().map(|(_, loss)| *loss);
    let val_loss = tuned
        .history
        .looks()
        .into_iter()
        .find(|(at, _)| *at == step)
        .map(|(_, loss)| loss);
    let archive = (!args.no_archive).then(|| outputs.archive.display().to_string());
    if args.json {
        let scores = verdict.map_or(
            Value::Null,
            |verdict| json!({ "before": verdict.before, "after": verdict.after }),
        );
        let outcome = json!({
            "adapter": outputs.adapter.display().to_string(), "archive": archive,
            "metrics": outputs.metrics.display().to_string(), "report": outputs.report.display().to_string(),
            "steps": tuned.history.losses().len(), "adapter_step": step, "loss": loss, "val_loss": val_loss,
            "held_out": plan.held_out, "scores": scores, "hint": Advice::of(&tuned.history).map(|advice| advice.to_string()),
        });
        writeln!(out, "{outcome}")?;
        return Ok(());
    }
    if let Some(Verdict { before, after }) = verdict.filter(|_| plan.held_out > 0) {
        writeln!(out, "exact calls before  {}", before.overall.exact.words())?;
        writeln!(out, "exact calls after   {}", after.overall.exact.words())?;
    }
    writeln!(out, "adapter  {}", outputs.adapter.display())?;
    if let Some(archive) = archive {
        writeln!(out, "archive  {archive}")?;
    }
    writeln!(out, "report   {}", outputs.report.display())?;
    writeln!(out, "metrics  {}", outputs.metrics.display())?;
    Ok(())
}
