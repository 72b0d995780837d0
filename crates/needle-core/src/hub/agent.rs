//! The connections: time-outs, certificates, and which proxy an address takes.

use std::path::Path;
use std::time::Duration;

use ureq::http::Uri;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Proxy};

use super::address::is_exempt;
use super::options::{HubOptions, Secret};
use crate::error::{Error, HubFault, Result};

/// One agent a way out. ureq would take one proxy for both schemes, and knows fewer forms of `NO_PROXY`.
pub(crate) struct Agents {
    direct: Agent,
    https: Option<Agent>,
    http: Option<Agent>,
    exempt: Vec<String>,
}

impl Agents {
    pub(crate) fn new(options: &HubOptions) -> Result<Self> {
        let proxied = |name: &str, proxy: &Option<Secret>| match proxy {
            Some(proxy) => agent(options, Some(parse_proxy(name, proxy)?)).map(Some),
            None => Ok(None),
        };
        Ok(Self {
            direct: agent(options, None)?,
            https: proxied("HTTPS_PROXY", &options.proxies.https)?,
            http: proxied("HTTP_PROXY", &options.proxies.http)?,
            exempt: options.proxies.exempt.clone(),
        })
    }

    /// The agent for an address.
    pub(crate) fn of(&self, uri: &Uri) -> &Agent {
        let proxied = if uri.scheme_str() == Some("https") {
            &self.https
        } else {
            &self.http
        };
        match proxied {
            Some(agent) if !is_exempt(uri, &self.exempt) => agent,
            _ => &self.direct,
        }
    }
}

fn agent(options: &HubOptions, proxy: Option<Proxy>) -> Result<Agent> {
    let roots = match &options.ca_file {
        Some(path) => authorities(path)?,
        None => RootCerts::WebPki,
    };
    let patience = &options.patience;
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(proxy)
        .tls_config(TlsConfig::builder().root_certs(roots).build())
        .user_agent(concat!("needle/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .timeout_connect(Some(patience.connect_timeout))
        .timeout_recv_response(Some(patience.read_timeout))
        .timeout_per_read(Some(patience.read_timeout))
        .timeout_per_write(Some(patience.read_timeout))
        .max_idle_age(Duration::from_secs(5));
    Ok(config.build().new_agent())
}

fn authorities(path: &Path) -> Result<RootCerts> {
    let pem = std::fs::read(path).map_err(|error| Error::io(path, error))?;
    let certificates: Vec<Certificate<'static>> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(Error::format(path, "expected certificates in PEM form, found none"));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

fn parse_proxy(name: &str, proxy: &Secret) -> Result<Proxy> {
    Proxy::new(proxy.reveal()).map_err(|_| {
        let reason = "not the address of a proxy; expected http://host:port or socks5h://host:port";
        Error::hub(name, HubFault::Request, reason)
    })
}
