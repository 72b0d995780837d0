//! `needle build`: a checkpoint and its adapters into one archive, checked and recorded.

mod upload;
mod verify;

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use needle_core::{
    Adapter, BitMap, Checkpoint, FileMark, Generation, Provenance, Tokenizer, Written,
    hub::{ModelRequest, ModelSource},
};
use serde_json::json;

use crate::{
    hints::OfModel,
    input::{self, WrongUsage},
    notice,
    progress::Progress,
    weights,
};

/// Pack a checkpoint, with adapters put into it, as one .cact archive
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to pack: a .safetensors or .pkl checkpoint, a .cact archive, a name of the hub (needle2.pkl), or `demo`
    #[arg(value_name = "FILE|NAME|demo")]
    pub(crate) base: String,

    /// Adapter to put into the weights; several are added in the order given
    #[arg(long, alias = "lora", value_name = "FILE")]
    pub(crate) adapter: Vec<PathBuf>,

    /// Bits of the matrices: 2, 3, 4, ternary, a map such as default=2,embedding=4,attn.q_proj=3, or a file with one
    /// [default: those the adapter or the checkpoint was trained for, else 4]
    #[arg(long, value_name = "BITS|MAP|FILE")]
    pub(crate) bits: Option<String>,

    /// The archive [default: the checkpoint's name with .cact, in this folder]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Tokenizer for a checkpoint without one: a SentencePiece .model, an archive, or needle2 [default: the published
    /// one where the checkpoint is the hub's]
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) tokenizer: Option<String>,

    /// Tools that the archive is made for; `run` and `chat` then warn when they are given others
    #[arg(long, short, value_name = "FILE|JSON")]
    pub(crate) tools: Option<String>,

    /// Leave the probe heads behind: no confidence, no retrieval
    #[arg(long)]
    pub(crate) no_heads: bool,

    /// Let archive and float model answer these rows and print where they differ
    #[arg(long, value_name = "ROWS.jsonl")]
    pub(crate) verify: Option<PathBuf>,

    /// Also write the float model, adapters included, as a checkpoint
    #[arg(long, value_name = "FILE")]
    pub(crate) safetensors: Option<PathBuf>,

    /// Send archive and record to this repository of the hub [default: NEEDLE_HF_REPO]
    #[arg(long, value_name = "ORG/REPO", num_args = 0..=1, default_missing_value = "")]
    pub(crate) upload: Option<String>,

    /// With --upload: print what would be sent, and where to; no socket is opened for it
    #[arg(long, requires = "upload")]
    pub(crate) dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Say nothing on stderr but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let progress = if args.quiet {
        Progress::quiet()
    } else {
        Progress::stderr()
    };
    let target = args.upload.as_deref().map(upload::target).transpose()?;
    let base = Base::open(args, &progress)?;
    let adapters: Vec<Adapter> = args
        .adapter
        .iter()
        .map(|path| Adapter::open(path))
        .collect::<Result<_, _>>()?;
    let out = out_path(args, &base)?;
    let tools = args.tools.as_deref().map(input::tool_set).transpose()?;
    let map = bit_map(args, &base.checkpoint, &adapters)?;

    let mut model = base.checkpoint.with_adapters(&adapters)?;
    if args.no_heads {
        model = model.without_heads();
    }
    if let Some(path) = &args.safetensors {
        model.save_safetensors(path)?;
    }
    let bar = progress.of_values();
    let written = model.save_cact_watched(&out, &map, &mut |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let written = written?;

    let marks = args
        .adapter
        .iter()
        .map(|path| FileMark::of(path))
        .collect::<Result<_, _>>()?;
    let mut record = Provenance::new(&written, &map, base.mark()?, marks)?;
    record.tools = tools.map(|tools| tools.fingerprints());
    let record_path = record.save(&out)?;

    let verified = args
        .verify
        .as_deref()
        .map(|rows| verify::run(&model, &out, rows))
        .transpose()?;
    let paths = [out.as_path(), &record_path];
    let sent = match target {
        None => None,
        Some(repo) if args.dry_run => Some(upload::rehearse(&repo, paths)?),
        Some(repo) => Some(upload::send(&repo, paths, &progress)?),
    };
    if args.json {
        let mut report = json!({
            "path": written.path, "size_bytes": written.size_bytes, "tensors": written.tensors, "bits": map.to_string(),
            "bits_per_value": written.bits_per_value, "sha256": record.archive.sha256, "heads": record.heads,
            "record": record_path, "safetensors": args.safetensors,
        });
        if let Some(verified) = &verified {
            report["verify"] = verified.to_json();
        }
        if let Some(sent) = &sent {
            report["upload"] = sent.to_json();
        }
        writeln!(io::stdout().lock(), "{report}")?;
    } else {
        print(&written, &map)?;
        if let Some(verified) = &verified {
            verified.print(&mut io::stdout().lock())?;
        }
        if let Some(sent) = &sent {
            sent.print(&mut io::stdout().lock())?;
        }
    }
    if !args.quiet && !adapters.is_empty() && !record.heads.is_empty() {
        notice::say(
            "note: the heads are the base's own, and confidence is not calibrated for tuned weights; --no-heads leaves them out",
        );
    }
    Ok(())
}

fn print(written: &Written, map: &BitMap) -> io::Result<()> {
    let Written {
        path,
        size_bytes,
        tensors,
        bits_per_value,
    } = written;
    let size = *size_bytes as f64 / 1e6;
    let path = path.display();
    writeln!(
        io::stdout().lock(),
        "{path}: {size:.2} MB, {tensors} tensors, {bits_per_value:.2} bits a value ({map})"
    )
}

/// The checkpoint, with its tokenizer, and where it came from.
struct Base {
    checkpoint: Checkpoint,
    /// Absent for the demo.
    path: Option<PathBuf>,
}

impl Base {
    fn open(args: &Args, progress: &Progress) -> Result<Self> {
        let (path, mut checkpoint) = if args.base == input::DEMO {
            (None, Checkpoint::demo()?)
        } else {
            let path = weights::locate(Some(&args.base), Generation::Two, progress)?;
            let checkpoint = Checkpoint::open(&path).map_err(OfModel)?;
            (Some(path), checkpoint)
        };
        let named = match (&args.tokenizer, &checkpoint.tokenizer_blob) {
            (Some(named), _) => Some(named.as_str()),
            (None, Some(_)) => None,
            (None, None) if is_published(&args.base)? => Some("needle2"),
            (None, None) => bail!(WrongUsage(format!(
                "{}: the checkpoint carries no tokenizer; name one with --tokenizer: a SentencePiece .model, an archive, \
                 or needle2",
                args.base
            ))),
        };
        if let Some(named) = named {
            checkpoint = checkpoint.with_tokenizer(&tokenizer(named, progress)?)?;
        }
        Ok(Self { checkpoint, path })
    }

    fn mark(&self) -> Result<FileMark> {
        Ok(match &self.path {
            Some(path) => FileMark::of(path)?,
            None => FileMark::demo(),
        })
    }
}

/// Whether the name is one of the published Needle 2 repository, whose archive has the tokenizer.
fn is_published(name: &str) -> Result<bool> {
    Ok(match ModelSource::parse(name)? {
        ModelSource::File(_) => false,
        ModelSource::Hub(request) => request.repo() == ModelRequest::base(Generation::Two).repo(),
    })
}

fn tokenizer(named: &str, progress: &Progress) -> Result<Tokenizer> {
    let path = weights::locate(Some(named), Generation::Two, progress)?;
    let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
    match Tokenizer::from_sentencepiece(&bytes) {
        Ok(tokenizer) => Ok(tokenizer),
        // Where it is neither, SentencePiece's reason says less than the archive's.
        Err(_) => Ok(Checkpoint::open(&path)?.tokenizer()?),
    }
}

/// Where the archive goes. It must not replace what it is made from.
fn out_path(args: &Args, base: &Base) -> Result<PathBuf> {
    let out = match (&args.out, &base.path) {
        (Some(out), _) => out.clone(),
        (None, None) => PathBuf::from("demo.cact"),
        (None, Some(path)) => {
            let mut name = path.file_stem().unwrap_or(path.as_os_str()).to_owned();
            name.push(".cact");
            name.into()
        }
    };
    let real = |path: &Path| fs::canonicalize(path).ok();
    let sources = base.path.iter().chain(&args.adapter);
    for source in sources {
        if real(&out).is_some() && real(&out) == real(source) {
            bail!(WrongUsage(format!(
                "{} would be replaced; name another file with --out",
                source.display()
            )));
        }
    }
    Ok(out)
}

/// The widths asked for, or those that the weights were trained for. Adapters that were trained for others are refused.
fn bit_map(args: &Args, base: &Checkpoint, adapters: &[Adapter]) -> Result<BitMap> {
    let asked = args.bits.as_deref().map(read_map).transpose()?;
    if let Some(asked) = &asked
        && let Some(rule) = asked.unmatched(&base.config).first()
    {
        bail!(WrongUsage(format!(
            "--bits: no matrix of {} is named {rule:?}",
            args.base
        )));
    }
    let mut trained: Option<(&Adapter, BitMap)> = None;
    for adapter in adapters {
        let Some(map) = BitMap::of_adapter(adapter)? else {
            continue;
        };
        match (&asked, &trained) {
            (Some(asked), _) if *asked != map => bail!(WrongUsage(format!(
                "{}: trained for {map} bits; --bits {asked} would give other numbers",
                adapter.path.display()
            ))),
            (_, Some((first, other))) if *other != map => bail!(WrongUsage(format!(
                "{} was trained for {other} bits, {} for {map}",
                first.path.display(),
                adapter.path.display()
            ))),
            _ => trained = Some((adapter, map)),
        }
    }
    Ok(match (asked, trained) {
        (Some(map), _) | (None, Some((_, map))) => map,
        (None, None) => BitMap::of(base)?,
    })
}

fn read_map(text: &str) -> Result<BitMap> {
    match BitMap::parse(text) {
        Ok(map) => Ok(map),
        Err(error) if text.contains('=') || !Path::new(text).exists() => {
            Err(WrongUsage(format!("--bits: {error}")).into())
        }
        Err(_) => {
            let map = fs::read_to_string(text).with_context(|| text.to_owned())?;
            BitMap::parse(&map).with_context(|| text.to_owned())
        }
    }
}
