//! What an archive was built from. The archive's format has no place for it, and its bytes are to be the exporter's own, so it
//! lies beside the archive, as JSON in `ARCHIVE.json`.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::{BitMap, Checkpoint, Written, replace::replace};
use crate::{
    error::{Error, Result},
    fingerprint,
    weights::Bytes,
};

/// The form of the file; a reader refuses others.
const FORM: u32 = 1;

/// A file by its content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileMark {
    /// Its name, without folders.
    pub file: String,
    /// Its size.
    pub size_bytes: usize,
    /// SHA-256 of its bytes, in lower-case hexadecimal digits.
    pub sha256: String,
}

impl FileMark {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    pub fn of(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or(path.as_os_str());
        Ok(Self::of_bytes(&name.to_string_lossy(), &Bytes::map(path)?))
    }

    /// The small model inside the library.
    pub fn demo() -> Self {
        Self::of_bytes("demo", super::DEMO)
    }

    /// Bytes in memory, under this name.
    pub fn of_bytes(name: &str, bytes: &[u8]) -> Self {
        Self {
            file: name.into(),
            size_bytes: bytes.len(),
            sha256: fingerprint::sha256(bytes),
        }
    }
}

/// What an archive was built from, how, and for which tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The form of this record.
    pub form: u32,
    /// Version of the program that built it.
    pub needle: String,
    /// When, in UTC, as in `2026-11-30T15:04:05Z`.
    pub built: String,
    /// The archive.
    pub archive: FileMark,
    /// Fingerprint of its weights, as [`Engine::fingerprint`](crate::Engine::fingerprint) gives it.
    pub weights: String,
    /// The checkpoint or archive that it was made from.
    pub base: FileMark,
    /// The adapters that were put into it, in order.
    pub adapters: Vec<FileMark>,
    /// The bit map, as [`BitMap::parse`] reads it.
    pub bits: String,
    /// Probe heads inside. They are the base's own: no adapter trains them.
    pub heads: Vec<String>,
    /// SHA-256 of each tool that it was made for, by name, as [`ToolSet::fingerprints`](crate::ToolSet::fingerprints) gives
    /// them; absent where nobody said.
    pub tools: Option<BTreeMap<String, String>>,
}

impl Provenance {
    /// The record of an archive that was just written, made from these files.
    ///
    /// # Errors
    /// As [`Checkpoint::open`] and [`FileMark::of`].
    pub fn new(written: &Written, map: &BitMap, base: FileMark, adapters: Vec<FileMark>) -> Result<Self> {
        let archive = Checkpoint::open(&written.path)?;
        Ok(Self {
            form: FORM,
            needle: env!("CARGO_PKG_VERSION").into(),
            built: now(),
            archive: FileMark::of(&written.path)?,
            weights: archive.fingerprint(),
            base,
            adapters,
            bits: map.to_string(),
            heads: archive.format.heads.iter().map(|&head| head.into()).collect(),
            tools: None,
        })
    }

    /// Where the record of an archive lies: beside it, with `.json` behind its name.
    pub fn path_of(archive: &Path) -> PathBuf {
        let mut name = archive.as_os_str().to_owned();
        name.push(".json");
        name.into()
    }

    /// The record beside an archive; `None` where there is none.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read, [`Error::Format`] when it is no such record.
    pub fn beside(archive: &Path) -> Result<Option<Self>> {
        let path = Self::path_of(archive);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(&path, error)),
        };
        let refuse = |reason: String| Error::format(&path, format!("not a record of a build: {reason}"));
        let record: Self = serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
        match record.form {
            FORM => Ok(Some(record)),
            other => Err(refuse(format!("form {other}, this version reads {FORM}"))),
        }
    }

    /// Writes the record beside its archive.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written.
    pub fn save(&self, archive: &Path) -> Result<PathBuf> {
        let path = Self::path_of(archive);
        replace(&path, |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            out.write_all(b"\n")
        })?;
        Ok(path)
    }

    /// How the tools at hand differ from those that the archive was made for, in words; `None` where they do not, or where
    /// the record names none. The order of tools does not count.
    pub fn changed_tools(&self, at_hand: &BTreeMap<String, String>) -> Option<String> {
        let known = self.tools.as_ref()?;
        let list = |names: Vec<&String>, what: &str| {
            let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
            (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
        };
        let absent_from = |names: &BTreeMap<String, String>, from: &BTreeMap<String, String>| -> Vec<_> {
            names.keys().filter(|name| !from.contains_key(*name)).cloned().collect()
        };
        let (new, missing) = (absent_from(at_hand, known), absent_from(known, at_hand));
        let changed = known
            .iter()
            .filter(|(name, hash)| at_hand.get(*name).is_some_and(|other| other != *hash));
        let parts = [
            list(changed.map(|(name, _)| name).collect(), "changed"),
            list(new.iter().collect(), "new"),
            list(missing.iter().collect(), "missing"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

impl Checkpoint {
    /// A short text that other weights do not share.
    pub fn fingerprint(&self) -> String {
        fingerprint::of_weights(&self.config, &self.weights)
    }
}

/// The present second in UTC. A clock before 1970 reads as 1970.
fn now() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    utc(seconds)
}

/// Civil date and time of a second since 1970, from the days of a year that begins with March.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_dates() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_051_045, "2026-11-30T15:04:05Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), date);
        }
    }

    #[test]
    fn differences_of_tools_are_named() {
        let tools = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(name, hash)| (name.to_string(), hash.to_string()))
                .collect()
        };
        let mark = FileMark::of_bytes("x", b"x");
        let mut record = Provenance {
            form: FORM,
            needle: String::new(),
            built: String::new(),
            archive: mark.clone(),
            weights: String::new(),
            base: mark,
            adapters: vec![],
            bits: "4".into(),
            heads: vec![],
            tools: Some(tools(&[("a", "1"), ("b", "2"), ("c", "3")])),
        };
        assert_eq!(
            record.changed_tools(&tools(&[("c", "3"), ("b", "2"), ("a", "1")])),
            None
        );
        let found = record
            .changed_tools(&tools(&[("a", "9"), ("b", "2"), ("d", "4")]))
            .unwrap();
        assert_eq!(found, "changed a; new d; missing c");
        record.tools = None;
        assert_eq!(record.changed_tools(&tools(&[("z", "1")])), None);
    }
}
