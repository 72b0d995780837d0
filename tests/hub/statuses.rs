//! The fault table, first part: what the hub may answer instead of a file, and the one line it ends in.

use std::time::{Duration, Instant};

use needle_core::HubFault;
use needle_core::hub::{Event, ModelRequest, Secret};

use super::http::Answer;
use super::stand_in::{COMMIT, Host};
use super::*;

#[test]
fn a_healthy_download() {
    let (stand_in, cache, weights) = published("healthy");
    let mut events = Vec::new();
    let request = ModelRequest::base(needle_core::Generation::Three);
    let located = hub(&stand_in, &cache)
        .resolve(&request, &mut |event| events.push(format!("{event:?}")))
        .unwrap();
    assert_eq!(bytes_of(&located), weights);
    assert_eq!(
        (located.commit.as_str(), located.file.as_str()),
        (COMMIT, "needle3.cact")
    );
    assert!(
        events[0].contains("Started") && events[0].contains("Some(1000000)"),
        "{}",
        events[0]
    );
    assert!(events.last().unwrap().contains("1000000"));
    // One question to the hub, one for the bytes, one to the storage host; nothing about the user.
    let log = stand_in.log();
    assert_eq!((stand_in.count(Host::Hub), stand_in.count(Host::Storage)), (2, 1));
    for (_, request) in log {
        assert_eq!(
            request.header("user-agent"),
            Some(concat!("needle/", env!("CARGO_PKG_VERSION")))
        );
        assert!(request.header("cookie").is_none() && request.header("authorization").is_none());
    }
}

#[test]
fn status_401_without_and_with_a_token() {
    let (stand_in, cache, _) = published("401");
    let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "some/private"));
    assert_eq!(fault, HubFault::Unauthorized);
    assert!(
        text.starts_with("some/private: 401") && text.contains("HF_TOKEN"),
        "{text}"
    );

    let mut options = options(stand_in.url(), &cache);
    options.token = Some(Secret::new("hf_wrong"));
    let (fault, text) = refused(resolve(&Hub::new(options).unwrap(), "needle3"));
    assert_eq!(fault, HubFault::Unauthorized);
    assert!(text.contains("does not accept the token"), "{text}");
    assert_nothing_published(&cache);
}

#[test]
fn status_403() {
    let (stand_in, cache, _) = published("403");
    let gated = Answer::new(
        403,
        &[("x-error-code", "GatedRepo"), ("x-error-message", "Access is gated")],
        "",
    );
    spoil(&stand_in, Host::Hub, 9, move |answer| *answer = gated.clone());
    let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "needle3"));
    assert_eq!(fault, HubFault::Forbidden);
    assert!(text.contains("403") && text.contains("gated"), "{text}");
    assert_eq!(stand_in.log().len(), 1);
}

#[test]
fn status_404_names_what_is_missing() {
    let (stand_in, cache, _) = published("404");
    let hub = hub(&stand_in, &cache);
    let (fault, text) = refused(resolve(&hub, "Cactus-Compute/needle3/no.cact"));
    assert_eq!(
        (fault, text.contains("no such file")),
        (HubFault::NotFound, true),
        "{text}"
    );
    let request = ModelRequest::parse("needle3").unwrap().at_revision("v9").unwrap();
    let (fault, text) = refused(hub.resolve(&request, &mut |_| {}));
    assert_eq!(
        (fault, text.contains("no such revision")),
        (HubFault::NotFound, true),
        "{text}"
    );
    let (fault, text) = refused(resolve(&hub, "needle3.pkl"));
    assert_eq!(fault, HubFault::NotFound);
    assert!(text.contains("checkpoints/needle3.pkl or needle3.pkl"), "{text}");
    assert_nothing_published(&cache);
}

#[test]
fn status_429_waits_as_long_as_the_hub_asks() {
    let (stand_in, cache, weights) = published("429");
    let busy = Answer::new(429, &[("retry-after", "1")], "");
    spoil(&stand_in, Host::Hub, 1, move |answer| *answer = busy.clone());
    let (start, mut waits) = (Instant::now(), Vec::new());
    let request = ModelRequest::parse("needle3").unwrap();
    let located = hub(&stand_in, &cache).resolve(&request, &mut |event| {
        if let Event::Waiting { wait, .. } = event {
            waits.push(wait);
        }
    });
    assert_eq!(bytes_of(&located.unwrap()), weights);
    assert_eq!(waits, [Duration::from_secs(1)]);
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[test]
fn status_429_for_an_hour_is_an_error_at_once() {
    let (stand_in, cache, _) = published("429-hour");
    spoil(&stand_in, Host::Hub, 9, |answer| {
        *answer = Answer::new(429, &[("retry-after", "3600")], "")
    });
    let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "needle3"));
    assert_eq!(fault, HubFault::RateLimited);
    assert!(text.contains("429") && text.contains("3600 s"), "{text}");
    assert_eq!(stand_in.log().len(), 1);
}

#[test]
fn status_5xx_is_tried_again_and_then_given_up() {
    let (stand_in, cache, weights) = published("5xx");
    spoil(&stand_in, Host::Hub, 2, |answer| *answer = Answer::new(503, &[], ""));
    assert_eq!(bytes_of(&resolve(&hub(&stand_in, &cache), "needle3").unwrap()), weights);

    let (stand_in, cache, weights) = published("5xx-storage");
    spoil(&stand_in, Host::Storage, 3, |answer| {
        *answer = Answer::new(500, &[], "")
    });
    assert_eq!(bytes_of(&resolve(&hub(&stand_in, &cache), "needle3").unwrap()), weights);

    let (stand_in, cache, _) = published("5xx-always");
    spoil(&stand_in, Host::Hub, 99, |answer| {
        *answer = Answer::new(502, &[("content-type", "text/html")], "<html>")
    });
    let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "needle3"));
    assert_eq!((fault, stand_in.log().len()), (HubFault::Server, 4));
    assert!(text.contains("502") && text.contains("gave up after 4 tries"), "{text}");
}

#[test]
fn the_size_of_a_redirect_page_is_not_the_size_of_the_file() {
    let (stand_in, cache, _) = published("a56");
    let located = resolve(&hub(&stand_in, &cache), "Cactus-Compute/needle3/config.json").unwrap();
    assert_eq!(bytes_of(&located).len(), 818);
    assert_eq!(stand_in.count(Host::Storage), 0);
}

#[test]
fn a_web_page_is_not_a_file() {
    let page = Answer::new(
        200,
        &[("content-type", "text/html; charset=utf-8")],
        "<html>please log in</html>",
    );
    for host in [Host::Hub, Host::Storage] {
        let (stand_in, cache, _) = published(&format!("html-{host:?}"));
        let page = page.clone();
        spoil(&stand_in, host, 99, move |answer| *answer = page.clone());
        let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "needle3"));
        assert_eq!(fault, HubFault::NotAHub);
        assert!(text.contains("web page") && text.contains("127.0.0.1"), "{text}");
        assert_nothing_published(&cache);
    }
}
