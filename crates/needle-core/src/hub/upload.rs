//! Files sent to a repository of the hub, as one commit: `transfer` has the steps.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use super::{
    Event, Hub,
    fetch::sha256_of,
    names,
    transfer::{Mode, Transfer},
};
use crate::error::{Error, HubFault, Result};

/// A file that is to be sent, by its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadFile {
    /// Where it lies here.
    pub path: PathBuf,
    /// Its name in the repository.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// SHA-256 in lower-case hexadecimal digits.
    pub sha256: String,
}

impl UploadFile {
    /// Reads a file; in the repository it keeps its name, at the root.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read, [`Error::Hub`] for a name that no repository takes.
    pub fn of(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let meta = path.metadata().map_err(|error| Error::io(path, error))?;
        Ok(Self {
            path: path.into(),
            name: names::checked_file(&name)?.to_owned(),
            size_bytes: meta.len(),
            sha256: sha256_of(path)?,
        })
    }

    pub(super) fn open(&self) -> Result<File> {
        File::open(&self.path).map_err(|error| Error::io(&self.path, error))
    }
}

/// What an upload made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uploaded {
    /// The commit; empty where the hub does not name it.
    pub commit: String,
    /// The commit's page.
    pub url: String,
    /// Whether the repository was made for it. It is private then.
    pub is_new: bool,
}

/// Checks that `repo` is `org/repo`.
///
/// # Errors
/// [`Error::Hub`] where it is not.
pub fn checked_repository(repo: &str) -> Result<&str> {
    match repo.split_once('/') {
        Some((org, name)) => names::checked_repo(org, name).map(|_| repo),
        None => Err(Error::hub(
            format!("{repo:?}"),
            HubFault::Request,
            "expected <org>/<repo>",
        )),
    }
}

impl Hub {
    /// Sends files to the main branch of a repository, in one commit with this summary. A repository that does not exist is
    /// made, and is private. `notify` hears of the bytes.
    ///
    /// # Errors
    /// [`Error::Hub`] with the kind in `fault`; [`Error::Io`] when a file cannot be read.
    pub fn upload(
        &self,
        repo: &str,
        files: &[UploadFile],
        summary: &str,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<Uploaded> {
        checked_repository(repo)?;
        let Some(client) = &self.client else {
            let reason = "nothing can be sent: the hub is offline (HF_HUB_OFFLINE)";
            return Err(Error::hub(repo, HubFault::Network, reason));
        };
        if client.token.is_none() {
            let reason = "sending needs a token that may write: set HF_TOKEN, or put it into the token file";
            return Err(Error::hub(repo, HubFault::Unauthorized, reason));
        }
        let transfer = Transfer { client, repo };
        let (modes, is_new) = match transfer.modes(files, notify)? {
            Some(modes) => (modes, false),
            None => {
                transfer.create(notify)?;
                let absent = || {
                    Error::hub(
                        repo,
                        HubFault::NotFound,
                        "404: no such repository, though it was just made",
                    )
                };
                (transfer.modes(files, notify)?.ok_or_else(absent)?, true)
            }
        };
        let large: Vec<&UploadFile> = files
            .iter()
            .zip(&modes)
            .filter(|(_, mode)| **mode == Mode::Large)
            .map(|(file, _)| file)
            .collect();
        if !large.is_empty() {
            for (file, actions) in large.iter().zip(transfer.places(&large, notify)?) {
                transfer.store(file, &actions, notify)?;
            }
        }
        let (commit, url) = transfer.commit(files, &modes, summary, notify)?;
        Ok(Uploaded { commit, url, is_new })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_have_two_parts() {
        assert!(checked_repository("me/kitchen").is_ok());
        for odd in ["", "me", "me/", "a/b/c", "me/kit chen", "../x"] {
            assert!(checked_repository(odd).is_err(), "{odd}");
        }
    }
}
