//! The fault table, second part: bytes that end early, stall, change, are wrong, or find no room.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use needle_core::HubFault;

use super::http::Answer;
use super::stand_in::{Host, NEXT_COMMIT, noise, sha256};
use super::*;

#[test]
fn a_body_that_ends_early_is_resumed_where_it_ended() {
    let (stand_in, cache, weights) = published("cut");
    spoil(&stand_in, Host::Storage, 2, |answer| answer.cut_after = Some(300_000));
    let located = resolve(&hub(&stand_in, &cache), "needle3").unwrap();
    assert_eq!(bytes_of(&located), weights);
    let ranges = stand_in.ranges();
    assert_eq!(
        ranges,
        [None, Some("bytes=300000-".into()), Some("bytes=600000-".into())]
    );
}

#[test]
fn a_server_that_falls_silent_is_left_and_resumed() {
    let (stand_in, cache, weights) = published("stall");
    spoil(&stand_in, Host::Storage, 1, |answer| {
        answer.stall_after = Some((300_000, Duration::from_secs(6)))
    });
    let mut options = options(stand_in.url(), &cache);
    options.patience.read_timeout = Duration::from_millis(300);
    let start = Instant::now();
    assert_eq!(
        bytes_of(&resolve(&Hub::new(options).unwrap(), "needle3").unwrap()),
        weights
    );
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(stand_in.ranges()[1].is_some());
}

#[test]
fn a_body_that_always_ends_early_is_given_up_and_kept_for_the_next_run() {
    let (stand_in, cache, weights) = published("cut-always");
    let held = Arc::new(Mutex::new(0));
    let once = held.clone();
    spoil(&stand_in, Host::Storage, 99, move |answer| {
        let mut count = once.lock().unwrap();
        *count += 1;
        answer.cut_after = Some(if *count == 1 { 600_000 } else { 0 });
    });
    let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "needle3"));
    assert_eq!(fault, HubFault::Network);
    assert!(text.contains("600000 bytes") && text.contains("incomplete"), "{text}");
    assert_nothing_published(&cache);
    stand_in.heal();
    assert_eq!(bytes_of(&resolve(&hub(&stand_in, &cache), "needle3").unwrap()), weights);
    assert_eq!(stand_in.ranges().last().unwrap().as_deref(), Some("bytes=600000-"));
}

#[test]
fn a_server_that_ignores_the_range_starts_over() {
    let (stand_in, cache, weights) = published("no-range");
    let whole = weights.clone();
    let mut first = true;
    spoil(&stand_in, Host::Storage, 99, move |answer| {
        *answer = Answer::new(200, &[], whole.as_slice());
        answer.cut_after = first.then_some(600_000);
        first = false;
    });
    assert_eq!(bytes_of(&resolve(&hub(&stand_in, &cache), "needle3").unwrap()), weights);
    assert_eq!(stand_in.count(Host::Storage), 2);
}

#[test]
fn a_server_that_sends_another_range_is_refused() {
    let (stand_in, cache, _) = published("other-range");
    let mut first = true;
    spoil(&stand_in, Host::Storage, 99, move |answer| {
        answer.cut_after = first.then_some(600_000);
        first = false;
        if answer.status == 206 {
            answer.header("content-range", "bytes 1-999999/1000000");
        }
    });
    let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "needle3"));
    assert_eq!(
        (fault, text.contains("another part")),
        (HubFault::NotAHub, true),
        "{text}"
    );
    assert_nothing_published(&cache);
}

#[test]
fn wrong_bytes_never_get_the_name() {
    let (stand_in, cache, weights) = published("wrong-hash");
    spoil(&stand_in, Host::Storage, 99, |answer| answer.body[77] ^= 1);
    let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "needle3"));
    assert_eq!(fault, HubFault::Corrupt);
    assert!(
        text.contains(&sha256(&weights)) && text.contains("thrown away"),
        "{text}"
    );
    assert_eq!(stand_in.count(Host::Storage), 1);
    let left = names_below(&cache);
    assert!(left.iter().all(|name| name.starts_with(".locks")), "{left:?}");
    stand_in.heal();
    assert_eq!(bytes_of(&resolve(&hub(&stand_in, &cache), "needle3").unwrap()), weights);
}

#[test]
fn a_spoilt_part_of_an_earlier_run_is_fetched_again_from_the_start() {
    let (stand_in, cache, weights) = published("spoilt-part");
    let blobs = cache.join(REPO).join("blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    for held in [400_000, 1_000_000, 1_000_001] {
        std::fs::write(blobs.join(format!("{}.incomplete", sha256(&weights))), vec![0; held]).unwrap();
        assert_eq!(bytes_of(&resolve(&hub(&stand_in, &cache), "needle3").unwrap()), weights);
        std::fs::remove_dir_all(cache.join(REPO).join("snapshots")).unwrap();
        std::fs::remove_file(blobs.join(sha256(&weights))).unwrap();
    }
    assert_eq!(stand_in.ranges(), [Some("bytes=400000-".into()), None, None, None]);
}

#[test]
fn a_part_of_a_file_without_a_hash_is_not_built_upon() {
    let (stand_in, cache, _) = published("no-hash");
    let hub = hub(&stand_in, &cache);
    let spec = "Cactus-Compute/needle3/config.json";
    resolve(&hub, spec).unwrap();
    let blobs = cache.join(REPO).join("blobs");
    let blob = std::fs::read_dir(&blobs).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(&blob).unwrap();
    std::fs::write(blob.with_extension("incomplete"), [b'!'; 500]).unwrap();
    assert_eq!(bytes_of(&resolve(&hub, spec).unwrap()), [b' '; 818]);
    assert_eq!(names_below(&blobs).len(), 1);
}

#[test]
fn a_length_that_the_hub_did_not_state_is_refused_before_a_byte_is_kept() {
    let (stand_in, cache, _) = published("wrong-size");
    spoil(&stand_in, Host::Storage, 99, |answer| answer.body.truncate(999_999));
    let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "needle3"));
    assert_eq!(fault, HubFault::Corrupt);
    assert!(
        text.contains("states 1000000 bytes") && text.contains("sends 999999"),
        "{text}"
    );
    assert_nothing_published(&cache);
}

#[test]
fn more_bytes_than_stated_in_chunks_are_refused() {
    let (stand_in, cache, _) = published("too-long");
    spoil(&stand_in, Host::Storage, 99, |answer| {
        answer
            .header("transfer-encoding", "chunked")
            .body
            .extend(vec![1; 3_000_000]);
    });
    let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "needle3"));
    assert_eq!(
        (fault, text.contains("found more")),
        (HubFault::Corrupt, true),
        "{text}"
    );
    assert_nothing_published(&cache);
}

#[test]
fn a_chunked_body_of_the_right_length_is_fine() {
    let (stand_in, cache, weights) = published("chunked");
    spoil(&stand_in, Host::Storage, 99, |answer| {
        drop(answer.header("transfer-encoding", "chunked").clone())
    });
    assert_eq!(bytes_of(&resolve(&hub(&stand_in, &cache), "needle3").unwrap()), weights);
}

#[test]
fn a_file_of_which_nothing_is_stated_is_refused() {
    let (stand_in, cache, _) = published("unstated");
    stand_in.twist(|_, request, answer| {
        if answer.status == 200 {
            answer.header("transfer-encoding", "chunked");
        }
        assert!(request.header("range").is_none());
    });
    let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "Cactus-Compute/needle3/config.json"));
    assert_eq!(
        (fault, text.contains("neither a size nor a SHA-256")),
        (HubFault::NotAHub, true),
        "{text}"
    );
}

#[test]
fn a_file_that_changes_during_the_download_is_fetched_in_its_new_state() {
    let (stand_in, cache, _) = published("etag-change");
    let next = noise(WEIGHTS_BYTES + 5, 4);
    stand_in.publish("Cactus-Compute/needle3", &[("needle3.cact", &next)]);
    // The first question is answered from the old state, all others from the new one.
    let (old, mut first) = (sha256(&noise(WEIGHTS_BYTES, 3)), true);
    spoil(&stand_in, Host::Hub, 1, move |answer| {
        if std::mem::take(&mut first) {
            answer
                .header("x-linked-etag", format!("\"{old}\""))
                .header("x-linked-size", WEIGHTS_BYTES.to_string());
        }
    });
    let located = resolve(&hub(&stand_in, &cache), "needle3").unwrap();
    assert_eq!(
        (bytes_of(&located) == next, located.commit.as_str()),
        (true, NEXT_COMMIT)
    );
    assert!(!names_below(&cache).iter().any(|name| name.ends_with(".incomplete")));

    let (stand_in, cache, _) = published("etag-always");
    let mut count = 0;
    spoil(&stand_in, Host::Hub, 99, move |answer| {
        count += 1;
        answer.header("x-linked-etag", format!("\"{count:064}\""));
    });
    let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "needle3"));
    assert_eq!(
        (fault, text.contains("keeps changing")),
        (HubFault::Corrupt, true),
        "{text}"
    );
    assert_nothing_published(&cache);
}

#[test]
fn a_part_longer_than_the_storage_hosts_copy_starts_over() {
    let (stand_in, cache, weights) = published("416");
    let blobs = cache.join(REPO).join("blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::write(
        blobs.join(format!("{}.incomplete", sha256(&weights))),
        &weights[..500_000],
    )
    .unwrap();
    spoil(&stand_in, Host::Storage, 1, |answer| {
        *answer = Answer::new(416, &[], "")
    });
    assert_eq!(bytes_of(&resolve(&hub(&stand_in, &cache), "needle3").unwrap()), weights);
    assert_eq!(stand_in.ranges(), [Some("bytes=500000-".into()), None]);
}

/// `/dev/full` takes the place of the unfinished file: the system itself says that there is no room.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_one_line_and_leaves_nothing_behind() {
    let (stand_in, cache, weights) = published("disk-full");
    let blobs = cache.join(REPO).join("blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    let partial = blobs.join(format!("{}.incomplete", sha256(&weights)));
    std::os::unix::fs::symlink("/dev/full", &partial).unwrap();
    let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "needle3"));
    assert_eq!(fault, HubFault::DiskFull);
    assert!(
        text.contains("no room for 1000000 bytes") && text.contains("removed again"),
        "{text}"
    );
    assert!(partial.symlink_metadata().is_err());
    assert_nothing_published(&cache);
}
