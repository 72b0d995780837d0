//! What commands read: tools, queries and models, from files, arguments or stdin.

use std::{
    fs,
    io::{self, Read},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use needle_core::{
    Checkpoint, Engine, EngineOptions, Generation, Needle, NeedleBuilder, Tokenizer, ToolSet,
    cpu::{CpuOptions, Numerics, Threads},
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

/// Opens the model on its device, and says where it runs.
pub(crate) fn engine(args: &ModelArgs) -> Result<Arc<Engine>> {
    let progress = if args.quiet {
        Progress::quiet()
    } else {
        Progress::stderr()
    };
    let checkpoint = checkpoint(args.model.as_deref(), &progress)?;
    let dtype = args.dtype.as_deref().map(parse_dtype).transpose()?;
    let cpu = CpuOptions {
        threads: args.threads.map_or(Threads::Measured, Threads::Exactly),
        numerics: match args.numerics.as_str() {
            "exact" => Numerics::Exact,
            _ => Numerics::Fast,
        },
        ..CpuOptions::default()
    };
    let options = EngineOptions {
        device: args.device,
        dtype,
        cpu,
    };
    let engine = match &args.tokenizer {
        Some(path) => {
            let bytes = fs::read(path).with_context(|| path.display().to_string())?;
            let tokenizer = Tokenizer::from_sentencepiece(&bytes).with_context(|| path.display().to_string())?;
            Engine::with_tokenizer(&checkpoint, tokenizer, options)?
        }
        None => Engine::new(&checkpoint, options)?,
    };
    if !args.quiet {
        let device = engine.device();
        let why = device
            .notice
            .as_ref()
            .map(|notice| format!(" ({notice})"))
            .unwrap_or_default();
        let dtype = engine.runner().dtype().as_str();
        notice::say(format!("device: {} {dtype}{why}", device.name));
    }
    Ok(engine)
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
