//! `models list`, `verify` and `remove`, from the library.

use needle_core::HubFault;
use needle_core::hub::{ModelRequest, Verdict};

use super::stand_in::{COMMIT, NEXT_COMMIT, noise, sha256};
use super::*;

fn remove(hub: &Hub, spec: &str) -> Result<needle_core::hub::Removed> {
    hub.remove(&ModelRequest::parse(spec).unwrap())
}

/// needle3 in two states that share a checkpoint, a fine-tuned archive, and a repository of somebody else's.
fn stocked(name: &str) -> (Hub, Scratch) {
    let (stand_in, cache, weights) = published(name);
    let (checkpoint, other) = (noise(5000, 8), noise(6000, 9));
    let needle3 = "Cactus-Compute/needle3";
    stand_in.publish(
        needle3,
        &[
            ("needle3.cact", &other),
            ("checkpoints/needle3.safetensors", &checkpoint),
        ],
    );
    stand_in.publish(
        needle3,
        &[
            ("needle3.cact", &weights),
            ("checkpoints/needle3.safetensors", &checkpoint),
        ],
    );
    stand_in.publish("me/mine", &[("kitchen.cact", &other), ("small.cact", b"tiny")]);
    stand_in.publish("big/llm", &[("model.safetensors", &other)]);
    let hub = hub(&stand_in, &cache);
    for revision in [COMMIT, NEXT_COMMIT, "main"] {
        for spec in ["needle3", "needle3.safetensors"] {
            let request = ModelRequest::parse(spec).unwrap().at_revision(revision).unwrap();
            let _ = hub.resolve(&request, &mut |_| {});
        }
    }
    for spec in [
        "me/mine/kitchen.cact",
        "me/mine/small.cact",
        "big/llm/model.safetensors",
    ] {
        resolve(&hub, spec).unwrap();
    }
    (hub, cache)
}

#[test]
fn the_list_has_weights_and_nothing_else() {
    let (hub, cache) = stocked("list");
    std::fs::create_dir_all(cache.join("datasets--a--b/blobs")).unwrap();
    std::fs::create_dir_all(cache.join("models--..--..")).unwrap();
    std::fs::write(cache.join("version.txt"), "1").unwrap();
    let inventory = hub.inventory().unwrap();
    let names: Vec<_> = inventory
        .files
        .iter()
        .map(|file| (file.repo.as_str(), file.file.as_str(), &file.commit[..1]))
        .collect();
    let needle3 = "Cactus-Compute/needle3";
    let expected = [
        (needle3, "checkpoints/needle3.safetensors", "2"),
        (needle3, "checkpoints/needle3.safetensors", "3"),
        (needle3, "needle3.cact", "1"),
        (needle3, "needle3.cact", "2"),
        (needle3, "needle3.cact", "3"),
        ("me/mine", "kitchen.cact", "1"),
        ("me/mine", "small.cact", "1"),
    ];
    assert_eq!(names, expected);
    let sizes: Vec<_> = inventory.files.iter().map(|file| file.size_bytes).collect();
    assert_eq!(sizes, [5000, 5000, 1_000_000, 6000, 1_000_000, 6000, 4]);
    let revisions: Vec<_> = inventory.files.iter().map(|file| file.revisions.join(",")).collect();
    assert_eq!(revisions, ["", "main", "", "", "main", "main", "main"]);
}

#[test]
fn an_unfinished_download_is_listed() {
    let (hub, cache) = stocked("list-partial");
    let path = cache.join("models--me--mine/blobs/abc.incomplete");
    std::fs::write(&path, [0; 77]).unwrap();
    let partials = hub.inventory().unwrap().partials;
    assert_eq!(partials.len(), 1);
    assert_eq!(
        (partials[0].repo.as_str(), partials[0].size_bytes, &partials[0].path),
        ("me/mine", 77, &path)
    );
}

#[test]
fn a_cache_that_does_not_exist_is_empty() {
    let scratch = Scratch::new("list-empty");
    let hub = Hub::new(options("http://127.0.0.1:9", &scratch.join("nowhere"))).unwrap();
    assert_eq!(hub.inventory().unwrap().files, []);
    let (fault, text) = refused(remove(&hub, "needle3"));
    assert_eq!(
        (fault, text.contains("not in the cache")),
        (HubFault::NotCached, true),
        "{text}"
    );
}

#[test]
fn verify_tells_intact_damaged_and_unknown() {
    let (hub, cache) = stocked("verify");
    let files = hub.inventory().unwrap().files;
    let kitchen = files.iter().find(|file| file.file == "kitchen.cact").unwrap();
    let small = files.iter().find(|file| file.file == "small.cact").unwrap();
    assert_eq!(hub.verify(kitchen).unwrap(), Verdict::Intact);
    assert_eq!(hub.verify(small).unwrap(), Verdict::Unknown);
    let mut bytes = std::fs::read(&kitchen.path).unwrap();
    bytes[5] ^= 1;
    std::fs::write(
        cache
            .join("models--me--mine/blobs")
            .join(kitchen.sha256.as_ref().unwrap()),
        &bytes,
    )
    .unwrap();
    assert_eq!(hub.verify(kitchen).unwrap(), Verdict::Damaged { found: sha256(&bytes) });
}

#[test]
fn verify_works_without_links() {
    let (hub, _cache) = stocked("verify-copies");
    let kitchen = hub
        .inventory()
        .unwrap()
        .files
        .into_iter()
        .find(|file| file.file == "kitchen.cact")
        .unwrap();
    let bytes = std::fs::read(&kitchen.path).unwrap();
    std::fs::remove_file(&kitchen.path).unwrap();
    std::fs::write(&kitchen.path, &bytes).unwrap();
    let copy = hub
        .inventory()
        .unwrap()
        .files
        .into_iter()
        .find(|file| file.file == "kitchen.cact")
        .unwrap();
    assert_eq!(
        (copy.sha256.clone(), hub.verify(&copy).unwrap()),
        (None, Verdict::Intact)
    );
}

#[test]
fn removing_a_file_removes_it_in_all_revisions_and_keeps_the_rest() {
    let (hub, cache) = stocked("remove-file");
    let removed = remove(&hub, "needle3").unwrap();
    assert_eq!((removed.files.len(), removed.freed_bytes), (3, 1_006_000));
    let left: Vec<_> = hub
        .inventory()
        .unwrap()
        .files
        .into_iter()
        .map(|file| file.file)
        .collect();
    let checkpoint = "checkpoints/needle3.safetensors";
    assert_eq!(left, [checkpoint, checkpoint, "kitchen.cact", "small.cact"]);
    assert_eq!(hub.find(&ModelRequest::parse("needle3").unwrap()).unwrap(), None);
    assert_eq!(remove(&hub, "needle3.safetensors").unwrap().freed_bytes, 5000);
    assert!(
        !cache.join("models--Cactus-Compute--needle3").exists(),
        "the last weight takes the folder with it"
    );
    assert_eq!(refused(remove(&hub, "needle3")).0, HubFault::NotCached);
}

#[test]
fn removing_one_of_two_names_keeps_the_bytes() {
    let (stand_in, cache, weights) = published("remove-shared");
    stand_in.publish("me/two", &[("a.cact", &weights), ("b.cact", &weights)]);
    let hub = hub(&stand_in, &cache);
    resolve(&hub, "me/two/a.cact").unwrap();
    resolve(&hub, "me/two/b.cact").unwrap();
    assert_eq!(remove(&hub, "me/two/a.cact").unwrap().freed_bytes, 0);
    assert_eq!(bytes_of(&resolve(&hub, "me/two/b.cact").unwrap()), weights);
}

#[test]
fn removing_a_repository_touches_no_other() {
    let (hub, cache) = stocked("remove-repo");
    assert_eq!(remove(&hub, "me/mine").unwrap().files.len(), 2);
    assert!(!cache.join("models--me--mine").exists());
    assert!(cache.join("models--big--llm").is_dir());
    assert_eq!(hub.inventory().unwrap().files.len(), 5);
}
