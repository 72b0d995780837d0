//! A file of the hub on this machine, and a copy of it elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use super::cache::beside;
use super::fetch::is_full;
use crate::error::{Error, HubFault, Result};

/// Where a located file came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It was in the cache.
    Cache,
    /// It was fetched just now.
    Download,
}

/// A file of the hub on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Path in the cache.
    pub path: PathBuf,
    /// `org/repo`.
    pub repo: String,
    /// Name in the repository.
    pub file: String,
    /// The commit that it belongs to: a revision that never changes.
    pub commit: String,
    /// Cached or fetched.
    pub source: Source,
}

impl Located {
    /// Copies the file out of the cache: into `out` if that is a folder or ends with a separator, else to that name.
    ///
    /// The copy appears whole or not at all; an older file of the name is replaced.
    ///
    /// # Errors
    /// `DiskFull` when there is no room; [`Error::Io`] for everything else.
    pub fn copy_to(&self, out: &Path) -> Result<PathBuf> {
        let is_folder = out.is_dir() || out.as_os_str().to_string_lossy().ends_with(std::path::is_separator);
        let name = self.file.rsplit('/').next().unwrap_or(&self.file);
        let target = if is_folder { out.join(name) } else { out.to_path_buf() };
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
        }
        let staged = beside(&target, "copy");
        let copied = fs::copy(&self.path, &staged).and_then(|_| fs::rename(&staged, &target));
        copied.map(|()| target.clone()).map_err(|error| {
            let _ = fs::remove_file(&staged);
            if is_full(&error) {
                let item = format!("{}/{}", self.repo, self.file);
                return Error::hub(
                    item,
                    HubFault::DiskFull,
                    format!("no room for the copy {}", target.display()),
                );
            }
            Error::io(&target, error)
        })
    }
}
