//! The hub client against a stand-in on loopback: what a user meets when the network, the hub or the disk misbehaves.
//!
//! Nothing here leaves the machine, and nothing reads the process's environment except the child processes of
//! [`processes`], which get one of their own.

mod cache;
pub(crate) mod http;
mod inventory;
mod names;
mod network;
mod processes;
#[cfg(feature = "hub-python")]
mod python;
mod stand_in;
mod statuses;
mod transfers;
mod upload;

use std::path::Path;
use std::time::Duration;

use crate::scratch::Scratch;
use http::Answer;
use needle_core::hub::{Event, Hub, HubOptions, Located, ModelRequest, Patience};
use needle_core::{Error, HubFault, Result};
use stand_in::{Host, StandIn};

/// The folder of `Cactus-Compute/needle3` in a cache.
const REPO: &str = "models--Cactus-Compute--needle3";

/// The published archive of generation 3, as far as the stand-in is concerned: large enough for several chunks.
const WEIGHTS_BYTES: usize = 1_000_000;

/// A stand-in with `needle3.cact` and a small `config.json`, an empty cache, and the bytes of the archive.
fn published(name: &str) -> (StandIn, Scratch, Vec<u8>) {
    let stand_in = StandIn::start();
    let weights = stand_in::noise(WEIGHTS_BYTES, 3);
    stand_in.publish(
        "Cactus-Compute/needle3",
        &[("needle3.cact", &weights), ("config.json", &[b' '; 818])],
    );
    (stand_in, Scratch::new(name), weights)
}

/// Options for a stand-in: as patient as the real ones, but quicker.
fn options(endpoint: &str, cache: &Path) -> HubOptions {
    let mut options = HubOptions::new(cache);
    options.endpoint = endpoint.into();
    options.patience = Patience {
        attempts: 4,
        first_pause: Duration::from_millis(2),
        longest_pause: Duration::from_secs(2),
        connect_timeout: Duration::from_secs(5),
        read_timeout: Duration::from_secs(5),
    };
    options
}

fn hub(stand_in: &StandIn, cache: &Path) -> Hub {
    Hub::new(options(stand_in.url(), cache)).unwrap()
}

fn resolve(hub: &Hub, spec: &str) -> Result<Located> {
    hub.resolve(&ModelRequest::parse(spec).unwrap(), &mut |_: Event<'_>| {})
}

fn bytes_of(located: &Located) -> Vec<u8> {
    std::fs::read(&located.path).unwrap()
}

/// The kind and the one line of an error from the hub.
#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T>) -> (HubFault, String) {
    let error = outcome.unwrap_err();
    let text = error.to_string();
    assert_eq!(text.lines().count(), 1, "not one line: {text}");
    assert!(
        !text.contains("s3cret") && !text.contains("hf_"),
        "a secret is shown: {text}"
    );
    match error {
        Error::Hub { fault, .. } => (fault, text),
        other => panic!("expected an error of the hub, found {other:?}"),
    }
}

/// Every name below a folder, sorted, links not followed.
fn names_below(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                names.push(
                    entry
                        .path()
                        .strip_prefix(folder)
                        .unwrap()
                        .to_string_lossy()
                        .into_owned(),
                );
            }
        }
    }
    names.sort();
    names
}

/// Spoils the first `times` answers of `host`.
fn spoil(stand_in: &StandIn, host: Host, times: usize, mut change: impl FnMut(&mut Answer) + Send + 'static) {
    let mut left = times;
    stand_in.twist(move |asked, _, answer| {
        if asked == host && left > 0 {
            left -= 1;
            change(answer);
        }
    });
}

/// Nothing but locks and what may be resumed: no blob, no snapshot, no ref.
fn assert_nothing_published(cache: &Path) {
    let published = names_below(cache)
        .into_iter()
        .filter(|name| !name.starts_with(".locks") && !name.ends_with(".incomplete"));
    assert_eq!(published.collect::<Vec<_>>(), Vec::<String>::new());
}
