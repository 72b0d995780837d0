//! Files that appear at their place only when they are complete: written beside it, then renamed.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::error::{Error, Result};

/// Puts what `write` writes at `path`; on any fault, what lay there stays and nothing is left behind.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let io = |source| Error::io(path, source);
    let (temporary, file) = create_beside(path).map_err(io)?;
    let written = fill(file, write).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        // The first fault is the one to report; the temporary file may be gone already.
        let _ = fs::remove_file(&temporary);
        io(error)
    })
}

fn fill(file: File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::new(file);
    write(&mut out)?;
    out.into_inner()?.sync_all()
}

/// A new file in the folder of `path`, so that renaming it never crosses a file system.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or_else(|| io::Error::other("names no file"))?;
    for attempt in 0..100 {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{attempt}.part", std::process::id()));
        let temporary = path.with_file_name(hidden);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (temporary, file)),
        }
    }
    Err(io::Error::other("100 unfinished files lie beside it"))
}
