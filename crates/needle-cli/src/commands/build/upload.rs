//! `--upload`: the archive and its record, sent to a repository of the hub.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::{Result, bail};
use needle_core::hub::{Hub, HubOptions, UploadFile, Uploaded, checked_repository};
use serde_json::{Value, json};

use crate::{input::WrongUsage, notice, progress::Progress};

const VARIABLE: &str = "NEEDLE_HF_REPO";

/// What was sent, or would be.
pub(super) struct Sent {
    repo: String,
    endpoint: String,
    files: Vec<UploadFile>,
    /// Absent for a rehearsal.
    uploaded: Option<Uploaded>,
}

/// The repository that the flag names, or else the environment.
pub(super) fn target(named: &str) -> Result<String> {
    let repo = match named {
        "" => std::env::var(VARIABLE).unwrap_or_default(),
        named => named.to_owned(),
    };
    if repo.is_empty() {
        bail!(WrongUsage(format!(
            "--upload: name a repository, or set {VARIABLE}=ORG/REPO"
        )));
    }
    checked_repository(&repo)?;
    Ok(repo)
}

/// Reads the files and settings; asks nobody.
pub(super) fn rehearse(repo: &str, paths: [&Path; 2]) -> Result<Sent> {
    let files = paths.into_iter().map(UploadFile::of).collect::<Result<_, _>>()?;
    Ok(Sent {
        repo: repo.to_owned(),
        endpoint: HubOptions::from_env()?.endpoint,
        files,
        uploaded: None,
    })
}

pub(super) fn send(repo: &str, paths: [&Path; 2], progress: &Progress) -> Result<Sent> {
    let mut sent = rehearse(repo, paths)?;
    let archive = &sent.files[0].name;
    let summary = format!("Upload {archive} with needle {}", env!("CARGO_PKG_VERSION"));
    let hub = Hub::new(HubOptions::from_env()?)?;
    let uploaded = hub.upload(repo, &sent.files, &summary, &mut |event| progress.show(event))?;
    if uploaded.is_new {
        notice::say(format!("note: {repo} is new, and private"));
    }
    sent.uploaded = Some(uploaded);
    Ok(sent)
}

impl Sent {
    pub(super) fn to_json(&self) -> Value {
        let file =
            |file: &UploadFile| json!({ "name": file.name, "size_bytes": file.size_bytes, "sha256": file.sha256 });
        json!({
            "repo": self.repo, "endpoint": self.endpoint, "files": self.files.iter().map(file).collect::<Vec<_>>(),
            "dry_run": self.uploaded.is_none(), "commit": self.uploaded.as_ref().map(|uploaded| &uploaded.commit),
            "url": self.uploaded.as_ref().map(|uploaded| &uploaded.url),
        })
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let verb = match self.uploaded {
            Some(_) => "sent to",
            None => "would be sent to",
        };
        writeln!(out, "{verb} {} at {}", self.repo, self.endpoint)?;
        for file in &self.files {
            writeln!(
                out,
                "  {}  {} bytes  sha256 {}",
                file.name, file.size_bytes, file.sha256
            )?;
        }
        match &self.uploaded {
            Some(uploaded) => writeln!(out, "  {}", uploaded.url),
            None => Ok(()),
        }
    }
}
