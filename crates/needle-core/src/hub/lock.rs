//! One downloader a blob, across threads and processes, with the locks that the Python client takes.
//!
//! The lock saves the same bytes from being fetched twice; correctness does not hang on it. Some network disks grant a
//! lock to everybody: then two downloaders write the same bytes to the same places of the same file, and each checks the
//! hash before it renames.

use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::Event;
use crate::error::{Error, Result};

const POLL: Duration = Duration::from_millis(50);

/// Released when dropped, and by the system when the process ends.
pub(super) struct Lock {
    _file: Option<File>,
}

/// Waits for the lock at `path`. On a disk that knows no locks, goes on without.
pub(super) fn acquire(path: &Path, notify: &mut dyn FnMut(Event<'_>)) -> Result<Lock> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
    let mut told = false;
    loop {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = file.map_err(|error| Error::io(path, error))?;
        match file.try_lock() {
            Ok(()) if is_still_at(&file, path) => return Ok(Lock { _file: Some(file) }),
            // Its last holder removed the file after we had opened it: that lock guards nothing.
            Ok(()) => continue,
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(_)) => return Ok(Lock { _file: None }),
        }
        if !told {
            let reason = "another process is fetching the same file";
            notify(Event::Waiting { reason, wait: POLL });
            told = true;
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(unix)]
fn is_still_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match (file.metadata().map(identity), fs::metadata(path).map(identity)) {
        (Ok(held), Ok(named)) => held == named,
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_still_at(_: &File, _: &Path) -> bool {
    true
}
