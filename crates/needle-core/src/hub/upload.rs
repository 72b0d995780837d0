//! Files sent to a repository of the hub, as one commit.
//!
//! ```text
//! preupload    the hub says of each file whether it is one of Git's own or belongs into large-file storage
//! LFS batch    for the large ones: where the bytes go, or that the hub has them already
//! PUT          the bytes, to the storage host, which gets no token
//! verify       where the hub asks for it
//! commit       lines of JSON: a header, then a line a file
//! ```

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    Event, Hub,
    client::Client,
    failure::{Failure, Remedy, Tried},
    fetch::sha256_of,
    names,
    sending::Sending,
};
use crate::error::{Error, HubFault, Result};

/// Bytes from the start of a file by which the hub judges it.
const SAMPLE_BYTES: u64 = 512;
const BRANCH: &str = "main";
const JSON: &str = "application/json";
const LFS_JSON: &str = "application/vnd.git-lfs+json";
const LINES: &str = "application/x-ndjson";

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

    fn open(&self) -> Result<File> {
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// One of Git's own: its bytes stand in the commit.
    Small,
    /// In large-file storage.
    Large,
}

struct Transfer<'a> {
    client: &'a Client,
    repo: &'a str,
}

impl Transfer<'_> {
    /// How the hub wants each file; `None` where there is no such repository.
    fn modes(&self, files: &[UploadFile], notify: &mut dyn FnMut(Event<'_>)) -> Result<Option<Vec<Mode>>> {
        let mut described = vec![];
        for file in files {
            let mut sample = vec![];
            let read = file.open()?.take(SAMPLE_BYTES).read_to_end(&mut sample);
            read.map_err(|error| Error::io(&file.path, error))?;
            described.push(json!({ "path": file.name, "sample": base64(&sample), "size": file.size_bytes }));
        }
        let url = format!("{}/api/models/{}/preupload/{BRANCH}", self.client.endpoint, self.repo);
        let answer = match self.post(&url, JSON, &json!({ "files": described }), notify) {
            Err(failure) if failure.fault == HubFault::NotFound => return Ok(None),
            answer => answer.map_err(|failure| self.error(failure))?,
        };
        let entry = |file: &UploadFile| {
            let mut entries = answer.get("files")?.as_array()?.iter();
            entries.find(|entry| entry.get("path").and_then(Value::as_str) == Some(&file.name))
        };
        let mode = |file: &UploadFile| {
            let entry = entry(file).ok_or_else(|| self.odd("does not say how it wants the file", file))?;
            if entry.get("shouldIgnore").and_then(Value::as_bool) == Some(true) {
                return Err(self.odd("ignores the file: the repository's .gitignore names it", file));
            }
            match entry.get("uploadMode").and_then(Value::as_str) {
                Some("lfs") if file.size_bytes > 0 => Ok(Mode::Large),
                Some("lfs" | "regular") => Ok(Mode::Small),
                _ => Err(self.odd("does not say how it wants the file", file)),
            }
        };
        files.iter().map(mode).collect::<Result<Vec<_>>>().map(Some)
    }

    fn create(&self, notify: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        let (org, name) = self.repo.split_once('/').unwrap_or_default();
        let url = format!("{}/api/repos/create", self.client.endpoint);
        let wanted = json!({ "type": "model", "organization": org, "name": name, "private": true });
        self.post(&url, JSON, &wanted, notify)
            .map(drop)
            .map_err(|failure| self.error(failure))
    }

    /// For each file what the large-file storage wants done: nothing where it has the bytes.
    fn places(&self, files: &[&UploadFile], notify: &mut dyn FnMut(Event<'_>)) -> Result<Vec<Value>> {
        let objects: Vec<Value> = files
            .iter()
            .map(|file| json!({ "oid": file.sha256, "size": file.size_bytes }))
            .collect();
        let url = format!("{}/{}.git/info/lfs/objects/batch", self.client.endpoint, self.repo);
        let wanted = json!({
            "operation": "upload", "transfers": ["basic"], "objects": objects, "hash_algo": "sha256", "ref": { "name": BRANCH },
        });
        let answer = self
            .post(&url, LFS_JSON, &wanted, notify)
            .map_err(|failure| self.error(failure))?;
        let place = |file: &&UploadFile| {
            let found = answer.get("objects").and_then(Value::as_array).and_then(|objects| {
                objects
                    .iter()
                    .find(|object| object.get("oid").and_then(Value::as_str) == Some(&file.sha256))
            });
            let found = found.ok_or_else(|| self.odd("does not say where the bytes go", file))?;
            match found.get("error") {
                None | Some(Value::Null) => Ok(found.get("actions").cloned().unwrap_or(Value::Null)),
                Some(error) => {
                    let told = error
                        .get("message")
                        .and_then(Value::as_str)
                        .unwrap_or("no reason given");
                    Err(self.odd(&format!("refuses the file: {told:.200}"), file))
                }
            }
        };
        files.iter().map(place).collect()
    }

    /// Sends the bytes where the storage wants them.
    fn store(&self, file: &UploadFile, actions: &Value, notify: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        let Some(upload) = actions.get("upload") else {
            return Ok(());
        };
        let url = upload.get("href").and_then(Value::as_str);
        let url = url.ok_or_else(|| self.odd("does not say where the bytes go", file))?;
        let headers = headers(upload);
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let name = format!("{}/{}", self.repo, file.name);
        let mut tries = 0;
        loop {
            notify(Event::Sending {
                name: &name,
                total_bytes: file.size_bytes,
            });
            let mut body = Counted {
                file: file.open()?,
                done_bytes: 0,
                notify: &mut *notify,
            };
            let outcome = self.client.transmit(&mut Sending {
                method: "PUT",
                url,
                headers: &headers,
                body: &mut body,
                size_bytes: file.size_bytes,
            });
            match outcome {
                Ok(_) => break,
                Err(failure) if matches!(failure.remedy, Remedy::Retry(_)) => {
                    tries += 1;
                    self.client
                        .pause(tries, failure, notify)
                        .map_err(|failure| self.error(failure))?;
                }
                Err(failure) => return Err(self.error(failure)),
            }
        }
        let verify = actions.get("verify").and_then(|verify| verify.get("href")?.as_str());
        let Some(url) = verify else { return Ok(()) };
        let claim = json!({ "oid": file.sha256, "size": file.size_bytes });
        let body = claim.to_string();
        let told = self.client.patiently(notify, || {
            self.client.transmit(&mut Sending {
                method: "POST",
                url,
                headers: &[("content-type", LFS_JSON), ("accept", LFS_JSON)],
                body: &mut body.as_bytes(),
                size_bytes: body.len() as u64,
            })
        });
        told.map(drop).map_err(|failure| self.error(failure))
    }

    fn commit(
        &self,
        files: &[UploadFile],
        modes: &[Mode],
        summary: &str,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<(String, String)> {
        let mut lines = json!({ "key": "header", "value": { "summary": summary, "description": "" } }).to_string();
        for (file, mode) in files.iter().zip(modes) {
            let line = match mode {
                Mode::Large => json!({
                    "key": "lfsFile",
                    "value": { "path": file.name, "algo": "sha256", "oid": file.sha256, "size": file.size_bytes },
                }),
                Mode::Small => {
                    let mut bytes = vec![];
                    file.open()?
                        .read_to_end(&mut bytes)
                        .map_err(|error| Error::io(&file.path, error))?;
                    json!({ "key": "file", "value": { "path": file.name, "encoding": "base64", "content": base64(&bytes) } })
                }
            };
            lines += &format!("\n{line}");
        }
        let url = format!("{}/api/models/{}/commit/{BRANCH}", self.client.endpoint, self.repo);
        let answer = self
            .client
            .patiently(notify, || self.client.post(&url, LINES, lines.as_bytes()));
        let answer = answer.map_err(|failure| self.error(failure))?;
        let field = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok((field("commitOid"), field("commitUrl")))
    }

    fn post(&self, url: &str, kind: &str, body: &Value, notify: &mut dyn FnMut(Event<'_>)) -> Tried<Value> {
        let body = body.to_string();
        self.client
            .patiently(notify, || self.client.post(url, kind, body.as_bytes()))
    }

    fn odd(&self, what: &str, file: &UploadFile) -> Error {
        Error::hub(
            format!("{}/{}", self.repo, file.name),
            HubFault::Server,
            format!("the hub {what}"),
        )
    }

    fn error(&self, failure: Failure) -> Error {
        let reason = match failure.fault {
            HubFault::Forbidden => {
                let told = failure.reason.find(" (").map_or("", |at| &failure.reason[at..]);
                format!("403: the token may not write there{told}")
            }
            _ => failure.reason,
        };
        Error::hub(self.repo, failure.fault, reason)
    }
}

/// The headers that the storage wants with the bytes.
fn headers(action: &Value) -> Vec<(String, String)> {
    let fields = action.get("header").and_then(Value::as_object);
    let pairs = fields.into_iter().flatten();
    pairs
        .filter_map(|(name, value)| Some((name.to_ascii_lowercase(), value.as_str()?.to_owned())))
        .collect()
}

/// A file that reports how far it was read.
struct Counted<'a, 'b> {
    file: File,
    done_bytes: u64,
    notify: &'a mut (dyn FnMut(Event<'_>) + 'b),
}

impl Read for Counted<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.done_bytes += read as u64;
        (self.notify)(Event::Advanced {
            done_bytes: self.done_bytes,
        });
        Ok(read)
    }
}

/// The standard alphabet, padded.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |word, i| word << 8 | u32::from(*chunk.get(i).unwrap_or(&0)));
        for i in 0..4 {
            let sign = ALPHABET[(word >> (18 - 6 * i) & 63) as usize] as char;
            text.push(if i <= chunk.len() { sign } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_length() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("\u{ff}?>", "w78/Pg=="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn repositories_have_two_parts() {
        assert!(checked_repository("me/kitchen").is_ok());
        for odd in ["", "me", "me/", "a/b/c", "me/kit chen", "../x"] {
            assert!(checked_repository(odd).is_err(), "{odd}");
        }
    }
}
