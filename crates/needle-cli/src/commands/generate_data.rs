//! `needle generate-data`: examples for fine-tuning, written by a large model behind a chat endpoint.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Mutex,
};

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use needle_core::{
    hub::{HubOptions, Patience, Secret},
    synth::{self, DEFAULT_URL, Endpoint, Event, Generated, Source, SynthOptions},
};

use crate::{input, notice, numbers, progress};

/// Have a large model write examples for your tools, checked against their schemas.
///
/// The endpoint is OPENROUTER_URL [default: openrouter.ai/api/v1], any OpenAI-compatible one, also a local server over
/// plain http; the key is OPENROUTER_API_KEY. Your tools, and the rows of --augment, are sent there. What OUTPUT already holds is
/// kept and counts, so a run that was stopped goes on where it was.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Write examples for these tools: a JSON file, the JSON itself, or - for stdin
    #[arg(
        long,
        short,
        value_name = "FILE|JSON|-",
        required_unless_present = "augment",
        conflicts_with = "augment"
    )]
    tools: Option<String>,

    /// Write others like the examples of this file, with the same tools
    #[arg(long, value_name = "FILE|-")]
    augment: Option<String>,

    /// File of examples to write or to go on with
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Rows that OUTPUT shall hold in the end
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = numbers::count())]
    num_samples: usize,

    /// Examples that one request asks for
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = numbers::count())]
    batch_size: usize,

    /// Requests at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = numbers::count())]
    workers: usize,

    /// The large model, by its name at the endpoint
    #[arg(long, short, value_name = "NAME")]
    model: String,

    /// The large model's randomness, 0 to 1000
    #[arg(long, default_value_t = 0.9, value_name = "T", allow_negative_numbers = true, value_parser = numbers::temperature)]
    temperature: f64,

    /// The same seed asks the same questions
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Seconds without an answer after which a request is sent again
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = numbers::seconds())]
    timeout: u64,

    /// Tries of a request before it is given up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    attempts: u32,

    /// Print what came of it as JSON
    #[arg(long)]
    json: bool,

    /// Say nothing on stderr but errors
    #[arg(long, short)]
    quiet: bool,
}

const KEY: &str = "OPENROUTER_API_KEY";
const URL: &str = "OPENROUTER_URL";

impl Args {
    /// So many rows like those of a file, with everything else as by default.
    pub(crate) fn like(rows: &Path, output: PathBuf, num_samples: usize, model: &str, quiet: bool) -> Self {
        Self {
            tools: None,
            augment: Some(rows.display().to_string()),
            output,
            num_samples,
            batch_size: 25,
            workers: 16,
            model: model.to_owned(),
            temperature: 0.9,
            seed: 0,
            timeout: 120,
            attempts: 5,
            json: false,
            quiet,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let made = generate(args)?;
    let rows = made.kept + made.added;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&made)?)?;
    } else {
        writeln!(
            out,
            "{}: {rows} rows, {} of them new",
            args.output.display(),
            made.added
        )?;
    }
    if rows < args.num_samples {
        bail!("{rows} of {} rows; the same command goes on", args.num_samples);
    }
    Ok(())
}

/// Writes the rows, and says on stderr what came of it.
pub(crate) fn generate(args: &Args) -> Result<Generated> {
    let endpoint = endpoint(args)?;
    let source = match (&args.tools, &args.augment) {
        (Some(tools), _) => Source::Tools(input::tool_set(tools)?),
        (None, augment) => {
            let data = input::dataset(augment.as_deref().unwrap_or("-"))?;
            data.expect_rows()?;
            input::say_findings(&data);
            Source::Rows(data.rows)
        }
    };
    let options = SynthOptions {
        samples: args.num_samples,
        batch_size: args.batch_size,
        workers: args.workers,
        temperature: args.temperature,
        seed: args.seed,
    };
    let bar = match args.quiet {
        true => ProgressBar::hidden(),
        false => progress::of_cases(args.num_samples),
    };
    let say = |line: String| {
        if !args.quiet {
            bar.suspend(|| notice::say(notice::flat(&line)));
        }
    };
    let last = Mutex::new(String::new());
    let made = synth::generate(&endpoint, &source, &args.output, &options, |event| match event {
        Event::Added { rows } => {
            bar.set_position(rows as u64);
            bar.set_message("rows");
        }
        Event::Waiting { reason, wait } => {
            // A server that is busy says so to every worker.
            let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if *last != reason {
                say(format!("{reason}; trying again in {:.1} s", wait.as_secs_f64()));
                reason.clone_into(&mut last);
            }
        }
        Event::Failed { reason } => say(format!("a request was given up: {reason}")),
        _ => {}
    });
    bar.finish_and_clear();
    let made = made?;
    if !args.quiet {
        let dropped: usize = made.rejected.values().sum();
        let (batches, failed, duplicates) = (made.batches, made.failed, made.duplicates);
        notice::say(format!(
            "{batches} requests answered, {failed} given up; left out: {duplicates} that ask the same, {dropped} that are no good"
        ));
        for (reason, count) in &made.rejected {
            notice::say(format!("{count:>6}  {reason}"));
        }
    }
    Ok(made)
}

fn endpoint(args: &Args) -> Result<Endpoint> {
    let variable = |name: &str| match std::env::var(name) {
        Ok(value) if value.trim().is_empty() => Ok(None),
        Ok(value) => Ok(Some(value.trim().to_owned())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => bail!("{name} is not valid UTF-8"),
    };
    let (url, key) = (variable(URL)?, variable(KEY)?);
    if url.is_none() && key.is_none() {
        bail!("{KEY} is not set; set it to your key, or {URL} to another endpoint such as http://localhost:8080/v1");
    }
    let surroundings = HubOptions::from_env().context("proxies and certificates")?;
    let mut endpoint = Endpoint::new(url.unwrap_or_else(|| DEFAULT_URL.to_owned()), &args.model);
    endpoint.key = key.map(Secret::new);
    endpoint.proxies = surroundings.proxies;
    endpoint.ca_file = surroundings.ca_file;
    endpoint.patience = Patience {
        attempts: args.attempts,
        read_timeout: std::time::Duration::from_secs(args.timeout),
        ..endpoint.patience
    };
    Ok(endpoint)
}
