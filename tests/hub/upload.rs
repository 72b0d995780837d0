//! Sending files: what arrives, what the token sees, and one clear line for every way it can fail.

use std::path::PathBuf;

use needle_core::hub::{Access, Secret, UploadFile, Uploaded};

use super::{
    stand_in::{COMMIT, NEXT_COMMIT, READ_TOKEN, TOKEN, noise},
    *,
};

/// A stand-in with an empty repository `me/kitchen`, a folder, and an archive with its record in it.
fn stocked(name: &str) -> (StandIn, Scratch, [PathBuf; 2]) {
    let (stand_in, scratch) = (StandIn::start(), Scratch::new(name));
    stand_in.publish("me/kitchen", &[("README.md", b"ours")]);
    let paths = [scratch.join("tuned.cact"), scratch.join("tuned.cact.json")];
    std::fs::write(&paths[0], noise(300_000, 7)).unwrap();
    std::fs::write(&paths[1], b"{\"form\":1}").unwrap();
    (stand_in, scratch, paths)
}

fn send(stand_in: &StandIn, token: Option<&str>, repo: &str, paths: &[PathBuf]) -> Result<(Uploaded, Vec<String>)> {
    let mut options = options(stand_in.url(), Path::new("unused"));
    options.token = token.map(Secret::new);
    let files = paths
        .iter()
        .map(|path| UploadFile::of(path))
        .collect::<Result<Vec<_>>>()?;
    let mut events = Vec::new();
    let uploaded = Hub::new(options)?.upload(repo, &files, "Upload", &mut |event| events.push(format!("{event:?}")))?;
    Ok((uploaded, events))
}

#[test]
fn files_arrive_in_one_commit() {
    let (stand_in, _scratch, paths) = stocked("upload");
    let (uploaded, events) = send(&stand_in, Some(TOKEN), "me/kitchen", &paths).unwrap();
    assert_eq!((uploaded.commit.as_str(), uploaded.is_new), (NEXT_COMMIT, false));
    let files = stand_in.files("me/kitchen");
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        ["README.md", "tuned.cact", "tuned.cact.json"]
    );
    for path in &paths {
        assert_eq!(
            files[path.file_name().unwrap().to_str().unwrap()],
            std::fs::read(path).unwrap()
        );
    }
    assert!(
        events[0].contains("Sending") && events[0].contains("300000"),
        "{events:?}"
    );
    assert!(
        events
            .iter()
            .any(|event| event.contains("Advanced { done_bytes: 300000 }")),
        "{events:?}"
    );
    for (host, request) in stand_in.log() {
        let token = request.header("authorization").is_some();
        assert_eq!(token, host == Host::Hub, "the token goes to the hub alone: {request:?}");
        assert!(request.header("content-length").is_some());
    }

    // What the storage has is not sent again.
    let (again, _) = send(&stand_in, Some(TOKEN), "me/kitchen", &paths).unwrap();
    assert_eq!(
        (again.commit.as_str(), stand_in.count(Host::Storage)),
        ("3".repeat(40).as_str(), 1)
    );
}

#[test]
fn what_was_sent_can_be_downloaded() {
    let (stand_in, scratch, paths) = stocked("upload-download");
    send(&stand_in, Some(TOKEN), "me/kitchen", &paths).unwrap();
    let located = resolve(&hub(&stand_in, &scratch.join("cache")), "me/kitchen").unwrap();
    assert_eq!(bytes_of(&located), std::fs::read(&paths[0]).unwrap());
}

#[test]
fn an_absent_repository_is_made_and_private() {
    let (stand_in, _scratch, paths) = stocked("upload-new");
    let (uploaded, _) = send(&stand_in, Some(TOKEN), "me/attic", &paths).unwrap();
    assert_eq!((uploaded.commit.as_str(), uploaded.is_new), (COMMIT, true));
    assert!(stand_in.is_private("me/attic"));
    assert_eq!(stand_in.files("me/attic").len(), 2);
}

#[test]
fn nothing_is_sent_without_a_token_or_offline_or_to_an_odd_name() {
    let (stand_in, _scratch, paths) = stocked("upload-none");
    let (fault, text) = refused(send(&stand_in, None, "me/kitchen", &paths));
    assert!(fault == HubFault::Unauthorized && text.contains("HF_TOKEN"), "{text}");
    for odd in ["kitchen", "me/kit chen", "me/kitchen/x"] {
        assert_eq!(
            refused(send(&stand_in, Some(TOKEN), odd, &paths)).0,
            HubFault::Request,
            "{odd}"
        );
    }
    let mut offline = options(stand_in.url(), Path::new("unused"));
    offline.access = Access::Offline;
    let (fault, text) = refused(Hub::new(offline).unwrap().upload("me/kitchen", &[], "", &mut |_| {}));
    assert!(fault == HubFault::Network && text.contains("HF_HUB_OFFLINE"), "{text}");
    assert_eq!(stand_in.log().len(), 0);
    let missing = send(&stand_in, Some(TOKEN), "me/kitchen", &[PathBuf::from("no/such.cact")]).unwrap_err();
    assert!(missing.to_string().starts_with("no/such.cact: "), "{missing}");
}

#[test]
fn tokens_that_may_not() {
    let (stand_in, _scratch, paths) = stocked("upload-token");
    let (fault, text) = refused(send(&stand_in, Some("hf_wrong"), "me/kitchen", &paths));
    assert!(
        fault == HubFault::Unauthorized && text.contains("401") && text.contains("does not accept the token"),
        "{text}"
    );
    let (fault, text) = refused(send(&stand_in, Some(READ_TOKEN), "me/kitchen", &paths));
    assert_eq!(fault, HubFault::Forbidden);
    assert!(
        text.contains("403: the token may not write there (This token may only read)"),
        "{text}"
    );
    assert_eq!(stand_in.files("me/kitchen").len(), 1);
}

/// Each step of the protocol, spoilt by each status.
#[test]
fn statuses_end_in_one_clear_line() {
    for (step, host) in [
        ("/preupload/", Host::Hub),
        ("/batch", Host::Hub),
        ("/", Host::Storage),
        ("/verify", Host::Hub),
        ("/commit/", Host::Hub),
    ] {
        for (status, fault, word) in [
            (401, HubFault::Unauthorized, "401"),
            (403, HubFault::Forbidden, "403"),
            (413, HubFault::TooLarge, "413: too large for the hub"),
            (429, HubFault::RateLimited, "429"),
            (503, HubFault::Server, "gave up after 4 tries"),
            (307, HubFault::NotAHub, "leads elsewhere"),
        ] {
            let (stand_in, _scratch, paths) = stocked(&format!("upload-{status}"));
            stand_in.twist(move |asked, request, answer| {
                if asked == host && request.path.contains(step) {
                    *answer = Answer::new(
                        status,
                        &[("location", "http://127.0.0.1:9/elsewhere")],
                        "{\"error\":\"told so\"}",
                    );
                }
            });
            let (found, text) = refused(send(&stand_in, Some(TOKEN), "me/kitchen", &paths));
            assert_eq!(found, fault, "{step} {status}: {text}");
            assert!(text.contains(word), "{step} {status}: {text}");
            // A twist spoils the answer alone: the commit itself was made.
            let files = if step == "/commit/" { 3 } else { 1 };
            assert_eq!(stand_in.files("me/kitchen").len(), files, "{step} {status}");
        }
    }
}

#[test]
fn a_status_that_passes_is_waited_for() {
    let (stand_in, _scratch, paths) = stocked("upload-passing");
    let mut left = 3;
    stand_in.twist(move |host, request, answer| {
        let spoilt = host == Host::Storage || request.path.contains("/commit/");
        if spoilt && left > 0 {
            left -= 1;
            *answer = Answer::new(500, &[], "");
        }
    });
    send(&stand_in, Some(TOKEN), "me/kitchen", &paths).unwrap();
    assert_eq!(stand_in.files("me/kitchen").len(), 3);
}

#[test]
fn odd_answers_are_not_taken_for_success() {
    for (step, body, word) in [
        ("/preupload/", "<html>", "does not answer as a hub"),
        ("/preupload/", "{}", "does not say how it wants the file"),
        ("/batch", "{\"objects\":[]}", "does not say where the bytes go"),
        ("/commit/", "<html>", "does not answer as a hub"),
    ] {
        let (stand_in, _scratch, paths) = stocked("upload-odd");
        stand_in.twist(move |_, request, answer| {
            if request.path.contains(step) {
                *answer = Answer::new(200, &[], body);
            }
        });
        let (_, text) = refused(send(&stand_in, Some(TOKEN), "me/kitchen", &paths));
        assert!(text.contains(word), "{step}: {text}");
    }
    // The storage's own reason, and a file that the repository ignores.
    let (stand_in, scratch, _) = stocked("upload-reason");
    let ignored = scratch.join("ignored.cact");
    std::fs::write(&ignored, noise(2000, 1)).unwrap();
    let (_, text) = refused(send(
        &stand_in,
        Some(TOKEN),
        "me/kitchen",
        std::slice::from_ref(&ignored),
    ));
    assert!(text.contains(".gitignore"), "{text}");
    let large = scratch.join("large.cact");
    std::fs::write(&large, noise(2000, 1)).unwrap();
    let hash = UploadFile::of(&large).unwrap().sha256;
    stand_in.twist(move |_, request, answer| {
        if request.path.contains("/batch") {
            let refusal =
                serde_json::json!({"objects": [{"oid": hash, "error": {"code": 403, "message": "storage is full"}}]});
            *answer = Answer::new(200, &[], refusal.to_string());
        }
    });
    let (_, text) = refused(send(&stand_in, Some(TOKEN), "me/kitchen", &[large]));
    assert!(text.contains("storage is full"), "{text}");
}
