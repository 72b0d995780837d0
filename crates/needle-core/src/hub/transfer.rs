//! The steps of an upload, one request each.
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
};

use serde_json::{Value, json};

use super::{
    Event,
    base64::base64,
    client::Client,
    failure::{Failure, Remedy, Tried},
    sending::Sending,
    upload::UploadFile,
};
use crate::error::{Error, HubFault, Result};

/// Bytes from the start of a file by which the hub judges it.
const SAMPLE_BYTES: u64 = 512;
const BRANCH: &str = "main";
const JSON: &str = "application/json";
const LFS_JSON: &str = "application/vnd.git-lfs+json";
const LINES: &str = "application/x-ndjson";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// One of Git's own: its bytes stand in the commit.
    Small,
    /// In large-file storage.
    Large,
}

/// An upload in progress.
pub(super) struct Transfer<'a> {
    pub(super) client: &'a Client,
    pub(super) repo: &'a str,
}

impl Transfer<'_> {
    /// How the hub wants each file; `None` where there is no such repository.
    pub(super) fn modes(&self, files: &[UploadFile], notify: &mut dyn FnMut(Event<'_>)) -> Result<Option<Vec<Mode>>> {
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

    pub(super) fn create(&self, notify: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        let (org, name) = self.repo.split_once('/').unwrap_or_default();
        let url = format!("{}/api/repos/create", self.client.endpoint);
        let wanted = json!({ "type": "model", "organization": org, "name": name, "private": true });
        self.post(&url, JSON, &wanted, notify)
            .map(drop)
            .map_err(|failure| self.error(failure))
    }

    /// For each file what the large-file storage wants done: nothing where it has the bytes.
    pub(super) fn places(&self, files: &[&UploadFile], notify: &mut dyn FnMut(Event<'_>)) -> Result<Vec<Value>> {
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
    pub(super) fn store(&self, file: &UploadFile, actions: &Value, notify: &mut dyn FnMut(Event<'_>)) -> Result<()> {
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

    pub(super) fn commit(
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
