//! Data files: opened, written whole, and added to by whole lines.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Seek, SeekFrom, Write},
    path::Path,
};

use crate::{
    checkpoint::replace,
    error::{Error, Result},
};

pub(super) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::io(path, error))
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::io(path, error))
}

pub(crate) fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| Error::io(path, error))
}

/// Removes a file; one that is not there is removed already.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

/// Writes a file of these lines, in place of what was there; nobody ever sees half of it.
///
/// # Errors
/// [`Error::Io`].
pub fn write_lines<'a>(path: &Path, lines: impl IntoIterator<Item = &'a str>) -> Result<()> {
    replace(path, |out| {
        lines.into_iter().try_for_each(|line| writeln!(out, "{line}"))
    })
}

/// Adds lines to the end of a file in one write, making the file where there is none. A last line without its line break, as an
/// interrupted program leaves it, is ended first.
///
/// # Errors
/// [`Error::Io`].
pub fn append_lines<'a>(path: &Path, lines: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let append = || {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut text = String::new();
        if file.seek(SeekFrom::End(0))? > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != [b'\n'] {
                text.push('\n');
            }
        }
        for line in lines {
            text += line;
            text.push('\n');
        }
        file.write_all(text.as_bytes())
    };
    append().map_err(|error| Error::io(path, error))
}
