//! Weights from the Hugging Face hub: fetched once, checked, kept in the cache that the Python client shares, and found
//! there without the network. Beside `synth/`, the only code of the library that opens a socket.
//!
//! ```no_run
//! use needle_core::Generation;
//! use needle_core::hub::{self, ModelRequest};
//! let weights = hub::resolve(&ModelRequest::base(Generation::Three))?;
//! # Ok::<(), needle_core::Error>(())
//! ```
//!
//! The crate `hf-hub` 0.5 names the folders (`cache.rs`); its network code is not compiled in. What it lacks is done here
//! over `ureq`, the client that it uses itself: the size and SHA-256 checked before a file gets its name, `HF_HUB_CACHE`,
//! `HF_HUB_OFFLINE`, `HF_TOKEN`, a proxy by scheme and `NO_PROXY`, own certificate authorities, the token kept from other
//! hosts, pauses that the hub asks for, web pages and wrong lengths refused, refs written whole, one downloader a blob.
//!
//! Nothing about the user is sent: no counter file is requested, and the user agent is `needle/<version>` for everybody.

mod address;
mod agent;
mod base64;
mod cache;
mod client;
mod event;
mod failure;
mod fetch;
mod inventory;
mod located;
mod lock;
mod names;
mod options;
mod request;
mod sending;
mod stated;
mod transfer;
mod upload;

use std::path::{Path, PathBuf};

pub(crate) use agent::Agents;
use cache::{Hit, Layout};
use client::Client;
pub use event::Event;
use fetch::{Job, Outcome};
pub use inventory::{CachedFile, Inventory, Partial, Removed, Verdict};
pub use located::{Located, Source};
pub use options::{Access, HubOptions, Patience, Proxies, Secret};
use request::FileChoice;
pub use request::{Freshness, ModelRequest, ModelSource};
pub use upload::{UploadFile, Uploaded, checked_repository};

use crate::error::{Error, HubFault, Result};

/// Finds or fetches a file with the settings of the environment, without showing progress.
///
/// # Errors
/// [`Error::Hub`] with the kind in `fault`; [`Error::Io`] when the cache cannot be read or written.
pub fn resolve(request: &ModelRequest) -> Result<PathBuf> {
    let hub = Hub::new(HubOptions::from_env()?)?;
    Ok(hub.resolve(request, &mut |_| {})?.path)
}

/// The hub and its cache. `Send + Sync`; offline it holds no client at all.
pub struct Hub {
    layout: Layout,
    client: Option<Client>,
}

impl Hub {
    /// Checks the settings; asks nobody anything.
    pub fn new(options: HubOptions) -> Result<Self> {
        let client = match options.access {
            Access::Online => Some(Client::new(&options)?),
            Access::Offline => None,
        };
        Ok(Self {
            layout: Layout::new(options.cache_dir),
            client,
        })
    }

    /// The folder of the cache.
    pub fn cache_dir(&self) -> &Path {
        self.layout.root()
    }

    /// Looks in the cache alone, whatever the request's freshness; opens no socket and writes nothing.
    pub fn find(&self, request: &ModelRequest) -> Result<Option<Located>> {
        let names = match &request.files {
            FileChoice::FirstOf(names) => names.clone(),
            FileChoice::OnlyArchive => {
                let files = self.layout.files(&request.repo, &request.revision)?;
                let archives: Vec<String> = files.into_iter().filter(|file| names::is_archive(file)).collect();
                if archives.len() > 1 {
                    return Err(several(request, &archives));
                } else {
                    archives
                }
            }
        };
        for file in names {
            if let Some(Hit { path, commit }) = self.layout.find(&request.repo, &request.revision, &file)? {
                let (repo, source) = (request.repo.clone(), Source::Cache);
                return Ok(Some(Located {
                    path,
                    repo,
                    file,
                    commit,
                    source,
                }));
            }
        }
        Ok(None)
    }

    /// Finds or fetches a file. `notify` hears of the download; it is not called for a cached file.
    ///
    /// # Errors
    /// [`Error::Hub`] with the kind in `fault`. Without network and cache it names the three ways on.
    pub fn resolve(&self, request: &ModelRequest, notify: &mut dyn FnMut(Event<'_>)) -> Result<Located> {
        let pinned = names::is_commit(&request.revision);
        let cached_will_do = request.freshness == Freshness::Cached || pinned || self.client.is_none();
        if cached_will_do && let Some(located) = self.find(request)? {
            return Ok(located);
        }
        let Some(client) = &self.client else {
            let reason = format!(
                "not in the cache {}, and the hub is offline (HF_HUB_OFFLINE)",
                self.layout.root().display()
            );
            return Err(self.no_way(request, HubFault::NotCached, &reason));
        };
        self.fetch_first(client, request, notify).map_err(|error| match error {
            Error::Hub {
                fault: HubFault::Network,
                reason,
                ..
            } => self.no_way(request, HubFault::Network, &reason),
            other => other,
        })
    }

    fn fetch_first(
        &self,
        client: &Client,
        request: &ModelRequest,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<Located> {
        let names = match &request.files {
            FileChoice::FirstOf(names) => names.clone(),
            FileChoice::OnlyArchive => vec![only_archive(client, request, notify)?],
        };
        let mut absent = String::new();
        for file in &names {
            match self.fetch_one(client, request, file, notify) {
                Err(Error::Hub {
                    fault: HubFault::NotFound,
                    reason,
                    ..
                }) => absent = reason,
                outcome => return outcome,
            }
        }
        let item = format!("{}/{}", request.repo, names.join(" or "));
        Err(Error::hub(item, HubFault::NotFound, absent))
    }

    fn fetch_one(
        &self,
        client: &Client,
        request: &ModelRequest,
        file: &str,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<Located> {
        let (layout, repo) = (&self.layout, request.repo.as_str());
        let item = format!("{repo}/{file}");
        // Twice changed during one download is a hub that contradicts itself.
        for _ in 0..2 {
            let url = client.file_url(repo, &request.revision, file);
            let stat = client.stat(&url, notify).map_err(|failure| failure.into_error(&item))?;
            let commit = stat.commit.clone();
            let located = |path, source| Located {
                path,
                repo: repo.into(),
                file: file.into(),
                commit: commit.clone(),
                source,
            };
            let whole = |path: &PathBuf| match path.metadata() {
                Ok(meta) => meta.is_file() && stat.size_bytes.is_none_or(|bytes| bytes == meta.len()),
                Err(_) => false,
            };
            let path = layout.snapshot(repo, &commit).join(names::checked_file(file)?);
            if whole(&path) {
                // A cache on a read-only disk serves as well.
                let _ = layout.remember(repo, &request.revision, &commit);
                return Ok(located(path, Source::Cache));
            }
            let (blob, partial) = (layout.blob(repo, &stat.etag), layout.partial(repo, &stat.etag));
            let _lock = lock::acquire(&layout.lock(repo, &stat.etag), notify)?;
            let mut source = Source::Cache;
            if !whole(&blob) {
                let folder = blob.parent().unwrap_or(layout.root());
                std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
                // By its commit, so that the bytes are those whose hash was just stated, however late they come.
                let url = client.file_url(repo, &commit, file);
                let job = Job {
                    url: &url,
                    stat: &stat,
                    item: &item,
                    partial: &partial,
                    blob: &blob,
                };
                if fetch::fetch(client, &job, notify)? == Outcome::Changed {
                    continue;
                }
                source = Source::Download;
            }
            let path = layout.link(repo, &commit, file, &stat.etag)?;
            layout.remember(repo, &request.revision, &commit)?;
            return Ok(located(path, source));
        }
        Err(Error::hub(
            item,
            HubFault::Corrupt,
            "the file keeps changing on the hub during the download",
        ))
    }

    /// The error of somebody who has neither network nor cache.
    fn no_way(&self, request: &ModelRequest, fault: HubFault, reason: &str) -> Error {
        let unfinished = match self.layout.unfinished_bytes(&request.repo) {
            0 => String::new(),
            bytes => format!("; an interrupted download of {bytes} bytes is incomplete and cannot be used"),
        };
        let onward = match self.find(request) {
            Ok(Some(located)) => format!("the cache holds commit {}: {}", located.commit, located.path.display()),
            _ => {
                let spec = request.spec();
                format!(
                    "ways on: `needle download {spec}` where there is a network, a file (--model FILE), or --model demo"
                )
            }
        };
        Error::hub(request.label(), fault, format!("{reason}{unfinished}; {onward}"))
    }
}

fn only_archive(client: &Client, request: &ModelRequest, notify: &mut dyn FnMut(Event<'_>)) -> Result<String> {
    let listed = client.list(&request.repo, &request.revision, notify);
    let names = listed.map_err(|failure| failure.into_error(&request.repo))?;
    let mut archives: Vec<String> = names.into_iter().filter(|name| names::is_archive(name)).collect();
    match archives.pop() {
        Some(only) if archives.is_empty() => Ok(names::checked_file(&only)?.to_string()),
        last => Err(several(request, &archives.into_iter().chain(last).collect::<Vec<_>>())),
    }
}

fn several(request: &ModelRequest, archives: &[String]) -> Error {
    let names = match archives {
        [] => "no .cact archive; name a file".to_string(),
        some => format!(
            "{} archives; name one: {}",
            some.len(),
            some.iter()
                .take(8)
                .map(|name| format!("{name:?}"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    Error::hub(
        request.repo(),
        HubFault::NotFound,
        format!("the repository holds {names}"),
    )
}
