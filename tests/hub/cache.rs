//! The cache: its layout, revisions and pins, offline use, and two downloaders at once.

use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use needle_core::HubFault;
use needle_core::hub::{Access, HubOptions, ModelRequest, Source};

use super::stand_in::{COMMIT, Host, NEXT_COMMIT, noise, sha256};
use super::*;

/// A hub that may use no network. Its address and both its proxies are ports on which nobody listens.
fn offline(cache: &Path) -> Hub {
    let mut options: HubOptions = options("http://127.0.0.1:9", cache);
    options.proxies.http = Some(needle_core::hub::Secret::new("http://127.0.0.1:9"));
    options.proxies.https = options.proxies.http.clone();
    options.access = Access::Offline;
    Hub::new(options).unwrap()
}

#[test]
fn the_layout_is_that_of_the_python_client() {
    let (stand_in, cache, weights) = published("layout");
    let hub = hub(&stand_in, &cache);
    let located = resolve(&hub, "needle3").unwrap();
    let hash = sha256(&weights);
    let expected = [
        format!(".locks/{REPO}/{hash}.lock"),
        format!("{REPO}/blobs/{hash}"),
        format!("{REPO}/refs/main"),
        format!("{REPO}/snapshots/{COMMIT}/needle3.cact"),
    ];
    assert_eq!(names_below(&cache), expected);
    assert_eq!(located.path, cache.join(&expected[3]));
    assert_eq!(std::fs::read_to_string(cache.join(&expected[2])).unwrap(), COMMIT);
    #[cfg(unix)]
    assert_eq!(
        std::fs::read_link(&located.path).unwrap(),
        PathBuf::from(format!("../../blobs/{hash}"))
    );

    stand_in.publish("me/deep", &[("a/b/c.cact", &weights)]);
    let located = resolve(&hub, "me/deep/a/b/c.cact").unwrap();
    assert_eq!(bytes_of(&located), weights);
    #[cfg(unix)]
    assert_eq!(
        std::fs::read_link(&located.path).unwrap(),
        PathBuf::from(format!("../../../../blobs/{hash}"))
    );
}

#[test]
fn a_cached_file_is_never_asked_for_again() {
    let (stand_in, cache, weights) = published("cached");
    let hub = hub(&stand_in, &cache);
    assert_eq!(resolve(&hub, "needle3").unwrap().source, Source::Download);
    stand_in.publish("Cactus-Compute/needle3", &[("needle3.cact", &noise(WEIGHTS_BYTES, 5))]);
    let asked = stand_in.log().len();
    let located = resolve(&hub, "needle3").unwrap();
    assert_eq!((located.source, located.commit.as_str()), (Source::Cache, COMMIT));
    assert_eq!(bytes_of(&located), weights);
    assert_eq!(stand_in.log().len(), asked);
}

#[test]
fn the_latest_state_is_fetched_on_demand_and_the_pinned_one_stays() {
    let (stand_in, cache, weights) = published("latest");
    let hub = hub(&stand_in, &cache);
    resolve(&hub, "needle3").unwrap();
    let next = noise(WEIGHTS_BYTES, 5);
    stand_in.publish("Cactus-Compute/needle3", &[("needle3.cact", &next)]);
    let request = ModelRequest::parse("needle3").unwrap();
    let latest = hub.resolve(&request.clone().latest(), &mut |_| {}).unwrap();
    assert_eq!((bytes_of(&latest), latest.commit.as_str()), (next.clone(), NEXT_COMMIT));
    assert_eq!(bytes_of(&resolve(&hub, "needle3").unwrap()), next);

    let (asked, pin) = (stand_in.log().len(), request.at_revision(COMMIT).unwrap());
    assert_eq!(bytes_of(&hub.resolve(&pin, &mut |_| {}).unwrap()), weights);
    assert_eq!(
        stand_in.log().len(),
        asked,
        "a pinned file in the cache needs no question"
    );
    assert!(!cache.join(REPO).join("refs").join(COMMIT).exists(), "a pin is no ref");
}

#[test]
fn the_latest_state_costs_one_question_when_nothing_changed() {
    let (stand_in, cache, _) = published("unchanged");
    let hub = hub(&stand_in, &cache);
    resolve(&hub, "needle3").unwrap();
    let asked = stand_in.log().len();
    let located = hub
        .resolve(&ModelRequest::parse("needle3").unwrap().latest(), &mut |_| {})
        .unwrap();
    assert_eq!((located.source, stand_in.log().len() - asked), (Source::Cache, 1));
}

#[test]
fn a_revision_with_slashes_is_a_ref_like_any_other() {
    let (stand_in, cache, weights) = published("ref");
    let request = ModelRequest::parse("needle3")
        .unwrap()
        .at_revision("refs/pr/1")
        .unwrap();
    assert_eq!(
        bytes_of(&hub(&stand_in, &cache).resolve(&request, &mut |_| {}).unwrap()),
        weights
    );
    assert!(stand_in.log()[0].1.path.contains("/resolve/refs%2Fpr%2F1/"));
    assert_eq!(offline(&cache).resolve(&request, &mut |_| {}).unwrap().commit, COMMIT);
}

#[test]
fn offline_with_a_warm_cache_opens_no_socket() {
    let (stand_in, cache, weights) = published("offline-warm");
    resolve(&hub(&stand_in, &cache), "needle3").unwrap();
    let asked = stand_in.log().len();
    assert_eq!(bytes_of(&resolve(&offline(&cache), "needle3").unwrap()), weights);
    let mut options = options(stand_in.url(), &cache);
    options.access = Access::Offline;
    let hub = Hub::new(options).unwrap();
    assert_eq!(resolve(&hub, "Cactus-Compute/needle3").unwrap().file, "needle3.cact");
    assert_eq!(
        hub.resolve(&ModelRequest::parse("needle3").unwrap().latest(), &mut |_| {})
            .unwrap()
            .commit,
        COMMIT
    );
    assert_eq!(stand_in.log().len(), asked);
}

#[test]
fn offline_with_a_cold_cache_names_the_three_ways_on() {
    let cache = Scratch::new("offline-cold");
    for spec in ["needle2", "needle3", "needle3.safetensors", "me/mine"] {
        let (fault, text) = refused(resolve(&offline(&cache), spec));
        assert_eq!(fault, HubFault::NotCached);
        for way in [
            format!("`needle download {spec}`"),
            "--model FILE".into(),
            "--model demo".into(),
        ] {
            assert!(text.contains(&way), "{way} is missing: {text}");
        }
    }
    assert_eq!(names_below(&cache), Vec::<String>::new());
}

#[test]
fn no_network_and_no_cache_is_told_at_once_with_the_ways_on() {
    let cache = Scratch::new("no-network");
    let hub = Hub::new(options("http://127.0.0.1:9", &cache)).unwrap();
    let start = std::time::Instant::now();
    let (fault, text) = refused(resolve(&hub, "needle3"));
    assert_eq!(fault, HubFault::Network);
    assert!(text.contains("127.0.0.1:9") && text.contains("--model demo"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(3));
}

#[test]
fn an_interrupted_download_is_not_taken_as_complete_offline() {
    let (stand_in, cache, _) = published("interrupted");
    stand_in.twist(|host, _, answer| {
        if host == Host::Storage {
            answer.cut_after = Some(if answer.status == 200 { 600_000 } else { 0 });
        }
    });
    refused(resolve(&hub(&stand_in, &cache), "needle3"));
    let (fault, text) = refused(resolve(&offline(&cache), "needle3"));
    assert_eq!(fault, HubFault::NotCached);
    assert!(
        text.contains("interrupted download of 600000 bytes is incomplete"),
        "{text}"
    );
}

#[test]
fn a_blob_that_vanished_or_shrank_is_fetched_again() {
    let (stand_in, cache, weights) = published("vanished");
    let hub = hub(&stand_in, &cache);
    let located = resolve(&hub, "needle3").unwrap();
    let blob = cache.join(REPO).join("blobs").join(sha256(&weights));
    std::fs::remove_file(&blob).unwrap();
    assert_eq!(refused(resolve(&offline(&cache), "needle3")).0, HubFault::NotCached);
    assert_eq!(bytes_of(&resolve(&hub, "needle3").unwrap()), weights);
    std::fs::write(&blob, &weights[..10]).unwrap();
    hub.resolve(&ModelRequest::parse("needle3").unwrap().latest(), &mut |_| {})
        .unwrap();
    assert_eq!(std::fs::read(&located.path).unwrap(), weights);
}

#[test]
fn a_ref_that_is_no_commit_is_named() {
    let (stand_in, cache, _) = published("bad-ref");
    resolve(&hub(&stand_in, &cache), "needle3").unwrap();
    for text in ["", "../../..", "abc"] {
        std::fs::write(cache.join(REPO).join("refs/main"), text).unwrap();
        let error = resolve(&offline(&cache), "needle3").unwrap_err().to_string();
        assert!(
            error.contains("refs/main") && error.contains("remove this file"),
            "{error}"
        );
    }
}

#[test]
fn eight_threads_fetch_once() {
    let (stand_in, cache, weights) = published("threads");
    let cache = Arc::new(cache);
    stand_in.twist(|_, _, answer| answer.drip = Some((100_000, Duration::from_millis(10))));
    let (hub, start) = (Arc::new(hub(&stand_in, &cache)), Arc::new(Barrier::new(8)));
    let work = |hub: Arc<Hub>, start: Arc<Barrier>| {
        std::thread::spawn(move || {
            start.wait();
            resolve(&hub, "needle3").map(|located| bytes_of(&located))
        })
    };
    let threads: Vec<_> = (0..8).map(|_| work(hub.clone(), start.clone())).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap().unwrap(), weights);
    }
    assert_eq!(stand_in.count(Host::Storage), 1);
    assert_eq!(names_below(&cache).len(), 4);
}

#[cfg(unix)]
#[test]
fn a_read_only_cache_serves() {
    use std::os::unix::fs::PermissionsExt;
    let (stand_in, cache, weights) = published("read-only");
    resolve(&hub(&stand_in, &cache), "needle3").unwrap();
    let mut folders: Vec<PathBuf> = vec![cache.to_path_buf()];
    for name in names_below(&cache) {
        folders.extend(
            cache
                .join(name)
                .ancestors()
                .skip(1)
                .take_while(|path| *path != &*cache)
                .map(PathBuf::from),
        );
    }
    let mode = |bits| {
        folders
            .iter()
            .for_each(|path| std::fs::set_permissions(path, PermissionsExt::from_mode(bits)).unwrap())
    };
    mode(0o555);
    let (cached, latest) = (
        resolve(&offline(&cache), "needle3"),
        hub(&stand_in, &cache).resolve(&ModelRequest::parse("needle3").unwrap().latest(), &mut |_| {}),
    );
    mode(0o755);
    assert_eq!(bytes_of(&cached.unwrap()), weights);
    assert_eq!(bytes_of(&latest.unwrap()), weights);
}
