//! `needle download`: a file of the hub into the cache, and from there to where it is wanted.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use needle_core::hub::{Hub, HubOptions, ModelRequest, Source};
use serde_json::json;

use crate::progress::Progress;

/// Download weights, check them, and print the path they are at.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// needle2 or needle3 (the archives), needle2.pkl or needle3.safetensors (to fine-tune), ORG/REPO or ORG/REPO/FILE
    pub(crate) spec: String,
    /// Branch, tag or commit instead of main; a commit of 40 digits pins the file
    #[arg(long)]
    pub(crate) revision: Option<String>,
    /// Also copy the file into this folder, or to this name
    #[arg(long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    /// Print a JSON object instead of the path
    #[arg(long)]
    pub(crate) json: bool,
}

/// Asks the hub for the present state, even when an older one is cached.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut request = ModelRequest::parse(&args.spec)?.latest();
    if let Some(revision) = &args.revision {
        request = request.at_revision(revision)?;
    }
    let hub = Hub::new(HubOptions::from_env()?)?;
    let progress = Progress::stderr();
    let located = hub.resolve(&request, &mut |event| progress.show(event))?;
    let path = match &args.out {
        Some(out) => located.copy_to(out)?,
        None => located.path.clone(),
    };
    let mut stdout = std::io::stdout().lock();
    if args.json {
        let source = if located.source == Source::Cache {
            "cache"
        } else {
            "download"
        };
        let report = json!({
            "path": path,
            "repo": located.repo,
            "file": located.file,
            "commit": located.commit,
            "source": source,
            "size_bytes": std::fs::metadata(&path)?.len(),
        });
        writeln!(stdout, "{report}")?;
    } else {
        writeln!(stdout, "{}", path.display())?;
    }
    Ok(())
}
