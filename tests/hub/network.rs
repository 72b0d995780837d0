//! The way to the hub: redirects and the token, mirrors with a path, proxies, certificates.

use std::sync::{Arc, Mutex};

use needle_core::HubFault;
use needle_core::hub::{HubOptions, Secret};

use super::http::{Answer, Wire, serve, serve_proxy};
use super::stand_in::{Host, TOKEN};
use super::*;

/// An HTTPS stand-in with the weights, and options that trust its authority.
fn secured(name: &str) -> (StandIn, Scratch, Vec<u8>, HubOptions) {
    let stand_in = StandIn::start_with(Wire::tls(), "");
    let weights = stand_in::noise(WEIGHTS_BYTES, 3);
    stand_in.publish("Cactus-Compute/needle3", &[("needle3.cact", &weights)]);
    let cache = Scratch::new(name);
    let mut options = options(stand_in.url(), &cache);
    options.ca_file = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/hub/tls/ca.pem").into());
    (stand_in, cache, weights, options)
}

/// A proxy that writes down what it was asked for.
fn noted_proxy(to_port: u16) -> (Secret, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let note = asked.clone();
    let port = serve_proxy(to_port, move |request| {
        note.lock()
            .unwrap()
            .push(format!("{} {}", request.method, request.path))
    });
    (Secret::new(format!("http://me:s3cret@127.0.0.1:{port}")), asked)
}

#[test]
fn the_token_goes_to_the_hub_alone() {
    let (stand_in, cache, weights) = published("token");
    let mut options = options(stand_in.url(), &cache);
    options.token = Some(Secret::new(TOKEN));
    assert_eq!(
        bytes_of(&resolve(&Hub::new(options).unwrap(), "needle3").unwrap()),
        weights
    );
    for (host, request) in stand_in.log() {
        let sent = request.header("authorization");
        assert_eq!(sent.is_some(), host == Host::Hub, "{} {}", request.method, request.path);
    }
}

#[test]
fn a_token_that_left_the_hub_does_not_come_back() {
    let (stand_in, cache, _) = published("token-loop");
    let back = format!("{}/Cactus-Compute/needle3/resolve/main/config.json", stand_in.url());
    let other = serve(Wire::Plain, move |_| Answer::new(302, &[("location", &back)], ""));
    stand_in.twist(move |host, request, answer| {
        if host == Host::Hub && request.path.ends_with("needle3.cact") {
            *answer = Answer::new(302, &[("location", &format!("http://127.0.0.1:{other}/x"))], "");
        }
    });
    let mut options = options(stand_in.url(), &cache);
    options.token = Some(Secret::new(TOKEN));
    let _ = resolve(&Hub::new(options).unwrap(), "needle3");
    let log = stand_in.log();
    assert!(log[0].1.header("authorization").is_some() && log[1].1.path.ends_with("config.json"));
    assert!(
        log[1..]
            .iter()
            .filter(|(_, request)| request.method == "HEAD")
            .all(|(_, r)| r.header("authorization").is_none())
    );
}

#[test]
fn a_mirror_with_a_path_and_a_closing_slash() {
    let stand_in = StandIn::start_with(Wire::Plain, "/artifactory/api/hf");
    let weights = stand_in::noise(5000, 3);
    stand_in.publish(
        "Cactus-Compute/needle3",
        &[("needle3.cact", &weights), ("config.json", b"{}")],
    );
    stand_in.publish("me/one", &[("k.cact", &weights)]);
    let cache = Scratch::new("mirror");
    let hub = Hub::new(options(&format!("{}/", stand_in.url()), &cache)).unwrap();
    for spec in ["needle3", "Cactus-Compute/needle3/config.json", "me/one"] {
        resolve(&hub, spec).unwrap();
    }
    let hub_paths = stand_in
        .log()
        .into_iter()
        .filter(|(host, _)| *host == Host::Hub)
        .map(|(_, request)| request.path);
    assert!(
        hub_paths
            .into_iter()
            .all(|path| path.starts_with("/artifactory/api/hf/"))
    );
}

#[test]
fn an_endpoint_that_moved_to_another_host_is_followed_without_the_token() {
    let (stand_in, cache, weights) = published("moved");
    let target = stand_in.url().to_string();
    let old = serve(Wire::Plain, move |request| {
        Answer::new(308, &[("location", &format!("{target}{}", request.path))], "moved")
    });
    let mut options = options(&format!("http://127.0.0.1:{old}"), &cache);
    options.token = Some(Secret::new(TOKEN));
    assert_eq!(
        bytes_of(&resolve(&Hub::new(options).unwrap(), "needle3").unwrap()),
        weights
    );
    assert!(
        stand_in
            .log()
            .iter()
            .all(|(_, request)| request.header("authorization").is_none())
    );
}

#[test]
fn redirects_in_a_circle_or_into_nothing_end() {
    for (name, location) in [
        ("circle", Some("/again")),
        ("nothing", None),
        ("odd", Some("http://")),
        ("ftp", Some("ftp://x/y")),
    ] {
        let port = serve(Wire::Plain, move |_| {
            let mut answer = Answer::new(302, &[], "");
            location.map(|location| answer.header("location", location).clone());
            answer
        });
        let cache = Scratch::new(&format!("redirect-{name}"));
        let hub = Hub::new(options(&format!("http://127.0.0.1:{port}"), &cache)).unwrap();
        assert_eq!(refused(resolve(&hub, "needle3")).0, HubFault::NotAHub, "{name}");
    }
}

#[test]
fn an_address_that_is_none_is_named() {
    let cache = Scratch::new("endpoint");
    for endpoint in ["huggingface.co", "ftp://x", "", "http://"] {
        let error = Hub::new(options(endpoint, &cache)).map(|_| ()).unwrap_err();
        assert!(error.to_string().starts_with("HF_ENDPOINT: "), "{error}");
    }
    let mut options = options("http://127.0.0.1:9", &cache);
    options.proxies.https = Some(Secret::new("http://s3cret:x@"));
    let (fault, text) = refused(Hub::new(options).map(|_| ()));
    assert_eq!(
        (fault, text.starts_with("HTTPS_PROXY: ")),
        (HubFault::Request, true),
        "{text}"
    );
}

#[test]
fn https_with_an_authority_of_ones_own() {
    let (stand_in, _cache, weights, options) = secured("tls");
    let hub = Hub::new(options.clone()).unwrap();
    assert_eq!(bytes_of(&resolve(&hub, "needle3").unwrap()), weights);
    assert_eq!(stand_in.count(Host::Storage), 1);

    let (_stand_in, _cache, _, mut options) = secured("tls-unknown");
    options.ca_file = None;
    let (fault, text) = refused(resolve(&Hub::new(options).unwrap(), "needle3"));
    assert_eq!(fault, HubFault::Network);
    assert!(text.contains("UnknownIssuer"), "{text}");
}

#[test]
fn a_certificate_file_without_certificates_is_named() {
    let cache = Scratch::new("tls-file");
    let mut options = options("https://hub.test", &cache);
    options.ca_file = Some(cache.join("ca.pem"));
    assert!(
        Hub::new(options.clone())
            .map(|_| ())
            .unwrap_err()
            .to_string()
            .contains("ca.pem")
    );
    std::fs::write(cache.join("ca.pem"), "hello").unwrap();
    let error = Hub::new(options).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("ca.pem") && error.contains("found none"), "{error}");
}

#[test]
fn a_redirect_from_https_to_plain_http_is_refused() {
    let (stand_in, _cache, _, options) = secured("downgrade");
    stand_in.twist(|host, _, answer| {
        if host == Host::Hub {
            answer.header("location", "http://127.0.0.1:9/x");
        }
    });
    let (fault, text) = refused(resolve(&Hub::new(options).unwrap(), "needle3"));
    assert_eq!(
        (fault, text.contains("plain http")),
        (HubFault::NotAHub, true),
        "{text}"
    );
}

#[test]
fn a_proxy_is_asked_for_the_hub_by_name() {
    let (stand_in, _cache, weights, mut options) = secured("proxy");
    let (proxy, asked) = noted_proxy(stand_in.port);
    // Nobody but the proxy could know this name.
    options.endpoint = "https://hub.test".into();
    options.proxies.https = Some(proxy.clone());
    options.proxies.http = Some(Secret::new("http://127.0.0.1:9"));
    options.proxies.exempt = vec!["127.0.0.1".into()];
    assert_eq!(
        bytes_of(&resolve(&Hub::new(options).unwrap(), "needle3").unwrap()),
        weights
    );
    let asked = asked.lock().unwrap().clone();
    assert!(
        !asked.is_empty() && asked.iter().all(|line| line == "CONNECT hub.test:443"),
        "{asked:?}"
    );
}

#[test]
fn no_proxy_goes_around_the_proxy() {
    let (stand_in, _cache, weights, mut options) = secured("no-proxy");
    let (proxy, asked) = noted_proxy(stand_in.port);
    options.proxies.https = Some(proxy);
    options.proxies.exempt = vec!["127.0.0.1".into()];
    assert_eq!(
        bytes_of(&resolve(&Hub::new(options).unwrap(), "needle3").unwrap()),
        weights
    );
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn a_proxy_that_is_down_or_refuses_is_one_line() {
    let (_stand_in, _cache, _, mut options) = secured("proxy-down");
    options.proxies.https = Some(Secret::new("http://me:s3cret@127.0.0.1:9"));
    assert_eq!(
        refused(resolve(&Hub::new(options.clone()).unwrap(), "needle3")).0,
        HubFault::Network
    );
    let port = serve(Wire::Plain, |_| {
        Answer::new(407, &[("proxy-authenticate", "Basic")], "who are you?")
    });
    options.proxies.https = Some(Secret::new(format!("http://me:s3cret@127.0.0.1:{port}")));
    let (fault, text) = refused(resolve(&Hub::new(options).unwrap(), "needle3"));
    assert_eq!((fault, text.contains("407")), (HubFault::Network, true), "{text}");
}
