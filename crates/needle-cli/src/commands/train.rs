//! `needle train`: a small model from nothing, by a recipe.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Result, bail};
use needle_core::{
    Checkpoint, DeviceSpec, Flow,
    checkpoint::BitMap,
    course::{Files, Start},
    data::Dataset,
    pretrain::{HeadProgress, Pretrain, Recipe, train_confidence, train_contrastive},
    score::{self, EvalOptions},
};
use serde_json::json;

use crate::{notice, outputs, training::Bar};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Examples, as `needle finetune` takes them
    #[arg(value_name = "DATA.jsonl")]
    data: PathBuf,

    /// The recipe: geometry, tokenizer, steps, heads, as JSON (examples/train.json is the demo model's)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// The checkpoint; tokenizer, archive and metrics are written beside it
    #[arg(long, value_name = "FILE", default_value = "model.safetensors")]
    out: PathBuf,

    /// Bits of the archive's matrices: 2, 3, 4, ternary or a map
    #[arg(long, value_name = "BITS|MAP", default_value = "4")]
    bits: String,

    /// Where to compute: auto, cpu, cuda[:n], gpu[:n] or metal[:n]
    #[arg(long, default_value = "auto")]
    device: DeviceSpec,

    /// Go on with the interrupted run of the same --out
    #[arg(long)]
    resume: bool,

    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,

    /// Say nothing on stderr but errors
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let written = ["tokenizer.model", "cact"].map(|ending| args.out.with_extension(ending));
    let files = Files::beside(&args.out);
    let written = [&args.out, &files.state, &files.metrics, &files.best]
        .into_iter()
        .chain(&written);
    outputs::expect_apart(written, [args.data.as_path(), &args.config])?;
    let recipe = Recipe::open(&args.config)?;
    let map = BitMap::parse(&args.bits)?;
    let data = Dataset::open(&args.data)?;
    let run = Pretrain::prepare(recipe, &data)?;
    let device = args.device.open()?;
    let (rows, held_out, too_long) = run.counts();
    let say = |line: String| {
        if !args.quiet {
            notice::say(line);
        }
    };
    say(format!("device: {} {}", device.name, device.dtype.as_str()));
    say(format!(
        "rows: {rows} to learn from, {held_out} held out, {too_long} left out as too long"
    ));
    say(format!("tokenizer: {} pieces", run.tokenizer().vocab_size()));
    let start = match (args.resume, files.state.exists()) {
        (true, true) => Start::Resumed,
        (true, false) => bail!("nothing to resume: {} is not there", files.state.display()),
        (false, true) => bail!(
            "{} is of an interrupted run: go on with --resume, or remove it to start anew",
            files.state.display()
        ),
        (false, false) => Start::Anew,
    };
    let course = run.course();
    let bar = Bar::new(args.quiet, run.recipe().steps);
    let finished = course.run(&device, start, Some(&files), |event| {
        bar.show(&event, run.recipe().steps.div_ceil(course.steps_per_epoch()));
        Flow::Continue
    })?;
    bar.finish();
    let mut model = finished.trainer.checkpoint()?;
    // The heads may have nothing to learn from; the model itself is there by now.
    model.save_safetensors(&args.out)?;
    if let Err(error) = heads(args, &run, &mut model) {
        notice::say(format!("warning: {}", notice::one_line(&error)));
    }
    model.save_safetensors(&args.out)?;
    let tokenizer = args.out.with_extension("tokenizer.model");
    run.save_tokenizer(&tokenizer)?;
    let archive = args.out.with_extension("cact");
    model.save_cact(&archive, &map)?;
    let engine = needle_core::Engine::open(&archive, args.device)?;
    let report = score::evaluate(
        &engine,
        &score::cases(&run.split().held_out),
        &EvalOptions::default(),
        |_| {},
    )?;
    files.clear()?;
    let mut out = io::stdout().lock();
    if args.json {
        let outcome = json!({
            "checkpoint": args.out.display().to_string(), "archive": archive.display().to_string(),
            "tokenizer": tokenizer.display().to_string(), "metrics": files.metrics.display().to_string(),
            "steps": finished.trainer.steps_taken(), "scores": report,
        });
        writeln!(out, "{outcome}")?;
        return Ok(());
    }
    writeln!(out, "exact calls  {}", report.overall.exact.words())?;
    writeln!(out, "checkpoint   {}", args.out.display())?;
    writeln!(out, "tokenizer    {}", tokenizer.display())?;
    writeln!(out, "archive      {}", archive.display())?;
    Ok(())
}

/// The probe heads that the recipe asks for. Confidence learns from the held-out rows as well: on rows that the model has learnt
/// by heart it is always right.
fn heads(args: &Args, run: &Pretrain, model: &mut Checkpoint) -> Result<()> {
    let (recipe, split) = (run.recipe(), run.split());
    let watch = |name: &str, steps: usize| {
        let bar = Bar::new(args.quiet, steps);
        let name = name.to_owned();
        move |progress: HeadProgress| bar.head(&name, &progress)
    };
    if let Some(head) = &recipe.contrastive {
        train_contrastive(
            model,
            &split.train,
            head,
            recipe.seed,
            watch("contrastive head", head.steps),
        )?;
    }
    if let Some(head) = &recipe.confidence {
        let mut rows = split.held_out.clone();
        rows.extend(split.train.iter().take(rows.len().max(256)).cloned());
        let share = train_confidence(model, &rows, head, recipe.seed, watch("confidence head", head.steps))?;
        if !args.quiet {
            notice::say(format!(
                "confidence head: learnt from {} answers, {:.0} % of them exact",
                rows.len(),
                100.0 * share
            ));
        }
    }
    Ok(())
}
