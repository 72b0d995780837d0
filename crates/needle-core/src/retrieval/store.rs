//! The index on disk: a JSON file of tools and their vectors, keyed by the weights' fingerprint and each tool's own text.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Store {
    /// The fingerprint of the weights that made the vectors.
    pub(super) model: String,
    pub(super) tools: BTreeMap<String, Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The tool's compact JSON.
    pub(super) tool: String,
    pub(super) embedding: Vec<f32>,
}

impl Entry {
    /// Whether the vector is one that the head could have made: of its width, and of length one.
    pub(super) fn is_whole(&self, width: usize) -> bool {
        let length: f32 = self.embedding.iter().map(|x| x * x).sum();
        self.embedding.len() == width && (length - 1.0).abs() < 1e-3
    }
}

impl Store {
    /// What the file holds; `None` where there is no file yet.
    pub(super) fn open(path: &Path) -> Result<Option<Self>> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(path, error)),
        };
        let read = serde_json::from_slice(&text);
        read.map(Some)
            .map_err(|error| Error::format(path, format!("not a tool index: {error}; delete it to make it anew")))
    }

    /// Writes beside the file, then puts it in its place.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).map_err(|error| Error::format(path, error.to_string()))?;
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.{:?}.tmp", std::process::id(), std::thread::current().id()));
        let beside = Path::new(&name);
        let written = fs::write(beside, text).and_then(|()| fs::rename(beside, path));
        written.map_err(|error| {
            let _ = fs::remove_file(beside);
            Error::io(path, error)
        })
    }
}
