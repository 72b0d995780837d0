//! What the cache holds of weights: list, verify, remove. No network.
//!
//! The cache belongs to all Hugging Face clients of the machine. Listed are the weight files of the repositories that
//! concern us: those of `Cactus-Compute`, and any with a `.cact` archive in it. Nothing else is ever removed.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Hub;
use super::cache::{files_below, repo_of_folder};
use super::fetch::sha256_of;
use super::lock;
use super::names::{is_archive, is_repo, is_sha256, is_weight_file};
use super::request::{FileChoice, ModelRequest};
use crate::error::{Error, HubFault, Result};

/// One weight file of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedFile {
    /// `org/repo`.
    pub repo: String,
    /// Name in the repository.
    pub file: String,
    /// The commit of the snapshot that it lies in.
    pub commit: String,
    /// Branches and tags that mean this commit.
    pub revisions: Vec<String>,
    /// Path in the cache.
    pub path: PathBuf,
    /// Size.
    pub size_bytes: u64,
    /// The SHA-256 that the hub stated, where it did.
    pub sha256: Option<String>,
}

/// A download that was begun and not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// `org/repo`.
    pub repo: String,
    /// Path in the cache.
    pub path: PathBuf,
    /// Bytes so far.
    pub size_bytes: u64,
}

/// What the cache holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Weight files, by repository, file and commit.
    pub files: Vec<CachedFile>,
    /// Unfinished downloads of the same repositories.
    pub partials: Vec<Partial>,
}

/// What a check of a cached file found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The bytes have the SHA-256 that the hub stated.
    Intact,
    /// They have not.
    Damaged {
        /// The SHA-256 found.
        found: String,
    },
    /// The hub stated none for this file.
    Unknown,
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Names in the repository, with their commits: `commit/file`.
    pub files: Vec<String>,
    /// Bytes of the blobs that went with them.
    pub freed_bytes: u64,
}

impl Hub {
    /// Lists the weight files of the cache. A cache that does not exist is empty.
    pub fn inventory(&self) -> Result<Inventory> {
        let mut inventory = Inventory::default();
        for folder in subfolders(self.layout.root())? {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            let Some(repo) = repo_of_folder(&name).filter(|repo| is_repo(repo)) else {
                continue;
            };
            let files = self.weight_files(&repo)?;
            if files.iter().any(|file| is_archive(&file.file)) || repo.starts_with("Cactus-Compute/") {
                inventory.partials.extend(partials(&folder, &repo)?);
                inventory.files.extend(files);
            }
        }
        inventory
            .files
            .sort_by(|a, b| (&a.repo, &a.file, &a.commit).cmp(&(&b.repo, &b.file, &b.commit)));
        inventory.partials.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(inventory)
    }

    /// Hashes a cached file and compares.
    pub fn verify(&self, file: &CachedFile) -> Result<Verdict> {
        let found = sha256_of(&file.path)?;
        Ok(match &file.sha256 {
            Some(expected) if *expected == found => Verdict::Intact,
            Some(_) => Verdict::Damaged { found },
            // Without links the blob's name is not at hand, but a blob named after the very hash proves the file.
            None if self.layout.blob(&file.repo, &found).is_file() => Verdict::Intact,
            None => Verdict::Unknown,
        })
    }

    /// Removes what a request names, in all revisions: a file, or with `<org>/<repo>` the repository's whole folder.
    ///
    /// Blobs that other names still use stay. A repository whose last weight file goes is removed whole.
    ///
    /// # Errors
    /// `NotCached` when there is nothing of that name.
    pub fn remove(&self, request: &ModelRequest) -> Result<Removed> {
        let repo = request.repo();
        let files = self.weight_files(repo)?;
        let folder = self.layout.repo(repo);
        let doomed: Vec<&CachedFile> = files.iter().filter(|file| request.names(repo, &file.file)).collect();
        let whole_repo = request.files == FileChoice::OnlyArchive && folder.is_dir();
        if doomed.is_empty() && !whole_repo {
            let reason = format!("not in the cache {}", self.layout.root().display());
            return Err(Error::hub(request.label(), HubFault::NotCached, reason));
        }
        let before = stored_bytes(&folder)?;
        if whole_repo || doomed.len() == files.len() {
            // Renamed first, so that no reader finds half a repository.
            let dying = super::cache::beside(&folder, "removed");
            fs::rename(&folder, &dying).map_err(|error| Error::io(&folder, error))?;
            fs::remove_dir_all(&dying).map_err(|error| Error::io(&dying, error))?;
        } else {
            for file in &doomed {
                self.remove_file(file)?;
            }
        }
        let names = doomed
            .iter()
            .map(|file| format!("{}/{}", file.commit, file.file))
            .collect();
        Ok(Removed {
            files: names,
            freed_bytes: before - stored_bytes(&folder)?.min(before),
        })
    }

    /// Removes one name, and its blob if that was the last name.
    fn remove_file(&self, file: &CachedFile) -> Result<()> {
        let etag = blob_name(&file.path);
        let _lock = match &etag {
            Some(etag) => Some(lock::acquire(&self.layout.lock(&file.repo, etag), &mut |_| {})?),
            None => None,
        };
        fs::remove_file(&file.path).map_err(|error| Error::io(&file.path, error))?;
        let Some(etag) = etag else { return Ok(()) };
        let snapshots = self.layout.repo(&file.repo).join("snapshots");
        let names = files_below(&snapshots)?;
        let in_use: BTreeSet<String> = names
            .iter()
            .filter_map(|name| blob_name(&snapshots.join(name)))
            .collect();
        if in_use.contains(&etag) {
            return Ok(());
        }
        let blob = self.layout.blob(&file.repo, &etag);
        fs::remove_file(&blob).map_err(|error| Error::io(&blob, error))
    }

    fn weight_files(&self, repo: &str) -> Result<Vec<CachedFile>> {
        let folder = self.layout.repo(repo);
        let refs_folder = folder.join("refs");
        let mut revisions = Vec::new();
        for name in files_below(&refs_folder)? {
            if let Ok(commit) = fs::read_to_string(refs_folder.join(&name)) {
                revisions.push((name, commit.trim().to_string()));
            }
        }
        let mut files = Vec::new();
        for snapshot in subfolders(&folder.join("snapshots"))? {
            let commit = snapshot.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for file in files_below(&snapshot)?.into_iter().filter(|file| is_weight_file(file)) {
                let path = snapshot.join(&file);
                let size_bytes = fs::metadata(&path).map_err(|error| Error::io(&path, error))?.len();
                let sha256 = blob_name(&path).filter(|etag| is_sha256(etag));
                let named = revisions.iter().filter(|(_, known)| *known == commit);
                let revisions = named.map(|(name, _)| name.clone()).collect();
                files.push(CachedFile {
                    repo: repo.into(),
                    file,
                    commit: commit.clone(),
                    revisions,
                    path,
                    size_bytes,
                    sha256,
                });
            }
        }
        Ok(files)
    }
}

/// The ETag of the blob that a snapshot's link points at: one step, for the blob itself may be a link too.
fn blob_name(path: &Path) -> Option<String> {
    fs::read_link(path).ok()?.file_name()?.to_str().map(str::to_string)
}

fn partials(folder: &Path, repo: &str) -> Result<Vec<Partial>> {
    let blobs = folder.join("blobs");
    let names = files_below(&blobs)?
        .into_iter()
        .filter(|name| name.ends_with(".incomplete"));
    let partial = |name: String| {
        let path = blobs.join(name);
        let size_bytes = fs::metadata(&path).map_or(0, |meta| meta.len());
        Partial {
            repo: repo.into(),
            path,
            size_bytes,
        }
    };
    Ok(names.map(partial).collect())
}

/// Bytes of a repository's blobs, and of snapshot files that are no links.
fn stored_bytes(folder: &Path) -> Result<u64> {
    let files = files_below(folder)?
        .into_iter()
        .filter(|name| !name.starts_with("refs/"));
    let metas = files.filter_map(|name| fs::symlink_metadata(folder.join(name)).ok());
    Ok(metas.filter(|meta| meta.is_file()).map(|meta| meta.len()).sum())
}

fn subfolders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(folder, error)),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| Error::io(folder, error))?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    Ok(folders)
}
