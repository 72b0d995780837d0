//! What commands read: tools, queries and models, from files, arguments or stdin.

use std::{
    fs,
    io::{self, Read},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use needle_core::{
    Checkpoint, Engine, EngineOptions, Generation, Needle, NeedleBuilder, Provenance, Tokenizer, ToolSet,
    cpu::{CachePrecision, CpuOptions, Numerics, Threads},
    data::{Dataset, Rejected},
    device::Selected,
    parse_dtype,
};

use crate::{
    args::{ModelArgs, ToolArgs},
    hints::OfModel,
    notice,
    progress::Progress,
    weights,
};

/// Arguments that do not go together; ends with exit code 2.
#[derive(Debug)]
pub(crate) struct WrongUsage(pub(crate) String);

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

/// The word that stands for the built-in model.
pub(crate) const DEMO: &str = "demo";

/// Opens the checkpoint that `--model` names: the demo, a file, or weights of the hub, which are downloaded once. Without a
/// name, the published Needle 2.
pub(crate) fn checkpoint(model: Option<&str>, progress: &Progress) -> Result<Checkpoint> {
    if model == Some(DEMO) {
        return Ok(Checkpoint::demo()?);
    }
    let path = weights::locate(model, Generation::Two, progress)?;
    Ok(Checkpoint::open(&path).map_err(OfModel)?)
}

/// Opens the model that the command line names, with the tokenizer that it names or the model's own.
pub(crate) fn model(args: &ModelArgs) -> Result<(Checkpoint, Tokenizer)> {
    let progress = if args.quiet {
        Progress::quiet()
    } else {
        Progress::stderr()
    };
    if args.generation == Generation::Three {
        bail!(WrongUsage(
            "--generation 3: Needle 3 cannot be run yet; `needle download needle3` and `needle inspect needle3` work"
                .into()
        ));
    }
    let checkpoint = checkpoint(args.model.as_deref(), &progress)?;
    checkpoint.config.expect_runnable()?;
    let tokenizer = match &args.tokenizer {
        Some(path) => {
            let bytes = fs::read(path).with_context(|| path.display().to_string())?;
            Tokenizer::from_sentencepiece(&bytes).with_context(|| path.display().to_string())?
        }
        None => checkpoint.tokenizer()?,
    };
    Ok((checkpoint, tokenizer))
}

/// Opens the device that the command line names, and says which it is.
pub(crate) fn device(args: &ModelArgs) -> Result<Selected> {
    let mut device = args.device.open()?;
    if let Some(dtype) = &args.dtype {
        device.dtype = parse_dtype(dtype)?;
    }
    if !args.quiet {
        say_device(&device, device.dtype.as_str());
    }
    Ok(device)
}

/// Opens the model on its device, and says where it runs.
pub(crate) fn engine(args: &ModelArgs) -> Result<Arc<Engine>> {
    engine_with(args, Threads::Measured)
}

/// The same, with these threads where the command line names no number.
pub(crate) fn engine_with(args: &ModelArgs, threads: Threads) -> Result<Arc<Engine>> {
    let (checkpoint, tokenizer) = model(args)?;
    let dtype = args.dtype.as_deref().map(parse_dtype).transpose()?;
    let cpu = CpuOptions {
        threads: args.threads.map_or(threads, Threads::Exactly),
        numerics: match args.numerics.as_str() {
            "exact" => Numerics::Exact,
            _ => Numerics::Fast,
        },
        cache: args.cache.as_deref().map(|cache| match cache {
            "f32" => CachePrecision::Float,
            "int8" => CachePrecision::Int8,
            _ => CachePrecision::Half,
        }),
        ..CpuOptions::default()
    };
    let options = EngineOptions {
        device: args.device,
        dtype,
        cpu,
        ..EngineOptions::default()
    };
    let engine = Engine::with_tokenizer(&checkpoint, tokenizer, options)?;
    if !args.quiet {
        say_device(engine.device(), engine.runner().dtype().as_str());
    }
    Ok(engine)
}

/// Says so when the model was built for other tools than these.
pub(crate) fn warn_of_other_tools(engine: &Engine, tools: &ToolSet) {
    let file = Path::new(engine.source());
    if !file.is_file() {
        return;
    }
    let warning = match Provenance::beside(file) {
        Ok(None) => return,
        Ok(Some(record)) if record.weights != engine.fingerprint() => {
            format!(
                "{} is the record of another archive",
                Provenance::path_of(file).display()
            )
        }
        Ok(Some(record)) => match record.changed_tools(&tools.fingerprints()) {
            None => return,
            Some(changes) => format!("the model was built for other tools: {changes}"),
        },
        Err(error) => error.to_string(),
    };
    notice::say(format!("warning: {}", notice::flat(&warning)));
}

fn say_device(device: &Selected, dtype: &str) {
    let why = device.notice.as_ref().map(|notice| format!(" ({notice})"));
    notice::say(format!("device: {} {dtype}{}", device.name, why.unwrap_or_default()));
}

/// An agent with these tools and what the command line says about them.
pub(crate) fn agent(engine: &Arc<Engine>, set: &ToolSet, tools: &ToolArgs) -> NeedleBuilder {
    let mut builder = Needle::builder().engine(engine).tools(set).top_tools(tools.top_tools);
    if let Some(system) = &tools.system {
        builder = builder.system(system);
    }
    if tools.auto_date {
        builder = builder.auto_date();
    }
    if tools.no_grammar {
        builder = builder.free_form();
    }
    if let Some(least) = tools.min_confidence {
        builder = builder.min_confidence(least);
    }
    if let Some(path) = &tools.tool_index {
        builder = builder.tool_index(path);
    }
    builder
}

/// Tools from a file, from the argument itself, or from stdin. What is odd about them is said aloud.
pub(crate) fn tool_set(source: &str) -> Result<ToolSet> {
    let (text, name) = json_text(source, "tools")?;
    let set = ToolSet::parse(&text).with_context(|| name)?;
    set.warnings()
        .for_each(|warning| notice::say(format!("warning: {}", notice::flat(&warning.to_string()))));
    Ok(set)
}

/// JSON from a file, from the argument itself, or from stdin, and what to call it in an error.
pub(crate) fn json_text(source: &str, what: &str) -> Result<(String, String)> {
    if source == "-" {
        return Ok((stdin()?, "stdin".into()));
    }
    if source.trim_start().starts_with(['[', '{']) {
        return Ok((source.to_owned(), format!("--{what}")));
    }
    let text = fs::read_to_string(source).with_context(|| format!("{what} file {source}"))?;
    Ok((text, source.to_owned()))
}

/// Refuses two sources that would both read stdin: each is a name and its argument, `-` for stdin; the second may be absent,
/// which means stdin too.
pub(crate) fn apart((first, source): (&str, &str), (second, other): (&str, Option<&str>)) -> Result<(), WrongUsage> {
    if source == "-" && other.is_none_or(|other| other == "-") {
        return Err(WrongUsage(format!("{first} and {second} cannot both come from stdin")));
    }
    Ok(())
}

/// Examples from a file or from stdin.
pub(crate) fn dataset(source: &str) -> Result<Dataset> {
    Ok(match source {
        "-" => Dataset::read(io::stdin().lock(), source_name(source))?,
        path => Dataset::open(path.as_ref())?,
    })
}

/// What to call a source in messages.
pub(crate) fn source_name(source: &str) -> &str {
    match source {
        "-" => "stdin",
        path => path,
    }
}

/// All of a file or of stdin.
pub(crate) fn bytes(source: &str) -> Result<Vec<u8>> {
    if source == "-" {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).context("stdin")?;
        return Ok(bytes);
    }
    fs::read(source).with_context(|| source.to_owned())
}

/// Findings of a kind that are said one by one; of more, only how many there are.
const MOST_SAID: usize = 5;

/// Says aloud what is wrong or odd about a file of examples.
pub(crate) fn say_findings(data: &Dataset) {
    say_rejected(&data.rejected);
    let warnings: Vec<String> = data.warnings.iter().map(ToString::to_string).collect();
    say_some(&warnings, "with a warning");
    if !data.duplicates.is_empty() {
        let count = data.duplicates.len();
        notice::say(format!("warning: {count} rows say the same as an earlier one"));
    }
}

/// Says aloud which lines cannot be used.
pub(crate) fn say_rejected(rejected: &[Rejected]) {
    let rejected: Vec<String> = rejected.iter().map(ToString::to_string).collect();
    say_some(&rejected, "rejected");
}

fn say_some(lines: &[String], what: &str) {
    for line in lines.iter().take(MOST_SAID) {
        notice::say(format!("warning: {}", notice::flat(line)));
    }
    if lines.len() > MOST_SAID {
        notice::say(format!(
            "warning: {} lines {what} in all; `needle data check` names them",
            lines.len()
        ));
    }
}

/// The argument, or all of stdin where there is none. A last line break is not part of it.
pub(crate) fn text_or_stdin(text: Option<&str>, what: &str) -> Result<String> {
    let text = match text {
        Some("-") | None => stdin()?,
        Some(text) => text.to_owned(),
    };
    let text = text
        .strip_suffix('\n')
        .map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    if text.is_empty() {
        bail!("the {what} is empty");
    }
    Ok(text.to_owned())
}

fn stdin() -> Result<String> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text).context("stdin")?;
    Ok(text)
}
