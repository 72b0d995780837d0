//! Names: odd ones from users and servers, repositories without a file name, checkpoints, private repositories.

use needle_core::HubFault;
use needle_core::hub::Secret;

use super::http::Answer;
use super::stand_in::{Host, TOKEN};
use super::*;

#[test]
fn names_that_a_server_states_cannot_leave_the_cache() {
    type Change = fn(&mut Answer);
    let twists: [(&str, Change); 4] = [
        ("commit", |answer| {
            drop(answer.header("x-repo-commit", "../../../../evil").clone())
        }),
        ("etag", |answer| {
            drop(answer.header("x-linked-etag", "\"../../../evil\"").clone())
        }),
        ("dot", |answer| drop(answer.header("x-linked-etag", "\"..\"").clone())),
        ("none", |answer| drop(answer.without("x-repo-commit").clone())),
    ];
    for (name, twist) in twists {
        let (stand_in, cache, _) = published(&format!("odd-{name}"));
        spoil(&stand_in, Host::Hub, 99, twist);
        assert_eq!(
            refused(resolve(&hub(&stand_in, &cache), "needle3")).0,
            HubFault::NotAHub
        );
        assert_nothing_published(&cache);
    }
    let (stand_in, cache, weights) = published("odd-listed");
    stand_in.publish("me/odd", &[("../../evil.cact", &weights)]);
    let (fault, text) = refused(resolve(&hub(&stand_in, &cache), "me/odd"));
    assert_eq!(
        (fault, text.contains("leave the folder")),
        (HubFault::Request, true),
        "{text}"
    );
    assert_nothing_published(&cache);
}

#[test]
fn file_names_with_spaces_letters_and_signs_arrive_whole() {
    let (stand_in, cache, weights) = published("odd-fine");
    let name = "ordner 1/größe #1?&%41.cact";
    stand_in.publish("me/odd", &[(name, &weights)]);
    let located = resolve(&hub(&stand_in, &cache), &format!("me/odd/{name}")).unwrap();
    assert_eq!(bytes_of(&located), weights);
    assert!(located.path.ends_with(name));
}

#[test]
fn a_repository_with_one_archive_needs_no_file_name() {
    let (stand_in, cache, weights) = published("only");
    stand_in.publish("me/one", &[("README.md", b"x"), ("kitchen.cact", &weights)]);
    stand_in.publish("me/two", &[("a.cact", &weights), ("b.cact", &weights)]);
    stand_in.publish("me/none", &[("README.md", b"x")]);
    let hub = hub(&stand_in, &cache);
    assert_eq!(resolve(&hub, "me/one").unwrap().file, "kitchen.cact");
    let (fault, text) = refused(resolve(&hub, "me/two"));
    assert!(
        fault == HubFault::NotFound && text.contains("\"a.cact\", \"b.cact\""),
        "{text}"
    );
    let (fault, text) = refused(resolve(&hub, "me/none"));
    assert!(
        fault == HubFault::NotFound && text.contains("no .cact archive"),
        "{text}"
    );
}

#[test]
fn a_checkpoint_is_found_under_checkpoints_and_at_the_root() {
    let (stand_in, cache, weights) = published("checkpoints");
    stand_in.publish(
        "Cactus-Compute/needle2",
        &[("checkpoints/needle2.pkl", &weights), ("needle2-old.pkl", &weights)],
    );
    let hub = hub(&stand_in, &cache);
    assert_eq!(resolve(&hub, "needle2.pkl").unwrap().file, "checkpoints/needle2.pkl");
    assert_eq!(resolve(&hub, "needle2-old.pkl").unwrap().file, "needle2-old.pkl");
    assert_eq!(stand_in.count(Host::Storage), 1, "the same bytes are fetched once");
}

#[test]
fn a_token_opens_a_private_repository() {
    let (stand_in, cache, weights) = published("private");
    stand_in.make_private("Cactus-Compute/needle3");
    assert_eq!(
        refused(resolve(&hub(&stand_in, &cache), "needle3")).0,
        HubFault::Unauthorized
    );
    let mut options = options(stand_in.url(), &cache);
    options.token = Some(Secret::new(TOKEN));
    assert_eq!(
        bytes_of(&resolve(&Hub::new(options).unwrap(), "needle3").unwrap()),
        weights
    );
    let storage: Vec<_> = stand_in
        .log()
        .into_iter()
        .filter(|(host, _)| *host == Host::Storage)
        .collect();
    assert_eq!(storage.len(), 1);
    assert!(
        storage[0].1.header("authorization").is_none(),
        "the token must not leave the hub"
    );
}
