//! One blob from the hub to the cache: resume, fetch, check, publish.
//!
//! Bytes go to `<etag>.incomplete` at their own position. The blob's final name appears by renaming, after the length
//! and the SHA-256 that the hub stated were found to be right and the bytes were handed to the disk.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::Event;
use super::client::{Client, Stat};
use super::failure::{Failure, Remedy, Tried};
use crate::error::{Error, HubFault, Result};

const CHUNK_BYTES: usize = 256 * 1024;

/// What is fetched and where to.
pub(super) struct Job<'a> {
    pub(super) url: &'a str,
    pub(super) stat: &'a Stat,
    /// Name for messages and events: `org/repo/file`.
    pub(super) item: &'a str,
    pub(super) partial: &'a Path,
    pub(super) blob: &'a Path,
}

/// How a fetch ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The blob is complete under its final name.
    Published,
    /// The hub's file changed meanwhile; the part was thrown away.
    Changed,
}

/// Why a try ended early: the exchange failed, or this machine did.
enum Stop {
    Exchange(Failure),
    Local(Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Exchange(failure)
    }
}

/// Fetches until the blob is whole, or patience ends. The caller holds the blob's lock.
pub(super) fn fetch(client: &Client, job: &Job<'_>, notify: &mut dyn FnMut(Event<'_>)) -> Result<Outcome> {
    let (mut tries, mut begun) = (0, false);
    loop {
        let before = held_bytes(job.partial);
        let failure = match attempt(client, job, before, notify) {
            Ok(()) => return Ok(Outcome::Published),
            Err(Stop::Local(error)) => return Err(error),
            Err(Stop::Exchange(failure)) => failure,
        };
        if failure.remedy == Remedy::Restart {
            remove(job.partial)?;
            return Ok(Outcome::Changed);
        }
        let advanced = held_bytes(job.partial) > before;
        begun |= advanced;
        if failure.remedy == Remedy::Nothing || (failure.remedy == Remedy::Resume && !begun) {
            return Err(failure.into_error(job.item));
        }
        tries = if advanced { 1 } else { tries + 1 };
        client
            .pause(tries, failure, notify)
            .map_err(|failure| failure.into_error(job.item))?;
    }
}

fn attempt(client: &Client, job: &Job<'_>, held: u64, notify: &mut dyn FnMut(Event<'_>)) -> Tried<(), Stop> {
    let local = |error| Stop::Local(Error::io(job.partial, error));
    let total_bytes = job.stat.size_bytes;
    let mut held = held;
    // Without a hash nobody could tell whether an older part belongs to this file; such files are small.
    if total_bytes.is_some_and(|total| held > total) || job.stat.sha256().is_none() {
        remove(job.partial).map_err(Stop::Local)?;
        held = 0;
    }
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(job.partial)
        .map_err(local)?;
    let mut hash = Sha256::new();
    let mut done = hash_first(&mut file, held, &mut hash).map_err(local)?;
    let resumed = done > 0;
    if total_bytes != Some(done) || done == 0 {
        let mut content = client.open(job.url, job.stat, done)?;
        if content.start_bytes != done {
            (hash, done) = (Sha256::new(), content.start_bytes);
        }
        file.seek(SeekFrom::Start(done)).map_err(local)?;
        let name = job.item;
        notify(Event::Started {
            name,
            done_bytes: done,
            total_bytes,
        });
        done =
            pour(&mut content.reader, &mut file, &mut hash, done, total_bytes, notify).map_err(|stop| match stop {
                Broken::Source(error) => {
                    let reason = format!("the connection broke: {}", ureq::Error::from(error));
                    Stop::Exchange(Failure::new(HubFault::Network, Remedy::Resume, reason))
                }
                Broken::Sink(error) if is_full(&error) => Stop::Local(disk_full(job)),
                Broken::Sink(error) => local(error),
            })?;
        // A server that ignored the range may have sent fewer bytes than an older part held.
        file.set_len(done).map_err(local)?;
    }
    check(job, done, &hex(&hash.finalize()), resumed)?;
    file.sync_all().map_err(local)?;
    drop(file);
    fs::rename(job.partial, job.blob).map_err(|error| Stop::Local(Error::io(job.blob, error)))
}

/// Compares with what the hub stated; on a difference throws the bytes away, so that no later try builds on them.
fn check(job: &Job<'_>, done: u64, sha256: &str, resumed: bool) -> Tried<(), Stop> {
    let reason = match (job.stat.size_bytes, job.stat.sha256()) {
        (Some(total), _) if done < total => {
            let reason = format!("the connection ended after {done} of {total} bytes");
            return Err(Stop::Exchange(Failure::new(HubFault::Network, Remedy::Resume, reason)));
        }
        (Some(total), _) if done > total => format!("expected {total} bytes, found more"),
        (_, Some(expected)) if expected != sha256 => format!("expected SHA-256 {expected}, found {sha256}"),
        _ => return Ok(()),
    };
    remove(job.partial).map_err(Stop::Local)?;
    // The part of an earlier run may be to blame: once more from the start. A whole download that is wrong stays wrong.
    let remedy = if resumed { Remedy::Retry(None) } else { Remedy::Nothing };
    Err(Stop::Exchange(Failure::new(
        HubFault::Corrupt,
        remedy,
        format!("{reason}; the bytes were thrown away"),
    )))
}

/// Which end of a transfer broke.
enum Broken {
    Source(io::Error),
    Sink(io::Error),
}

/// Copies until the source ends or the stated length is exceeded; returns the position reached.
fn pour(
    source: &mut dyn Read,
    sink: &mut dyn Write,
    hash: &mut Sha256,
    start_bytes: u64,
    total_bytes: Option<u64>,
    notify: &mut dyn FnMut(Event<'_>),
) -> Tried<u64, Broken> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut done = start_bytes;
    loop {
        let count = match source.read(&mut buffer) {
            Ok(0) => return Ok(done),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Broken::Source(error)),
        };
        sink.write_all(&buffer[..count]).map_err(Broken::Sink)?;
        hash.update(&buffer[..count]);
        done += count as u64;
        notify(Event::Advanced { done_bytes: done });
        if total_bytes.is_some_and(|total| done > total) {
            return Ok(done);
        }
    }
}

/// Feeds the first `held` bytes of an earlier part to the hash; returns how many there were.
fn hash_first(file: &mut File, held: u64, hash: &mut Sha256) -> io::Result<u64> {
    let mut nothing = |_: Event<'_>| {};
    let poured = pour(&mut file.take(held), &mut io::sink(), hash, 0, None, &mut nothing);
    poured.map_err(|(Broken::Source(error) | Broken::Sink(error))| error)
}

/// SHA-256 of a file, in lower-case hexadecimal digits.
pub(super) fn sha256_of(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(|error| Error::io(path, error))?;
    let mut hash = Sha256::new();
    hash_first(&mut file, u64::MAX, &mut hash).map_err(|error| Error::io(path, error))?;
    Ok(hex(&hash.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn held_bytes(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

/// Gives the room back: a full disk hurts more than a second download.
fn disk_full(job: &Job<'_>) -> Error {
    let removed = match remove(job.partial) {
        Ok(()) => "what had been fetched was removed again",
        Err(_) => "what had been fetched could not be removed",
    };
    let folder = job.blob.parent().unwrap_or(job.blob).display();
    let size = job
        .stat
        .size_bytes
        .map_or_else(String::new, |bytes| format!(" for {bytes} bytes"));
    Error::hub(
        job.item,
        HubFault::DiskFull,
        format!("no room{size} in {folder}; {removed}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Small {
        room: usize,
    }

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room);
            self.room -= count;
            if count == 0 {
                Err(ErrorKind::StorageFull.into())
            } else {
                Ok(count)
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_from_a_broken_connection() {
        let bytes = vec![7u8; 3 * CHUNK_BYTES];
        let mut small = Small { room: CHUNK_BYTES + 5 };
        let poured = pour(
            &mut bytes.as_slice(),
            &mut small,
            &mut Sha256::new(),
            0,
            None,
            &mut |_| {},
        );
        assert!(matches!(poured, Err(Broken::Sink(error)) if is_full(&error)));
    }

    #[test]
    fn a_source_without_end_is_left_after_the_stated_length() {
        let poured = pour(
            &mut io::repeat(1),
            &mut io::sink(),
            &mut Sha256::new(),
            0,
            Some(1000),
            &mut |_| {},
        );
        assert!(matches!(poured, Ok(done) if done > 1000 && done <= 1000 + CHUNK_BYTES as u64));
    }

    #[test]
    fn hash_of_a_known_text() {
        let mut hash = Sha256::new();
        assert!(matches!(
            pour(&mut b"abc".as_slice(), &mut io::sink(), &mut hash, 0, None, &mut |_| {}),
            Ok(3)
        ));
        assert_eq!(
            hex(&hash.finalize()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
