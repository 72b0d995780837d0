//! Addresses: origins, redirect targets, quoting, and which hosts are exempt from a proxy.

use std::fmt;

use ureq::http::Uri;

/// Scheme, host and port: what decides who may see the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    pub(super) fn of(uri: &Uri) -> Option<Self> {
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let standard = standard_port(&scheme)?;
        let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(standard);
        Some(Self { scheme, host, port })
    }

    pub(super) fn of_text(url: &str) -> Option<Self> {
        Self::of(&url.parse().ok()?)
    }

    pub(super) fn is_https(&self) -> bool {
        self.scheme == "https"
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        if standard_port(&self.scheme) == Some(self.port) {
            Ok(())
        } else {
            write!(f, ":{}", self.port)
        }
    }
}

fn standard_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// Where a redirect leads, seen from `base`.
pub(super) fn join(base: &Uri, location: &str) -> Option<Uri> {
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    let absolute = location
        .split(['/', '?', '#'])
        .next()
        .is_some_and(|head| head.contains(':'));
    let text = if absolute {
        location.to_string()
    } else if let Some(rest) = location.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{location}")
    };
    text.parse().ok()
}

/// Quotes every byte that is not a letter, a digit or one of `-_.~`.
pub(super) fn quote_all(text: &str) -> String {
    quote(text, b"-_.~")
}

/// The same, keeping the slashes of a path.
pub(super) fn quote_path(path: &str) -> String {
    quote(path, b"-_.~/")
}

fn quote(text: &str, kept: &[u8]) -> String {
    let mut quoted = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            quoted.push(byte as char);
        } else {
            quoted.push_str(&format!("%{byte:02X}"));
        }
    }
    quoted
}

/// Whether `NO_PROXY` names the host of `uri`: the host itself, a domain above it, `host:port`, or `*`.
pub(super) fn is_exempt(uri: &Uri, exempt: &[String]) -> bool {
    let Some(origin) = Origin::of(uri) else { return false };
    let host = origin.host.trim_matches(['[', ']']);
    exempt.iter().any(|entry| {
        let (name, port) = match entry.rsplit_once(':') {
            Some((name, port)) if !name.contains(':') => (name, port.parse::<u16>().ok()),
            _ => (entry.as_str(), None),
        };
        if port.is_some_and(|port| port != origin.port) {
            return false;
        }
        let name = name
            .trim_matches(['[', ']'])
            .trim_start_matches("*.")
            .trim_start_matches('.');
        name == "*" || host == name || (!name.is_empty() && host.ends_with(&format!(".{name}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn redirect_targets() {
        let base = uri("http://h:1/a/b?x=1");
        let target = |location: &str| join(&base, location).map(|uri| uri.to_string());
        assert_eq!(target("https://s/p?q=a:b").unwrap(), "https://s/p?q=a:b");
        assert_eq!(target("//s/p").unwrap(), "http://s/p");
        assert_eq!(target("/p?to=http://x").unwrap(), "http://h:1/p?to=http://x");
        assert_eq!(target("c").unwrap(), "http://h:1/a/c");
        assert_eq!(target("http://"), None);
    }

    #[test]
    fn origins_know_the_standard_ports() {
        assert_eq!(Origin::of_text("https://H.com"), Origin::of_text("https://h.com:443/x"));
        assert_ne!(Origin::of_text("http://h.com"), Origin::of_text("https://h.com"));
        assert_ne!(Origin::of_text("http://h.com"), Origin::of_text("http://h.com:81"));
        assert_eq!(Origin::of_text("ftp://h"), None);
        assert_eq!(Origin::of_text("huggingface.co"), None);
    }

    #[test]
    fn no_proxy_covers_hosts_domains_ports_and_all() {
        let covers = |entry: &str, url: &str| is_exempt(&uri(url), &[entry.to_string()]);
        assert!(covers("hub.test", "http://hub.test/x") && covers("hub.test", "https://a.hub.test"));
        assert!(covers(".hub.test", "https://a.hub.test") && covers("*.hub.test", "https://a.hub.test"));
        assert!(covers("*", "https://x") && covers("[::1]", "http://[::1]:8/") && covers("::1", "http://[::1]:8/"));
        assert!(covers("hub.test:8080", "http://hub.test:8080"));
        assert!(!covers("hub.test:8080", "http://hub.test") && !covers("hub.test", "http://myhub.test"));
        assert!(!covers("", "http://x") && !covers("127.0.0.1", "http://127.0.0.2"));
    }

    #[test]
    fn quoting() {
        assert_eq!(quote_all("refs/pr/1"), "refs%2Fpr%2F1");
        assert_eq!(quote_path("a b/ü#?.cact"), "a%20b/%C3%BC%23%3F.cact");
    }
}
