//! One cache, two clients: what the Python client wrote we read, and the other way round.
//!
//! Compiled with the feature `hub-python` only; `cargo xtask hub-python` installs the client and runs it. Without the
//! client these tests fail.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use needle_core::hub::{Access, ModelRequest, Secret, UploadFile, Verdict};
use serde_json::Value;

use super::stand_in::{COMMIT, TOKEN, sha256};
use super::*;

const FILES: [&str; 3] = ["needle3.cact", "checkpoints/needle3.safetensors", "config.json"];

/// A stand-in with a large file, one in a folder, and a small one; their hashes in the order of [`FILES`].
fn stocked() -> (StandIn, [String; 3]) {
    let stand_in = StandIn::start();
    let bytes = [stand_in::noise(300_000, 3), stand_in::noise(20_000, 4), b"{}".to_vec()];
    let files = [0, 1, 2].map(|index| (FILES[index], bytes[index].as_slice()));
    stand_in.publish("Cactus-Compute/needle3", &files);
    (stand_in, bytes.map(|bytes| sha256(&bytes)))
}

fn python(stand_in: &StandIn, cache: &Path, access: Access, args: &[&str]) -> Command {
    let python = std::env::var_os("NEEDLE_HUB_PYTHON").expect("NEEDLE_HUB_PYTHON: run `cargo xtask hub-python`");
    let mut command = Command::new(python);
    command
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/hub/python_interop.py"))
        .args(args);
    command
        .env("HF_HUB_CACHE", cache)
        .env("HF_HOME", cache.with_file_name("home"))
        .env("HF_ENDPOINT", stand_in.url());
    command
        .env("HF_HUB_DISABLE_XET", "1")
        .env("HF_HUB_DISABLE_TELEMETRY", "1")
        .env_remove("HF_TOKEN");
    command.env("HF_HUB_OFFLINE", if access == Access::Offline { "1" } else { "0" });
    command
}

/// The JSON lines that the script printed.
fn answers(command: &mut Command) -> Vec<Value> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn get(stand_in: &StandIn, cache: &Path, access: Access) -> Vec<(PathBuf, String)> {
    let args = [&["get", "Cactus-Compute/needle3"], &FILES[..]].concat();
    let field = |answer: &Value, name: &str| answer[name].as_str().unwrap().to_string();
    let answers = answers(&mut python(stand_in, cache, access, &args));
    answers
        .iter()
        .map(|answer| (field(answer, "path").into(), field(answer, "sha256")))
        .collect()
}

fn requests() -> [ModelRequest; 3] {
    FILES.map(|file| ModelRequest::parse(&format!("Cactus-Compute/needle3/{file}")).unwrap())
}

#[test]
fn python_reads_what_we_wrote() {
    let ((stand_in, hashes), scratch) = (stocked(), Scratch::new("python-reads"));
    let cache = scratch.join("hub");
    let hub = hub(&stand_in, &cache);
    let ours = requests().map(|request| hub.resolve(&request, &mut |_| {}).unwrap().path);
    let fetched = stand_in.count(Host::Storage);
    for access in [Access::Offline, Access::Online] {
        let theirs = get(&stand_in, &cache, access);
        assert_eq!(theirs.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>(), ours);
        assert_eq!(theirs.into_iter().map(|(_, hash)| hash).collect::<Vec<_>>(), hashes);
    }
    assert_eq!(stand_in.count(Host::Storage), fetched, "nothing is fetched twice");
    let scan = answers(&mut python(&stand_in, &cache, Access::Offline, &["scan"])).remove(0);
    assert_eq!(scan["warnings"], serde_json::json!([]));
    let expected = [
        ("checkpoints/needle3.safetensors", 20_000),
        ("config.json", 2),
        ("needle3.cact", 300_000),
    ];
    let expected = expected.map(|(file, size)| format!("Cactus-Compute/needle3 {COMMIT} {file} {size} main"));
    assert_eq!(scan["files"], serde_json::json!(expected));
}

#[test]
fn we_read_what_python_wrote() {
    let ((stand_in, hashes), scratch) = (stocked(), Scratch::new("python-writes"));
    let cache = scratch.join("hub");
    let theirs = get(&stand_in, &cache, Access::Online);
    let fetched = stand_in.count(Host::Storage);
    let mut offline = options("http://127.0.0.1:9", &cache);
    offline.access = Access::Offline;
    for hub in [Hub::new(offline).unwrap(), hub(&stand_in, &cache)] {
        for ((request, (path, _)), hash) in requests().into_iter().zip(&theirs).zip(&hashes) {
            let located = hub.resolve(&request.latest(), &mut |_| {}).unwrap();
            assert_eq!((&located.path, &sha256(&bytes_of(&located))), (path, hash));
        }
        let verdicts: Vec<_> = hub
            .inventory()
            .unwrap()
            .files
            .iter()
            .map(|file| hub.verify(file).unwrap())
            .collect();
        assert_eq!(verdicts, [Verdict::Intact, Verdict::Intact]);
    }
    assert_eq!(stand_in.count(Host::Storage), fetched, "nothing is fetched twice");
}

/// The same two files sent by both clients: the same requests in the same order, the same files afterwards.
#[test]
fn both_send_alike() {
    let scratch = Scratch::new("python-sends");
    let paths = [scratch.join("tuned.cact"), scratch.join("tuned.cact.json")];
    std::fs::write(&paths[0], stand_in::noise(300_000, 7)).unwrap();
    std::fs::write(&paths[1], b"{\"form\":1}").unwrap();
    let [ours, theirs] = [StandIn::start(), StandIn::start()];
    ours.publish("me/kitchen", &[]);
    theirs.publish("me/kitchen", &[]);

    let mut options = options(ours.url(), &scratch.join("hub"));
    options.token = Some(Secret::new(TOKEN));
    let hub = Hub::new(options).unwrap();
    for path in &paths {
        let file = UploadFile::of(path).unwrap();
        hub.upload("me/kitchen", &[file], "Upload", &mut |_| {}).unwrap();
    }
    let [archive, record] = paths.each_ref().map(|path| path.to_str().unwrap());
    let args = ["put", "me/kitchen", archive, record];
    answers(python(&theirs, &scratch.join("hub"), Access::Online, &args).env("HF_TOKEN", TOKEN));

    assert_eq!(ours.files("me/kitchen"), theirs.files("me/kitchen"));
    let requests = |stand_in: &StandIn| -> Vec<String> {
        let log = stand_in.log().into_iter().map(|(host, request)| {
            let token = request.header("authorization").is_some();
            let path = request.path.split('?').next().unwrap_or_default().to_owned();
            format!("{host:?} {} {path}, token: {token}", request.method)
        });
        // The reference makes the repository first, whether or not there is one; we ask first.
        log.filter(|line| !line.contains("/create")).collect()
    };
    assert_eq!(requests(&ours), requests(&theirs));
}

#[test]
fn the_locks_are_the_same() {
    let ((stand_in, hashes), scratch) = (stocked(), Scratch::new("python-locks"));
    let cache = scratch.join("hub");
    let lock = cache.join(".locks").join(REPO).join(format!("{}.lock", hashes[0]));
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let flag = cache.join("flag");
    let args = ["hold", lock.to_str().unwrap(), flag.to_str().unwrap()];
    let mut holder = python(&stand_in, &cache, Access::Online, &args).spawn().unwrap();
    let start = Instant::now();
    while !flag.exists() {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(5));
    }
    let (start, mut told) = (Instant::now(), String::new());
    let request = requests()[0].clone();
    hub(&stand_in, &cache)
        .resolve(&request, &mut |event| told += &format!("{event:?}"))
        .unwrap();
    assert!(
        start.elapsed() > Duration::from_millis(700),
        "the lock was not waited for"
    );
    assert!(told.contains("another process"), "{told}");
    assert!(holder.wait().unwrap().success());
}
