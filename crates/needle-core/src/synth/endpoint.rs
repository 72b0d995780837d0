//! The exchange with a chat endpoint: one question, one text back, patiently. The key is in no message and no debug print.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use ureq::http::{Request, StatusCode, Uri};

use crate::{
    data::Chance,
    error::{Error, HubFault, Result},
    hub::{Access, Agents, HubOptions, Patience, Proxies, Secret},
};

/// OpenRouter, where nothing else is asked for.
pub const DEFAULT_URL: &str = "https://openrouter.ai/api/v1";

/// An answer that is longer is no batch of examples.
const MOST_BYTES: u64 = 8 << 20;
/// Characters of a server's own words that an error repeats.
const MOST_SAID: usize = 200;

/// A chat endpoint and how to reach it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The base address, as `https://host/v1`, or the whole address that ends in `/chat/completions`. Plain `http` too.
    pub url: String,
    /// Sent as a bearer token to this address only; redirects are not followed.
    pub key: Option<Secret>,
    /// The model's name there.
    pub model: String,
    /// Proxies.
    pub proxies: Proxies,
    /// A PEM file of certificate authorities that replaces the built-in ones.
    pub ca_file: Option<PathBuf>,
    /// Time-outs and retries. A long answer needs a long `read_timeout`.
    pub patience: Patience,
}

impl Endpoint {
    /// An endpoint without a key, reached directly, with two minutes for an answer.
    pub fn new(url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            key: None,
            model: model.into(),
            proxies: Proxies::default(),
            ca_file: None,
            patience: Patience {
                read_timeout: Duration::from_secs(120),
                ..Patience::default()
            },
        }
    }
}

/// What is asked.
pub(super) struct Question<'a> {
    pub(super) system: &'a str,
    pub(super) user: &'a str,
    pub(super) temperature: f64,
    pub(super) seed: u64,
}

/// One failed try.
#[derive(Debug)]
struct Failure {
    fault: HubFault,
    reason: String,
    /// Whether the same question may be answered later; and the pause that the server asks for.
    again: Option<Option<Duration>>,
}

/// An endpoint with its connections.
pub(super) struct Client {
    endpoint: Endpoint,
    uri: Uri,
    agents: Agents,
}

impl Client {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self> {
        let base = endpoint.url.trim_end_matches('/');
        let url = match base.ends_with("/chat/completions") {
            true => base.to_owned(),
            false => format!("{base}/chat/completions"),
        };
        let wrong = || {
            let reason = "expected an address as http://host:port/v1 or https://host/v1";
            Error::hub("chat endpoint", HubFault::Request, reason)
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let known =
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty());
        // A password in the address would be said in every message.
        if !known
            || uri
                .authority()
                .is_some_and(|authority| authority.as_str().contains('@'))
        {
            return Err(wrong());
        }
        let agents = Agents::new(&HubOptions {
            endpoint: String::new(),
            cache_dir: PathBuf::new(),
            token: None,
            access: Access::Online,
            proxies: endpoint.proxies.clone(),
            ca_file: endpoint.ca_file.clone(),
            patience: endpoint.patience,
        })?;
        Ok(Self {
            endpoint: endpoint.clone(),
            uri,
            agents,
        })
    }

    /// The host, for messages.
    fn host(&self) -> &str {
        self.uri
            .authority()
            .map_or("the endpoint", |authority| authority.as_str())
    }

    /// Asks until there is an answer or patience ends; `waiting` hears of every pause and may end it.
    ///
    /// Pauses double from the first on, and are as long as the server asks for where it does; up to a quarter is added by chance.
    pub(super) fn ask(&self, question: &Question<'_>, waiting: impl Fn(&str, Duration) -> Rest) -> Result<String> {
        let patience = &self.endpoint.patience;
        let mut tries = 1;
        loop {
            let failure = match self.exchange(question) {
                Ok(text) => return Ok(text),
                Err(failure) => failure,
            };
            let give_up = |more: &str| {
                let reason = format!("{}{more}", self.without_key(&failure.reason));
                Error::hub(self.host(), failure.fault, reason)
            };
            let Some(asked) = failure.again else {
                return Err(give_up(""));
            };
            if tries >= patience.attempts {
                return Err(give_up(&format!("; gave up after {tries} tries")));
            }
            let wait = match asked {
                Some(asked) if asked > patience.longest_pause => {
                    return Err(give_up(&format!("; it asks to wait {} s", asked.as_secs())));
                }
                Some(asked) => asked,
                None => (patience.first_pause * 2u32.saturating_pow(tries - 1)).min(patience.longest_pause),
            };
            // Workers that were turned away together come back one by one.
            let spread = Chance::new(question.seed ^ u64::from(tries)).below(26) as u32;
            let wait = wait + wait * spread / 100;
            if waiting(&self.without_key(&failure.reason), wait) == Rest::Stopped {
                return Err(give_up(""));
            }
            tries += 1;
        }
    }

    fn exchange(&self, question: &Question<'_>) -> std::result::Result<String, Failure> {
        let body = json!({
            "model": self.endpoint.model,
            "messages": [
                { "role": "system", "content": question.system },
                { "role": "user", "content": question.user },
            ],
            "temperature": question.temperature,
            "seed": question.seed,
        });
        let mut request = Request::post(self.uri.clone()).header("content-type", "application/json");
        if let Some(key) = &self.endpoint.key {
            request = request.header("authorization", format!("Bearer {}", key.reveal()));
        }
        let request = request.body(body.to_string()).map_err(|_| Failure {
            fault: HubFault::Request,
            reason: "the key has characters that no key has".into(),
            again: None,
        })?;
        let broken = |error: &ureq::Error| Failure {
            fault: HubFault::Network,
            reason: match error {
                ureq::Error::Timeout(_) => "no answer in time".into(),
                other => other.to_string(),
            },
            again: match error {
                ureq::Error::Timeout(_) | ureq::Error::Io(_) => Some(None),
                _ => None,
            },
        };
        let response = self.agents.of(&self.uri).run(request).map_err(|error| broken(&error))?;
        let (parts, mut body) = response.into_parts();
        let asked = parts
            .headers
            .get("retry-after")
            .and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let asked = asked.map(Duration::from_secs);
        let text = body.with_config().limit(MOST_BYTES).read_to_string();
        if !parts.status.is_success() {
            return Err(refused(parts.status, asked, &text.unwrap_or_default()));
        }
        let text = text.map_err(|error| broken(&error))?;
        content(&text)
    }

    /// A text without the key, should a server repeat it.
    fn without_key(&self, text: &str) -> String {
        match &self.endpoint.key {
            Some(key) if !key.reveal().is_empty() => text.replace(key.reveal(), "[key]"),
            _ => text.to_owned(),
        }
    }
}

/// Whether a pause went by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Over,
    Stopped,
}

/// Waits, but not longer than `stopped` says no.
pub(super) fn rest(wait: Duration, stopped: impl Fn() -> bool) -> Rest {
    const LOOK: Duration = Duration::from_millis(50);
    let end = Instant::now() + wait;
    loop {
        if stopped() {
            return Rest::Stopped;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Rest::Over;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// The failure of an answer whose status is no success.
fn refused(status: StatusCode, asked: Option<Duration>, body: &str) -> Failure {
    let said = match said(body) {
        words if words.is_empty() => String::new(),
        words => format!(" ({words})"),
    };
    let (fault, what, again) = match status.as_u16() {
        401 => (HubFault::Unauthorized, "401: the key is missing or not accepted", None),
        402 => (HubFault::Forbidden, "402: the account has no credit left", None),
        403 => (HubFault::Forbidden, "403: access refused", None),
        404 => (HubFault::NotFound, "404: no such model or address", None),
        429 => (HubFault::RateLimited, "429: too many requests", Some(asked)),
        408 | 500..=599 => (HubFault::Server, "", Some(asked)),
        300..=399 => (HubFault::Server, "a redirect, which is not followed with a key", None),
        _ => (HubFault::Server, "", None),
    };
    let what = match what {
        "" => status.to_string(),
        what => what.to_owned(),
    };
    Failure {
        fault,
        reason: format!("{what}{said}"),
        again,
    }
}

/// The server's own words in an answer that is an error.
fn said(body: &str) -> String {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let error = &value["error"];
    let words = error["message"].as_str().or(error.as_str()).unwrap_or_default();
    let line: String = words.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MOST_SAID).collect()
}

/// The text of a chat completion.
fn content(body: &str) -> std::result::Result<String, Failure> {
    let fail = |reason: String, again| Failure {
        fault: HubFault::Server,
        reason,
        again,
    };
    let value: Value =
        serde_json::from_str(body).map_err(|error| fail(format!("the answer is not JSON: {error}"), Some(None)))?;
    let content = &value["choices"][0]["message"]["content"];
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            Ok(texts.collect())
        }
        // Some servers report a busy model with status 200.
        _ if !value["error"].is_null() => {
            let code = value["error"]["code"].as_u64().unwrap_or_default();
            let again = (code == 429 || code >= 500).then_some(None);
            Err(fail(format!("the server reports an error: {}", said(body)), again))
        }
        _ => Err(fail("the answer is no chat completion".into(), Some(None))),
    }
}
