//! The cache folder, laid out as the Python client lays it out, so that both share one copy:
//!
//! ```text
//! models--org--repo/blobs/<etag>                   the bytes; <etag>.incomplete while they arrive
//! models--org--repo/snapshots/<commit>/<file>      a relative link to the blob
//! models--org--repo/refs/<revision>                the commit that a branch or tag last meant
//! .locks/models--org--repo/<etag>.lock             held by whoever fetches that blob
//! ```
//!
//! A name appears only when what it names is complete: the blob by renaming, then the link, then the ref.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hf_hub::{Cache, Repo, RepoType};

use super::names::{checked_file, is_commit};
use crate::error::{Error, Result};

#[derive(Clone, Debug)]
pub(super) struct Layout {
    root: PathBuf,
}

/// A file that is in the cache, and the commit that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) path: PathBuf,
    pub(super) commit: String,
}

impl Layout {
    pub(super) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn repo(&self, repo: &str) -> PathBuf {
        self.root.join(model(repo).folder_name())
    }

    pub(super) fn blob(&self, repo: &str, etag: &str) -> PathBuf {
        self.repo(repo).join("blobs").join(etag)
    }

    pub(super) fn partial(&self, repo: &str, etag: &str) -> PathBuf {
        self.repo(repo).join("blobs").join(format!("{etag}.incomplete"))
    }

    pub(super) fn lock(&self, repo: &str, etag: &str) -> PathBuf {
        self.root
            .join(".locks")
            .join(model(repo).folder_name())
            .join(format!("{etag}.lock"))
    }

    pub(super) fn snapshot(&self, repo: &str, commit: &str) -> PathBuf {
        Cache::new(self.root.clone()).repo(model(repo)).pointer_path(commit)
    }

    fn ref_path(&self, repo: &str, revision: &str) -> PathBuf {
        self.repo(repo).join("refs").join(revision)
    }

    /// The commit that a revision means, as far as the cache knows.
    pub(super) fn commit(&self, repo: &str, revision: &str) -> Result<Option<String>> {
        if is_commit(revision) {
            return Ok(Some(revision.into()));
        }
        let path = self.ref_path(repo, revision);
        match fs::read_to_string(&path) {
            Ok(text) if is_commit(text.trim()) => Ok(Some(text.trim().into())),
            Ok(_) => Err(Error::format(
                &path,
                "expected a commit of 40 hexadecimal digits; remove this file",
            )),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(Error::io(&path, error)),
        }
    }

    /// Looks a file up; opens no socket and changes nothing.
    pub(super) fn find(&self, repo: &str, revision: &str, file: &str) -> Result<Option<Hit>> {
        let Some(commit) = self.commit(repo, revision)? else {
            return Ok(None);
        };
        let path = self.snapshot(repo, &commit).join(checked_file(file)?);
        Ok(path.is_file().then_some(Hit { path, commit }))
    }

    /// The names of the cached files at a revision, with `/` between folders.
    pub(super) fn files(&self, repo: &str, revision: &str) -> Result<Vec<String>> {
        match self.commit(repo, revision)? {
            Some(commit) => files_below(&self.snapshot(repo, &commit)),
            None => Ok(Vec::new()),
        }
    }

    /// Bytes of downloads of this repository that were begun and not finished.
    pub(super) fn unfinished_bytes(&self, repo: &str) -> u64 {
        let entries = fs::read_dir(self.repo(repo).join("blobs"))
            .into_iter()
            .flatten()
            .flatten();
        let partial = entries.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "incomplete"));
        partial
            .filter_map(|entry| entry.metadata().ok())
            .map(|meta| meta.len())
            .sum()
    }

    /// Makes a complete blob appear under its file name.
    pub(super) fn link(&self, repo: &str, commit: &str, file: &str, etag: &str) -> Result<PathBuf> {
        let path = self.snapshot(repo, commit).join(checked_file(file)?);
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
        let blob = self.blob(repo, etag);
        // Two levels up from `snapshots/<commit>`, and one more for each folder of the file's own.
        let depth = file.split('/').count() + 1;
        let target = Path::new(&"../".repeat(depth)).join("blobs").join(etag);
        let staged = beside(&path, "link");
        let staged_error = |error| Error::io(&staged, error);
        if symlink(&target, &staged).is_err() {
            // No links here (Windows without its developer mode, some network disks): a second name, else a copy.
            fs::hard_link(&blob, &staged)
                .or_else(|_| fs::copy(&blob, &staged).map(drop))
                .map_err(staged_error)?;
        }
        fs::rename(&staged, &path).map_err(|error| {
            let _ = fs::remove_file(&staged);
            Error::io(&path, error)
        })?;
        Ok(path)
    }

    /// Remembers what a branch or tag means now. A commit needs no such note.
    pub(super) fn remember(&self, repo: &str, revision: &str, commit: &str) -> Result<()> {
        if is_commit(revision) || matches!(self.commit(repo, revision), Ok(Some(known)) if known == commit) {
            return Ok(());
        }
        let path = self.ref_path(repo, revision);
        write_whole(&path, commit.as_bytes())
    }
}

fn model(repo: &str) -> Repo {
    Repo::new(repo.into(), RepoType::Model)
}

/// The repository of a folder of the cache, if it is one of a model.
pub(super) fn repo_of_folder(name: &str) -> Option<String> {
    let (org, repo) = name.strip_prefix("models--")?.split_once("--")?;
    Some(format!("{org}/{repo}"))
}

/// All files below `folder`, as relative names with `/`, sorted; links count as what they point at.
pub(super) fn files_below(folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![(folder.to_path_buf(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io(&folder, error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| Error::io(&folder, error))?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder {
                folders.push((entry.path(), format!("{prefix}{name}/")));
            } else if entry.path().is_file() {
                files.push(format!("{prefix}{name}"));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Writes a file whole or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
    }
    let staged = beside(path, "new");
    let written = fs::write(&staged, bytes).and_then(|()| fs::rename(&staged, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&staged);
        Error::io(path, error)
    })
}

/// A name in the same folder that no other process or thread uses.
pub(super) fn beside(path: &Path, purpose: &str) -> PathBuf {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = RandomState::new().build_hasher().finish();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    path.with_file_name(format!(".{name}.{random:016x}.{purpose}"))
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_file(target.components().collect::<PathBuf>(), link)
}

#[cfg(not(any(unix, windows)))]
fn symlink(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}
