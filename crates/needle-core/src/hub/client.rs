//! The exchanges with the hub over HTTP: what a file is (`stat`), its bytes (`open`), the names in a repository.
//!
//! Redirects are followed here and not by ureq, for three reasons: the token goes to the endpoint's own origin and
//! nowhere else; what the hub says of a file stands on the redirect, not behind it; and the length of a redirect's own
//! page is not the length of the file.

use std::io::Read;

use ureq::http::{HeaderMap, Method, Request, StatusCode, Uri};

use super::Event;
use super::address::{self, Origin};
use super::agent::Agents;
use super::failure::{Failure, Remedy, Tried, text};
use super::names::{is_commit, is_sha256};
use super::options::{HubOptions, Patience, Secret};
use super::stated::Stated;
use crate::error::{Error, HubFault, Result};

const MAX_REDIRECTS: usize = 10;
const MAX_LIST_BYTES: u64 = 32 << 20;

/// What the hub states about one file at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) commit: String,
    pub(super) etag: String,
    pub(super) size_bytes: Option<u64>,
}

impl Stat {
    /// The ETag of a file in large-file storage is its SHA-256; that of a small file is Git's own hash.
    pub(super) fn sha256(&self) -> Option<&str> {
        Some(self.etag.as_str()).filter(|etag| is_sha256(etag))
    }
}

/// The bytes of a file from `start_bytes` on.
pub(super) struct Content {
    pub(super) reader: Box<dyn Read>,
    pub(super) start_bytes: u64,
}

pub(super) struct Client {
    pub(super) endpoint: String,
    pub(super) origin: Origin,
    pub(super) token: Option<Secret>,
    pub(super) agents: Agents,
    pub(super) patience: Patience,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// What the hub states is enough; do not follow it to the storage host.
    Stated,
    /// The bytes.
    Body,
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: ureq::Body,
    stated: Stated,
    address: String,
}

impl Client {
    pub(super) fn new(options: &HubOptions) -> Result<Self> {
        let endpoint = options.endpoint.trim_end_matches('/').to_string();
        let origin = Origin::of_text(&endpoint).ok_or_else(|| {
            let reason = format!("expected http://… or https://…, found {endpoint:?}");
            Error::hub("HF_ENDPOINT", HubFault::Request, reason)
        })?;
        Ok(Self {
            endpoint,
            origin,
            token: options.token.clone(),
            agents: Agents::new(options)?,
            patience: options.patience,
        })
    }

    pub(super) fn file_url(&self, repo: &str, revision: &str, file: &str) -> String {
        let (revision, file) = (address::quote_all(revision), address::quote_path(file));
        format!("{}/{repo}/resolve/{revision}/{file}", self.endpoint)
    }

    /// Asks what a file is, patiently.
    pub(super) fn stat(&self, url: &str, notify: &mut dyn FnMut(Event<'_>)) -> Tried<Stat> {
        self.patiently(notify, || {
            let reply = self.follow(Method::HEAD, url, None, Until::Stated)?;
            let missing = |what: &str| not_a_hub(&reply.address, &reply.headers, what);
            let commit = reply
                .stated
                .commit
                .clone()
                .ok_or_else(|| missing("no commit (X-Repo-Commit)"))?;
            let etag = reply.stated.etag.clone().ok_or_else(|| missing("no ETag"))?;
            if !is_commit(&commit) {
                return Err(missing(&format!("a commit that is none: {commit:?}")));
            }
            let plain = etag
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            if !plain || etag.starts_with('.') || etag.len() > 128 {
                return Err(missing(&format!("an ETag that cannot name a file: {etag:?}")));
            }
            let size_bytes = reply.stated.size_bytes;
            Ok(Stat {
                commit,
                etag,
                size_bytes,
            })
        })
    }

    /// Opens the bytes of a file, from `start_bytes` on where the server can.
    pub(super) fn open(&self, url: &str, stat: &Stat, start_bytes: u64) -> Tried<Content> {
        let range = (start_bytes > 0).then_some(start_bytes);
        let reply = self.follow(Method::GET, url, range, Until::Body)?;
        // A mirror may tag its own copies as it likes; the hub's tag, or the only one there is, must not change.
        let comparable = reply.stated.etag_is_linked || stat.sha256().is_none();
        if comparable && reply.stated.etag.as_ref().is_some_and(|etag| *etag != stat.etag) {
            let reason = "the file changed on the hub during the download";
            return Err(Failure::new(HubFault::Corrupt, Remedy::Restart, reason));
        }
        if text(&reply.headers, "content-encoding").is_some_and(|coding| coding != "identity") {
            return Err(not_a_hub(
                &reply.address,
                &reply.headers,
                "a compressed copy that nobody asked for",
            ));
        }
        let length = text(&reply.headers, "content-length").and_then(|length| length.parse::<u64>().ok());
        let (start_bytes, total) = if reply.status == StatusCode::PARTIAL_CONTENT {
            let (start, total) = content_range(&reply.headers).unwrap_or((u64::MAX, None));
            if start != start_bytes {
                return Err(not_a_hub(
                    &reply.address,
                    &reply.headers,
                    "another part of the file than asked for",
                ));
            }
            (start, total)
        } else {
            (0, length)
        };
        let html = text(&reply.headers, "content-type").is_some_and(|kind| kind.starts_with("text/html"));
        match (total, stat.size_bytes) {
            (Some(found), Some(expected)) if found != expected => {
                if html {
                    return Err(not_a_hub(
                        &reply.address,
                        &reply.headers,
                        "something else than the file",
                    ));
                }
                let reason = format!("the hub states {expected} bytes, but {} sends {found}", reply.address);
                return Err(Failure::new(HubFault::Corrupt, Remedy::Nothing, reason));
            }
            (None, None) if stat.sha256().is_none() => {
                let reason = "the server states neither a size nor a SHA-256, so nothing can be checked";
                return Err(Failure::new(HubFault::NotAHub, Remedy::Nothing, reason));
            }
            _ => {}
        }
        Ok(Content {
            reader: Box::new(reply.body.into_reader()),
            start_bytes,
        })
    }

    /// The names of the files at a revision.
    pub(super) fn list(&self, repo: &str, revision: &str, notify: &mut dyn FnMut(Event<'_>)) -> Tried<Vec<String>> {
        let url = format!(
            "{}/api/models/{repo}/revision/{}",
            self.endpoint,
            address::quote_all(revision)
        );
        self.patiently(notify, || {
            let mut reply = self.follow(Method::GET, &url, None, Until::Body)?;
            let body = reply.body.with_config().limit(MAX_LIST_BYTES).read_to_vec();
            let body = body.map_err(|error| Failure::network(&reply.address, &error))?;
            let names = serde_json::from_slice::<serde_json::Value>(&body)
                .ok()
                .and_then(|info| {
                    let siblings = info.get("siblings")?.as_array()?;
                    siblings
                        .iter()
                        .map(|entry| Some(entry.get("rfilename")?.as_str()?.to_string()))
                        .collect()
                });
            names.ok_or_else(|| not_a_hub(&reply.address, &reply.headers, "no list of files"))
        })
    }

    /// Runs `exchange` again while that can help and patience lasts.
    pub(super) fn patiently<T>(&self, notify: &mut dyn FnMut(Event<'_>), exchange: impl Fn() -> Tried<T>) -> Tried<T> {
        let mut tries = 0;
        loop {
            match exchange() {
                Err(failure) if matches!(failure.remedy, Remedy::Retry(_)) => {
                    tries += 1;
                    self.pause(tries, failure, notify)?;
                }
                other => return other,
            }
        }
    }

    /// Waits before try number `tries + 1`; gives the failure back when there will be none.
    pub(super) fn pause(&self, tries: u32, failure: Failure, notify: &mut dyn FnMut(Event<'_>)) -> Tried<()> {
        if tries >= self.patience.attempts {
            let reason = format!("{}; gave up after {tries} tries", failure.reason);
            return Err(Failure { reason, ..failure });
        }
        let longest = self.patience.longest_pause;
        let wait = match failure.remedy {
            Remedy::Retry(Some(asked)) if asked > longest => {
                let reason = format!("{}; the hub asks to wait {} s", failure.reason, asked.as_secs());
                return Err(Failure { reason, ..failure });
            }
            Remedy::Retry(Some(asked)) => asked,
            _ => (self.patience.first_pause * 2u32.saturating_pow(tries - 1)).min(longest),
        };
        notify(Event::Waiting {
            reason: &failure.reason,
            wait,
        });
        std::thread::sleep(wait);
        Ok(())
    }

    fn follow(&self, method: Method, url: &str, range: Option<u64>, until: Until) -> Tried<Reply> {
        let mut uri: Uri = url.parse().map_err(|_| bad_address(url))?;
        let mut token = self.token.as_ref();
        let mut stated = Stated::default();
        for _ in 0..=MAX_REDIRECTS {
            let origin = Origin::of(&uri).ok_or_else(|| bad_address(url))?;
            if origin != self.origin {
                token = None;
            }
            let response = self.send(&method, &uri, token, range)?;
            let (parts, body) = response.into_parts();
            let (status, headers) = (parts.status, parts.headers);
            // The signed address of a storage host is long and secret: errors name the host alone.
            let address = origin.to_string();
            if origin == self.origin || until == Until::Stated {
                stated.note(status, &headers);
            }
            if status.is_success() {
                return Ok(Reply {
                    status,
                    headers,
                    body,
                    stated,
                    address,
                });
            }
            if !status.is_redirection() {
                return Err(Failure::status(status, &headers, &address, token.is_some()));
            }
            let target = text(&headers, "location").and_then(|location| address::join(&uri, location));
            let target = target.ok_or_else(|| not_a_hub(&address, &headers, "a redirect that leads nowhere"))?;
            let next = Origin::of(&target).ok_or_else(|| bad_address(url))?;
            if origin.is_https() && !next.is_https() {
                return Err(not_a_hub(&address, &headers, "a redirect from https to plain http"));
            }
            if until == Until::Stated && next != origin && stated.is_complete() {
                return Ok(Reply {
                    status,
                    headers,
                    body,
                    stated,
                    address,
                });
            }
            uri = target;
        }
        let reason = format!("more than {MAX_REDIRECTS} redirects");
        Err(Failure::new(HubFault::NotAHub, Remedy::Nothing, reason))
    }

    fn send(
        &self,
        method: &Method,
        uri: &Uri,
        token: Option<&Secret>,
        range: Option<u64>,
    ) -> Tried<ureq::http::Response<ureq::Body>> {
        let mut request = Request::builder().method(method).uri(uri.clone());
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {}", token.reveal()));
        }
        if let Some(start) = range {
            request = request.header("range", format!("bytes={start}-"));
        }
        let host = || uri.authority().map(|host| host.to_string()).unwrap_or_default();
        let request = request.body(()).map_err(|_| bad_address(&host()))?;
        self.agents
            .of(uri)
            .run(request)
            .map_err(|error| Failure::network(&host(), &error))
    }
}

/// Start and total of `bytes start-end/total`.
fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let (range, total) = text(headers, "content-range")?
        .strip_prefix("bytes ")?
        .split_once('/')?;
    let (start, _) = range.split_once('-')?;
    Some((start.trim().parse().ok()?, total.trim().parse().ok()))
}

pub(super) fn bad_address(url: &str) -> Failure {
    Failure::new(HubFault::NotAHub, Remedy::Nothing, format!("not an address: {url:?}"))
}

pub(super) fn not_a_hub(address: &str, headers: &HeaderMap, found: &str) -> Failure {
    let page = match text(headers, "content-type") {
        Some(kind) if kind.starts_with("text/html") => ", with a web page: a login page or a proxy's notice?",
        _ => "; is HF_ENDPOINT a hub, and is a proxy in between?",
    };
    let reason = format!("{address} does not answer as a hub: it sent {found}{page}");
    Failure::new(HubFault::NotAHub, Remedy::Nothing, reason)
}
