//! `needle models`: what the cache holds, whether it is sound, and out with it.

use std::io::{Read, Write};

use anyhow::{Result, bail};
use needle_core::hub::{CachedFile, Hub, HubOptions, ModelRequest, Verdict};
use serde_json::json;

use crate::notice;

/// Show, check or remove downloaded weights.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What to do; without one, `list`.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List the weights in the cache
    List,
    /// Compare the cached files with the SHA-256 that the hub stated
    Verify {
        /// As for `needle download`; without it, everything
        spec: Option<String>,
    },
    /// Remove a file in all its revisions, or with ORG/REPO the whole repository
    Remove {
        /// As for `needle download`
        spec: String,
    },
}

/// Needs no network.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut options = HubOptions::from_env()?;
    options.access = needle_core::hub::Access::Offline;
    let hub = Hub::new(options)?;
    let format = if args.json { Format::Json } else { Format::Text };
    match args.action.as_ref().unwrap_or(&Action::List) {
        Action::List => list(&hub, format),
        Action::Verify { spec } => verify(&hub, spec.as_deref(), format),
        Action::Remove { spec } => remove(&hub, spec, format),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
}

fn list(hub: &Hub, format: Format) -> Result<()> {
    let inventory = hub.inventory()?;
    let mut stdout = std::io::stdout().lock();
    if format == Format::Json {
        let files: Vec<_> = inventory.files.iter().map(describe).collect();
        let partials: Vec<_> = inventory
            .partials
            .iter()
            .map(|partial| json!({ "repo": partial.repo, "path": partial.path, "size_bytes": partial.size_bytes }))
            .collect();
        writeln!(
            stdout,
            "{}",
            json!({ "cache": hub.cache_dir(), "files": files, "unfinished": partials })
        )?;
        return Ok(());
    }
    let rows: Vec<[String; 5]> = inventory
        .files
        .iter()
        .map(|file| {
            let generation = generation(file).map_or("?".to_string(), |number| number.to_string());
            let revision = if file.revisions.is_empty() {
                &file.commit[..7]
            } else {
                &file.revisions.join(",")
            };
            let size = format!("{:.1} MB", file.size_bytes as f64 / 1e6);
            [
                file.repo.clone(),
                file.file.clone(),
                generation,
                size,
                revision.to_string(),
            ]
        })
        .collect();
    let head = ["REPOSITORY", "FILE", "GENERATION", "SIZE", "REVISION"].map(str::to_string);
    let width = |column: usize| {
        rows.iter()
            .chain([&head])
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths = [0, 1, 2, 3, 4].map(width);
    for row in [&head].into_iter().chain(&rows) {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        writeln!(stdout, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    for partial in &inventory.partials {
        let size_mb = partial.size_bytes as f64 / 1e6;
        let path = partial.path.display();
        notice::say(format!("unfinished download, {size_mb:.1} MB: {path}"));
    }
    notice::say(format!("cache: {}", hub.cache_dir().display()));
    Ok(())
}

fn verify(hub: &Hub, spec: Option<&str>, format: Format) -> Result<()> {
    let request = spec.map(ModelRequest::parse).transpose()?;
    let wanted = |file: &CachedFile| {
        request
            .as_ref()
            .is_none_or(|request| request.names(&file.repo, &file.file))
    };
    let files: Vec<CachedFile> = hub.inventory()?.files.into_iter().filter(wanted).collect();
    if files.is_empty()
        && let Some(spec) = spec
    {
        bail!("{spec}: not in the cache {}", hub.cache_dir().display());
    }
    let mut stdout = std::io::stdout().lock();
    let mut damaged = 0;
    for file in &files {
        let verdict = hub.verify(file)?;
        damaged += usize::from(matches!(verdict, Verdict::Damaged { .. }));
        let word = match &verdict {
            Verdict::Intact => "intact",
            Verdict::Damaged { .. } => "damaged",
            Verdict::Unknown => "unknown",
        };
        if format == Format::Json {
            let mut entry = describe(file);
            entry["verdict"] = word.into();
            writeln!(stdout, "{entry}")?;
        } else {
            writeln!(stdout, "{word:8} {}/{}  {}", file.repo, file.file, &file.commit[..7])?;
        }
    }
    if damaged > 0 {
        bail!(
            "{damaged} of {} files are damaged; `needle models remove` them and download again",
            files.len()
        );
    }
    Ok(())
}

fn remove(hub: &Hub, spec: &str, format: Format) -> Result<()> {
    let removed = hub.remove(&ModelRequest::parse(spec)?)?;
    let mut stdout = std::io::stdout().lock();
    if format == Format::Json {
        writeln!(
            stdout,
            "{}",
            json!({ "removed": removed.files, "freed_bytes": removed.freed_bytes })
        )?;
    } else {
        let freed_mb = removed.freed_bytes as f64 / 1e6;
        writeln!(stdout, "removed {}: {freed_mb:.1} MB", removed.files.join(", "))?;
    }
    Ok(())
}

fn describe(file: &CachedFile) -> serde_json::Value {
    json!({
        "repo": file.repo,
        "file": file.file,
        "generation": generation(file),
        "size_bytes": file.size_bytes,
        "commit": file.commit,
        "revisions": file.revisions,
        "sha256": file.sha256,
        "path": file.path,
    })
}

/// An archive says its generation in its first four bytes; a checkpoint is known by its name.
fn generation(file: &CachedFile) -> Option<u32> {
    let mut tag = [0; 4];
    if file.file.ends_with(".cact") {
        std::fs::File::open(&file.path)
            .and_then(|mut open| open.read_exact(&mut tag))
            .ok()?;
        return match u32::from_le_bytes(tag) {
            0x05E1_2A83 => Some(2),
            0x05E1_2A84 => Some(3),
            _ => None,
        };
    }
    let name = file.file.rsplit('/').next()?;
    [2, 3]
        .into_iter()
        .find(|number| name.starts_with(&format!("needle{number}")))
}
