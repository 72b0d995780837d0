//! A stand-in for the hub on loopback: repositories, revisions, large and small files, a separate storage host, and
//! twists that spoil its answers. It states what the real one states, without the headers of Xet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};

use super::http::{Answer, Request, Wire, serve};

/// The commit of the first state of every repository; the second is all `2`.
pub(super) const COMMIT: &str = "1111111111111111111111111111111111111111";
/// The commit after [`StandIn::publish`] was called again.
pub(super) const NEXT_COMMIT: &str = "2222222222222222222222222222222222222222";
/// The one token that may do everything.
pub(super) const TOKEN: &str = "hf_right";
/// A token that may read alone.
pub(super) const READ_TOKEN: &str = "hf_read";

/// Which of the two hosts a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Hub,
    Storage,
}

pub(super) type Files = BTreeMap<String, Vec<u8>>;
type Twist = dyn FnMut(Host, &Request, &mut Answer) + Send;

#[derive(Default)]
struct State {
    /// Repository, commit, files; the last commit of a repository is its `main`.
    repos: BTreeMap<String, Vec<(String, Files)>>,
    private: Vec<String>,
    /// Bytes in large-file storage that no commit names yet.
    stored: Vec<Vec<u8>>,
    log: Vec<(Host, Request)>,
    twist: Option<Box<Twist>>,
}

/// The server; it lives as long as the test's process, its state as long as this value or a connection.
#[derive(Clone)]
pub(super) struct StandIn {
    state: Arc<Mutex<State>>,
    url: String,
    pub(super) port: u16,
}

/// Files below this size are Git's own, the others lie in large-file storage.
const SMALL_BYTES: usize = 1000;

pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that compress badly and differ by `seed`.
pub(super) fn noise(size_bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..size_bytes).map(|_| next()).collect()
}

impl StandIn {
    pub(super) fn start() -> Self {
        Self::start_with(Wire::Plain, "")
    }

    /// `prefix` is the endpoint's path, as mirrors have it.
    pub(super) fn start_with(wire: Wire, prefix: &str) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let scheme = if matches!(wire, Wire::Plain) { "http" } else { "https" };
        let storage_state = state.clone();
        let storage = serve(wire.clone(), move |request| {
            reply(&storage_state, Host::Storage, request, storage_answer)
        });
        let (hub_state, hub_prefix) = (state.clone(), prefix.to_string());
        let storage_url = format!("{scheme}://127.0.0.1:{storage}");
        let port = serve(wire, move |request| {
            reply(&hub_state, Host::Hub, request, |state, request| {
                match request.path.strip_prefix(&hub_prefix) {
                    Some(path) => hub_answer(state, request, path, &storage_url, &hub_prefix),
                    None => Answer::new(404, &[], "outside of the mirror"),
                }
            })
        });
        Self {
            state,
            url: format!("{scheme}://127.0.0.1:{port}{prefix}"),
            port,
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// A new state of a repository; `main` moves to it.
    pub(super) fn publish(&self, repo: &str, files: &[(&str, &[u8])]) {
        let files = files
            .iter()
            .map(|(name, bytes)| (name.to_string(), bytes.to_vec()))
            .collect();
        let mut state = self.state.lock().unwrap();
        let commits = state.repos.entry(repo.into()).or_default();
        let digit = char::from_digit(commits.len() as u32 + 1, 16).unwrap();
        commits.push((digit.to_string().repeat(40), files));
    }

    /// Asks for the token.
    pub(super) fn make_private(&self, repo: &str) {
        self.state.lock().unwrap().private.push(repo.into());
    }

    /// Spoils answers from now on.
    pub(super) fn twist(&self, twist: impl FnMut(Host, &Request, &mut Answer) + Send + 'static) {
        self.state.lock().unwrap().twist = Some(Box::new(twist));
    }

    pub(super) fn heal(&self) {
        self.state.lock().unwrap().twist = None;
    }

    /// The files of a repository's newest commit.
    pub(super) fn files(&self, repo: &str) -> Files {
        let state = self.state.lock().unwrap();
        state.repos[repo]
            .last()
            .map(|(_, files)| files.clone())
            .unwrap_or_default()
    }

    pub(super) fn is_private(&self, repo: &str) -> bool {
        self.state.lock().unwrap().private.contains(&repo.to_owned())
    }

    /// All requests so far.
    pub(super) fn log(&self) -> Vec<(Host, Request)> {
        self.state.lock().unwrap().log.clone()
    }

    /// Requests to one host so far.
    pub(super) fn count(&self, host: Host) -> usize {
        self.log().iter().filter(|(asked, _)| *asked == host).count()
    }

    /// The `Range` headers of the requests for bytes, in order.
    pub(super) fn ranges(&self) -> Vec<Option<String>> {
        let storage = self.log().into_iter().filter(|(host, _)| *host == Host::Storage);
        storage
            .map(|(_, request)| request.header("range").map(str::to_string))
            .collect()
    }
}

fn reply(
    state: &Mutex<State>,
    host: Host,
    request: Request,
    answer: impl Fn(&mut State, &Request) -> Answer,
) -> Answer {
    let mut state = state.lock().unwrap();
    state.log.push((host, request.clone()));
    let mut answer = answer(&mut state, &request);
    if let Some(twist) = &mut state.twist {
        twist(host, &request, &mut answer);
    }
    answer
}

fn hub_answer(state: &mut State, request: &Request, path: &str, storage_url: &str, prefix: &str) -> Answer {
    let path = path.split('?').next().unwrap_or_default();
    let parts: Vec<String> = path.trim_start_matches('/').split('/').map(unquote).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    if request.method == "POST" {
        return receive(state, request, &parts, storage_url);
    }
    match parts.as_slice() {
        [org, repo, "resolve", revision, file @ ..] => {
            let repo = format!("{org}/{repo}");
            match files_at(state, request, &repo, revision) {
                Ok((commit, files)) => resolve(files, &repo, commit, &file.join("/"), storage_url, prefix),
                Err(answer) => answer,
            }
        }
        ["api", "resolve-cache", "models", org, repo, commit, file @ ..] => {
            match files_at(state, request, &format!("{org}/{repo}"), commit) {
                Ok((commit, files)) => small_file(commit, &files[&file.join("/")]),
                Err(answer) => answer,
            }
        }
        ["api", "models", org, repo, "revision", revision] => {
            let repo = format!("{org}/{repo}");
            match files_at(state, request, &repo, revision) {
                Ok((commit, files)) => {
                    let siblings: Vec<_> = files
                        .keys()
                        .map(|name| serde_json::json!({ "rfilename": name }))
                        .collect();
                    let info = serde_json::json!({ "id": repo, "sha": commit, "siblings": siblings });
                    Answer::new(200, &[("content-type", "application/json")], info.to_string())
                }
                Err(answer) => answer,
            }
        }
        _ => Answer::new(404, &[], "no such page"),
    }
}

/// What only an upload asks for; see `upload.rs` of the library for the order.
fn receive(state: &mut State, request: &Request, parts: &[&str], storage_url: &str) -> Answer {
    let refuse = |status, code: &str, message: &str| {
        Answer::new(status, &[("x-error-code", code), ("x-error-message", message)], message)
    };
    match request.header("authorization") {
        Some(value) if value == format!("Bearer {TOKEN}") => {}
        Some(value) if value == format!("Bearer {READ_TOKEN}") => {
            return refuse(403, "", "This token may only read");
        }
        _ => return refuse(401, "", "Invalid username or password."),
    }
    let json = |value: serde_json::Value| Answer::new(200, &[("content-type", "application/json")], value.to_string());
    let asked: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
    match parts {
        ["api", "repos", "create"] => {
            let repo = [&asked["organization"], &asked["name"]]
                .map(|part| part.as_str().unwrap().to_owned())
                .join("/");
            let url = format!("http://{}/{repo}", request.header("host").unwrap());
            if state.repos.contains_key(&repo) {
                let told = serde_json::json!({ "error": "You already created this model repo", "url": url });
                return Answer::new(409, &[("content-type", "application/json")], told.to_string());
            }
            if asked["private"] == true {
                state.private.push(repo.clone());
            }
            state.repos.insert(repo.clone(), vec![]);
            json(serde_json::json!({ "url": url, "name": repo, "id": repo }))
        }
        ["api", "models", org, repo, "preupload", "main"] => {
            if !state.repos.contains_key(&format!("{org}/{repo}")) {
                return refuse(404, "RepoNotFound", "Repository not found");
            }
            let files = asked["files"].as_array().unwrap().iter().map(|file| {
                assert!(file["sample"].is_string() && file["size"].is_u64(), "{file}");
                let large = file["size"].as_u64().unwrap() >= SMALL_BYTES as u64;
                let mode = if large { "lfs" } else { "regular" };
                let ignored = file["path"].as_str().unwrap().starts_with("ignored");
                serde_json::json!({ "path": file["path"], "uploadMode": mode, "shouldIgnore": ignored, "oid": null })
            });
            json(serde_json::json!({ "files": files.collect::<Vec<_>>() }))
        }
        [org, repo, "info", "lfs", "objects", "batch"] if repo.ends_with(".git") => {
            assert!(
                state
                    .repos
                    .contains_key(&format!("{org}/{}", repo.trim_end_matches(".git")))
            );
            assert_eq!(
                (&asked["operation"], &asked["hash_algo"]),
                (&"upload".into(), &"sha256".into())
            );
            assert_eq!(request.header("accept"), Some("application/vnd.git-lfs+json"));
            let objects = asked["objects"].as_array().unwrap().iter().map(|object| {
                let hash = object["oid"].as_str().unwrap();
                let mut object = serde_json::json!({ "oid": hash, "size": object["size"], "authenticated": true });
                let known = state
                    .repos
                    .values()
                    .flatten()
                    .flat_map(|(_, files)| files.values())
                    .chain(&state.stored);
                if !known.into_iter().any(|bytes| sha256(bytes) == hash) {
                    let place = format!("{storage_url}/{hash}?X-Signature=s3cret");
                    let verify = format!("http://{}/verify", request.header("host").unwrap());
                    object["actions"] =
                        serde_json::json!({ "upload": { "href": place }, "verify": { "href": verify } });
                }
                object
            });
            json(serde_json::json!({ "transfer": "basic", "objects": objects.collect::<Vec<_>>() }))
        }
        ["verify"] => {
            let stored = state
                .stored
                .iter()
                .find(|bytes| sha256(bytes) == asked["oid"].as_str().unwrap());
            match stored {
                Some(bytes) if asked["size"] == bytes.len() => json(serde_json::json!({})),
                _ => refuse(404, "", "no such object"),
            }
        }
        ["api", "models", org, repo, "commit", "main"] => {
            assert_eq!(request.header("content-type"), Some("application/x-ndjson"));
            let repo = format!("{org}/{repo}");
            let commits = state.repos.get(&repo).unwrap();
            let mut files = commits.last().map(|(_, files)| files.clone()).unwrap_or_default();
            let lines: Vec<serde_json::Value> = request
                .body
                .split(|&byte| byte == b'\n')
                .filter(|line| !line.is_empty())
                .map(|line| serde_json::from_slice(line).unwrap())
                .collect();
            assert!(
                lines[0]["key"] == "header" && lines[0]["value"]["summary"].is_string(),
                "{}",
                lines[0]
            );
            for line in &lines[1..] {
                let value = &line["value"];
                let name = value["path"].as_str().unwrap().to_owned();
                let bytes = match line["key"].as_str().unwrap() {
                    "lfsFile" => state
                        .stored
                        .iter()
                        .find(|bytes| sha256(bytes) == value["oid"].as_str().unwrap())
                        .cloned(),
                    _ => {
                        assert_eq!(value["encoding"], "base64");
                        Some(unbase64(value["content"].as_str().unwrap()))
                    }
                };
                match bytes {
                    Some(bytes) => files.insert(name, bytes),
                    None => return refuse(400, "", "the object was never uploaded"),
                };
            }
            let commits = state.repos.get_mut(&repo).unwrap();
            let commit = char::from_digit(commits.len() as u32 + 1, 16)
                .unwrap()
                .to_string()
                .repeat(40);
            commits.push((commit.clone(), files));
            let url = format!("http://{}/{repo}/commit/{commit}", request.header("host").unwrap());
            json(serde_json::json!({ "success": true, "commitOid": commit, "commitUrl": url, "hookOutput": "" }))
        }
        _ => Answer::new(404, &[], "no such page"),
    }
}

fn unbase64(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let signs = text.bytes().filter(|&sign| sign != b'=');
    let values: Vec<u32> = signs
        .map(|sign| alphabet.iter().position(|&known| known == sign).unwrap() as u32)
        .collect();
    let word = |group: &[u32]| {
        group
            .iter()
            .enumerate()
            .fold(0u32, |word, (i, value)| word | value << (26 - 6 * i))
    };
    values
        .chunks(4)
        .flat_map(|group| word(group).to_be_bytes()[..group.len() - 1].to_vec())
        .collect()
}

fn files_at<'a>(
    state: &'a State,
    request: &Request,
    repo: &str,
    revision: &str,
) -> Result<(&'a str, &'a Files), Answer> {
    let refuse = |status, code: &str, message: &str| {
        Answer::new(status, &[("x-error-code", code), ("x-error-message", message)], message)
    };
    let token = request
        .header("authorization")
        .map(|value| value == format!("Bearer {TOKEN}"));
    if token == Some(false) {
        return Err(refuse(401, "", "Invalid credentials in Authorization header"));
    }
    let commits = state
        .repos
        .get(repo)
        .filter(|_| token == Some(true) || !state.private.contains(&repo.to_string()));
    let Some(commits) = commits else {
        let status = if token.is_none() { 401 } else { 404 };
        return Err(refuse(status, "RepoNotFound", "Repository not found"));
    };
    let found = match revision {
        "main" | "refs/pr/1" => commits.last(),
        commit => commits.iter().find(|(known, _)| known == commit),
    };
    let found = found.map(|(commit, files)| (commit.as_str(), files));
    found.ok_or_else(|| refuse(404, "RevisionNotFound", "Invalid rev id"))
}

fn resolve(files: &Files, repo: &str, commit: &str, file: &str, storage_url: &str, prefix: &str) -> Answer {
    let Some(bytes) = files.get(file) else {
        let headers = [
            ("x-error-code", "EntryNotFound"),
            ("x-error-message", "Entry not found"),
            ("x-repo-commit", commit),
        ];
        return Answer::new(404, &headers, "Entry not found");
    };
    let size = bytes.len().to_string();
    if bytes.len() < SMALL_BYTES {
        let location = format!("{prefix}/api/resolve-cache/models/{repo}/{commit}/{file}");
        let headers = [("location", location.as_str()), ("x-repo-commit", commit)];
        // The page of a redirect has a length of its own (hf-hub #191: 341 bytes were taken for the file's 818).
        return Answer::new(307, &headers, "x".repeat(341));
    }
    let hash = sha256(bytes);
    let location = format!("{storage_url}/{hash}?X-Signature=s3cret");
    let etag = format!("\"{hash}\"");
    let headers = [
        ("location", location.as_str()),
        ("x-repo-commit", commit),
        ("x-linked-etag", etag.as_str()),
        ("x-linked-size", size.as_str()),
        ("accept-ranges", "bytes"),
    ];
    Answer::new(302, &headers, "Found. Redirecting")
}

fn small_file(commit: &str, bytes: &[u8]) -> Answer {
    let etag = format!("\"{}\"", &sha256(bytes)[..40]);
    Answer::new(200, &[("etag", &etag), ("x-repo-commit", commit)], bytes)
}

fn storage_answer(state: &mut State, request: &Request) -> Answer {
    if request.header("authorization").is_some() {
        return Answer::new(400, &[], "Only one auth mechanism allowed");
    }
    if request.method == "PUT" {
        // What storage hosts ask of a signed address: the length in advance, and the very bytes that it was signed for.
        let hash = request
            .path
            .trim_start_matches('/')
            .split('?')
            .next()
            .unwrap_or_default();
        return match request.header("content-length") {
            None => Answer::new(411, &[], "MissingContentLength"),
            Some(_) if sha256(&request.body) != hash => Answer::new(400, &[], "XAmzContentSHA256Mismatch"),
            Some(_) => {
                state.stored.push(request.body.clone());
                Answer::new(200, &[], "")
            }
        };
    }
    let hash = request
        .path
        .trim_start_matches('/')
        .split('?')
        .next()
        .unwrap_or_default();
    let mut all = state.repos.values().flatten().flat_map(|(_, files)| files.values());
    let Some(bytes) = all.find(|bytes| sha256(bytes) == hash) else {
        return Answer::new(404, &[], "no such key");
    };
    let headers = [
        ("etag", "\"md5-of-the-storage-host\""),
        ("content-type", "application/octet-stream"),
    ];
    let start = request
        .header("range")
        .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    match start {
        None => Answer::new(200, &headers, bytes.as_slice()),
        Some(start) if start >= bytes.len() => Answer::new(416, &headers, ""),
        Some(start) => {
            let mut answer = Answer::new(206, &headers, &bytes[start..]);
            answer.header(
                "content-range",
                format!("bytes {start}-{}/{}", bytes.len() - 1, bytes.len()),
            );
            answer
        }
    }
}

fn unquote(part: &str) -> String {
    let bytes = part.as_bytes();
    let (mut plain, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let code = part
            .get(at + 1..at + 3)
            .filter(|_| bytes[at] == b'%')
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        plain.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}
