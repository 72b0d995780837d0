//! What the hub client knows of its surroundings: where the hub is, where the cache lies, who asks, through which proxy.
//!
//! [`HubOptions::from_env`] is the one place that reads the environment for the hub; everything else takes the
//! explicit struct, so a program or a test can set each field without touching its process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, HubFault, Result};

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// A text that never appears in a debug print: a token, or a proxy's address with its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Whether the network may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look in the cache first, then ask the hub.
    Online,
    /// The cache only; no socket is opened.
    Offline,
}

/// The way out of this network.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// Proxy for `https://` addresses: `http://`, `https://`, `socks5://` or `socks5h://`, with or without a password.
    pub https: Option<Secret>,
    /// Proxy for `http://` addresses; asked with CONNECT too.
    pub http: Option<Secret>,
    /// Hosts that are reached directly: a host covers its subdomains, `*` covers everything, `host:port` one port.
    pub exempt: Vec<String>,
}

/// How patient the client is.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Tries without a new byte before giving up.
    pub attempts: u32,
    /// The first pause between tries; each further one is twice as long.
    pub first_pause: Duration,
    /// The longest pause, also when the hub asks for more: then the error says how long it asked for.
    pub longest_pause: Duration,
    /// Time to connect, TLS included.
    pub connect_timeout: Duration,
    /// Time without a byte after which a connection counts as dead.
    pub read_timeout: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(20),
        }
    }
}

/// Everything the client needs to know. Build it with [`from_env`](Self::from_env) or [`new`](Self::new).
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Address of the hub or of a mirror; it may have a path.
    pub endpoint: String,
    /// The cache of the Hugging Face clients: the folder that holds `models--org--repo`.
    pub cache_dir: PathBuf,
    /// Sent to the endpoint's own host only, never to a host that it redirects to.
    pub token: Option<Secret>,
    /// Online or offline.
    pub access: Access,
    /// Proxies.
    pub proxies: Proxies,
    /// A PEM file of certificate authorities that replaces the built-in ones (a mirror with its own, a proxy that looks
    /// inside TLS).
    pub ca_file: Option<PathBuf>,
    /// Time-outs and retries.
    pub patience: Patience,
}

impl HubOptions {
    /// The public hub, a cache of your choice, no token, no proxy.
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            endpoint: DEFAULT_ENDPOINT.into(),
            cache_dir: cache_dir.into(),
            token: None,
            access: Access::Online,
            proxies: Proxies::default(),
            ca_file: None,
            patience: Patience::default(),
        }
    }

    /// Reads the variables that the Python client reads, to the same effect.
    ///
    /// `HF_ENDPOINT`; `HF_HUB_CACHE` (or `HUGGINGFACE_HUB_CACHE`), else `HF_HOME/hub`, else
    /// `$XDG_CACHE_HOME/huggingface/hub`, else `~/.cache/huggingface/hub`; `HF_TOKEN` (or `HUGGING_FACE_HUB_TOKEN`),
    /// else the file `HF_TOKEN_PATH`, else `HF_HOME/token`, none with `HF_HUB_DISABLE_IMPLICIT_TOKEN`;
    /// `HF_HUB_OFFLINE`; `HF_HUB_DOWNLOAD_TIMEOUT` (seconds without a byte); `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`,
    /// `NO_PROXY` in capitals or not; `SSL_CERT_FILE`. An empty variable counts as absent.
    pub fn from_env() -> Result<Self> {
        Self::from_lookup(&|name| std::env::var_os(name), std::env::home_dir().as_deref())
    }

    fn from_lookup(var: &dyn Fn(&str) -> Option<OsString>, home: Option<&Path>) -> Result<Self> {
        let vars = Vars { var, home };
        let hf_home = match (vars.path("HF_HOME")?, vars.path("XDG_CACHE_HOME")?) {
            (Some(dir), _) => Some(dir),
            (None, Some(dir)) => Some(dir.join("huggingface")),
            (None, None) => home.map(|home| home.join(".cache").join("huggingface")),
        };
        let cache_dir = match (vars.path("HF_HUB_CACHE")?, vars.path("HUGGINGFACE_HUB_CACHE")?) {
            (Some(dir), _) | (None, Some(dir)) => dir,
            (None, None) => hf_home.as_ref().map(|dir| dir.join("hub")).ok_or_else(|| {
                let reason = "there is no home folder to keep the cache in; set HF_HOME or HF_HUB_CACHE";
                Error::hub("HF_HOME", HubFault::Request, reason)
            })?,
        };
        let mut options = Self::new(cache_dir);
        if let Some(endpoint) = vars.text("HF_ENDPOINT")? {
            options.endpoint = endpoint;
        }
        options.token = vars.token(hf_home.as_deref())?;
        if vars.flag("HF_HUB_OFFLINE")? {
            options.access = Access::Offline;
        }
        if let Some(seconds) = vars.text("HF_HUB_DOWNLOAD_TIMEOUT")? {
            let seconds: u64 = seconds.parse().map_err(|_| {
                let reason = format!("expected a number of seconds, found {seconds:?}");
                Error::hub("HF_HUB_DOWNLOAD_TIMEOUT", HubFault::Request, reason)
            })?;
            options.patience.read_timeout = Duration::from_secs(seconds.max(1));
        }
        let all = vars.either("ALL_PROXY")?;
        options.proxies = Proxies {
            https: vars.either("HTTPS_PROXY")?.or_else(|| all.clone()).map(Secret),
            http: vars.either("HTTP_PROXY")?.or(all).map(Secret),
            exempt: split_list(&vars.either("NO_PROXY")?.unwrap_or_default()),
        };
        options.ca_file = vars.path("SSL_CERT_FILE")?;
        Ok(options)
    }
}

fn split_list(text: &str) -> Vec<String> {
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect()
}

struct Vars<'a> {
    var: &'a dyn Fn(&str) -> Option<OsString>,
    home: Option<&'a Path>,
}

impl Vars<'_> {
    fn raw(&self, name: &str) -> Option<OsString> {
        (self.var)(name).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str) -> Result<Option<String>> {
        let Some(value) = self.raw(name) else { return Ok(None) };
        match value.into_string() {
            Ok(text) => Ok(Some(text.trim().to_string()).filter(|text| !text.is_empty())),
            Err(_) => Err(Error::hub(name, HubFault::Request, "the variable is not valid UTF-8")),
        }
    }

    /// Tools disagree on the capitals of the proxy variables.
    fn either(&self, name: &str) -> Result<Option<String>> {
        let lower = self.text(&name.to_ascii_lowercase())?;
        if lower.is_some() { Ok(lower) } else { self.text(name) }
    }

    fn flag(&self, name: &str) -> Result<bool> {
        let text = self.text(name)?.unwrap_or_default().to_ascii_uppercase();
        Ok(matches!(text.as_str(), "1" | "ON" | "YES" | "TRUE"))
    }

    fn path(&self, name: &str) -> Result<Option<PathBuf>> {
        let Some(value) = self.raw(name) else { return Ok(None) };
        let path = PathBuf::from(value);
        match path.strip_prefix("~") {
            Err(_) => Ok(Some(path)),
            Ok(rest) => match self.home {
                Some(home) => Ok(Some(home.join(rest))),
                None => Err(Error::hub(
                    name,
                    HubFault::Request,
                    "there is no home folder for the ~ in it",
                )),
            },
        }
    }

    fn token(&self, hf_home: Option<&Path>) -> Result<Option<Secret>> {
        if self.flag("HF_HUB_DISABLE_IMPLICIT_TOKEN")? {
            return Ok(None);
        }
        for name in ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"] {
            if let Some(token) = self.text(name)? {
                return checked_token(name, token).map(Some);
            }
        }
        let path = match self.path("HF_TOKEN_PATH")? {
            Some(path) => Some(path),
            None => hf_home.map(|dir| dir.join("token")),
        };
        let Some(path) = path else { return Ok(None) };
        match std::fs::read_to_string(&path) {
            Ok(text) if text.trim().is_empty() => Ok(None),
            Ok(text) => checked_token(&path.display().to_string(), text.trim().to_string()).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(&path, error)),
        }
    }
}

fn checked_token(origin: &str, token: String) -> Result<Secret> {
    if token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Secret(token));
    }
    let reason = "the token has characters that no token has (spaces, line breaks, or letters outside ASCII)";
    Err(Error::hub(origin, HubFault::Request, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[(&str, &str)]) -> Result<HubOptions> {
        let lookup = |name: &str| {
            vars.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).into())
        };
        HubOptions::from_lookup(&lookup, Some(Path::new("/me")))
    }

    #[test]
    fn cache_folder_follows_the_python_order() {
        let cache = |vars: &[(&str, &str)]| read(vars).unwrap().cache_dir;
        assert_eq!(cache(&[]), Path::new("/me/.cache/huggingface/hub"));
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/x")]), Path::new("/x/huggingface/hub"));
        assert_eq!(
            cache(&[("HF_HOME", "~/hf"), ("XDG_CACHE_HOME", "/x")]),
            Path::new("/me/hf/hub")
        );
        assert_eq!(
            cache(&[("HF_HOME", "/h"), ("HUGGINGFACE_HUB_CACHE", "/old")]),
            Path::new("/old")
        );
        assert_eq!(
            cache(&[("HF_HUB_CACHE", "/c"), ("HUGGINGFACE_HUB_CACHE", "/old")]),
            Path::new("/c")
        );
        assert_eq!(cache(&[("HF_HUB_CACHE", ""), ("HF_HOME", "/h")]), Path::new("/h/hub"));
    }

    #[test]
    fn no_home_and_no_variable_is_an_error() {
        let error = HubOptions::from_lookup(&|_| None, None).unwrap_err();
        assert!(error.to_string().contains("set HF_HOME or HF_HUB_CACHE"), "{error}");
    }

    #[test]
    fn offline_takes_the_four_words() {
        for word in ["1", "on", "Yes", "TRUE"] {
            assert_eq!(read(&[("HF_HUB_OFFLINE", word)]).unwrap().access, Access::Offline);
        }
        for word in ["0", "", "no", "false"] {
            assert_eq!(read(&[("HF_HUB_OFFLINE", word)]).unwrap().access, Access::Online);
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let vars = [("HF_TOKEN", "hf_s3cret"), ("https_proxy", "http://me:pa55@proxy:3128")];
        let printed = format!("{:?}", read(&vars).unwrap());
        assert!(!printed.contains("hf_s3cret") && !printed.contains("pa55"), "{printed}");
    }

    #[test]
    fn a_token_with_a_line_break_is_refused_without_showing_it() {
        let error = read(&[("HF_TOKEN", "hf_a\nb")]).unwrap_err().to_string();
        assert!(error.starts_with("HF_TOKEN: ") && !error.contains("hf_a"), "{error}");
    }

    #[test]
    fn proxies_of_both_spellings() {
        let vars = [
            ("ALL_PROXY", "socks5h://s:1"),
            ("https_proxy", "http://p:2"),
            ("NO_PROXY", "a.b, C:8080"),
        ];
        let proxies = read(&vars).unwrap().proxies;
        assert_eq!(proxies.https.unwrap().reveal(), "http://p:2");
        assert_eq!(proxies.http.unwrap().reveal(), "socks5h://s:1");
        assert_eq!(proxies.exempt, ["a.b", "c:8080"]);
    }
}
