//! What needs a process of its own: the environment, a kill in the middle, two processes at once.
//!
//! The child is this test binary again, told to run [`child`] alone.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use needle_core::hub::{self, ModelRequest};

use super::http::{Wire, serve_proxy};
use super::stand_in::{Host, TOKEN};
use super::*;

const SPEC: &str = "NEEDLE_TEST_CHILD_SPEC";
const OUT: &str = "NEEDLE_TEST_CHILD_OUT";

/// In a child: resolves what it was told with the settings of its environment, and writes the outcome down. In a run
/// of all tests it was told nothing, and that nothing was left in the environment is all it checks.
#[test]
fn child() {
    let (Ok(spec), Some(out)) = (std::env::var(SPEC), std::env::var_os(OUT)) else {
        assert!(std::env::var_os(OUT).is_none());
        return;
    };
    let outcome = match hub::resolve(&ModelRequest::parse(&spec).unwrap()) {
        Ok(path) => format!("ok {}", path.display()),
        Err(error) => format!("error {error}"),
    };
    std::fs::write(out, outcome).unwrap();
}

/// Starts a child with these variables and no others; `out` gets its outcome.
fn start(out: &Path, spec: &str, vars: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "hub::processes::child"])
        .env_clear()
        .env(SPEC, spec)
        .env(OUT, out);
    if let Some(root) = std::env::var_os("SystemRoot") {
        command.env("SystemRoot", root);
    }
    command
        .envs(vars.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn run(scratch: &Path, vars: &[(&str, &str)]) -> std::result::Result<PathBuf, String> {
    let out = scratch.join("outcome");
    let _ = std::fs::remove_file(&out);
    assert!(start(&out, "needle3", vars).wait().unwrap().success());
    let outcome = std::fs::read_to_string(&out).unwrap();
    match outcome.split_once(' ').unwrap() {
        ("ok", path) => Ok(path.into()),
        (_, error) => Err(error.into()),
    }
}

#[test]
fn every_variable_has_its_effect() {
    let stand_in = StandIn::start_with(Wire::tls(), "");
    let weights = stand_in::noise(WEIGHTS_BYTES, 3);
    stand_in.publish("Cactus-Compute/needle3", &[("needle3.cact", &weights)]);
    let scratch = Scratch::new("environment");
    let text = |path: &Path| path.to_str().unwrap().to_string();
    let (home, hf_home, hub_cache) = (
        text(&scratch.join("home")),
        text(&scratch.join("hf")),
        text(&scratch.join("cache")),
    );
    let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/hub/tls/ca.pem");
    let base = [
        ("HOME", home.as_str()),
        ("USERPROFILE", &home),
        ("HF_ENDPOINT", stand_in.url()),
        ("SSL_CERT_FILE", ca),
    ];
    let with = |more: &[(&str, &str)]| run(&scratch, &[&base[..], more].concat());

    // HF_ENDPOINT and SSL_CERT_FILE: without them this could not end well. The home folder is the last resort.
    assert!(
        with(&[])
            .unwrap()
            .starts_with(scratch.join("home/.cache/huggingface/hub"))
    );
    let error = run(
        &scratch,
        &[("HOME", &home), ("HF_HOME", &hf_home), ("HF_ENDPOINT", stand_in.url())],
    )
    .unwrap_err();
    assert!(error.contains("UnknownIssuer"), "{error}");
    assert!(
        with(&[("HF_HOME", &hf_home)])
            .unwrap()
            .starts_with(scratch.join("hf/hub"))
    );
    assert!(
        with(&[("HF_HOME", &hf_home), ("HF_HUB_CACHE", &hub_cache)])
            .unwrap()
            .starts_with(&hub_cache)
    );

    // HF_HUB_OFFLINE: a warm cache answers without a question, a cold one says the three ways on.
    let asked = stand_in.log().len();
    assert!(with(&[("HF_HUB_OFFLINE", "1"), ("HF_HUB_CACHE", &hub_cache)]).is_ok());
    let cold = text(&scratch.join("cold"));
    let error = with(&[("HF_HUB_OFFLINE", "1"), ("HF_HUB_CACHE", &cold)]).unwrap_err();
    assert!(error.contains("--model demo"), "{error}");
    assert_eq!(stand_in.log().len(), asked);

    // HF_TOKEN, and the token file.
    stand_in.make_private("Cactus-Compute/needle3");
    let private = text(&scratch.join("private"));
    assert!(with(&[("HF_HUB_CACHE", &private)]).unwrap_err().contains("401"));
    assert!(with(&[("HF_HUB_CACHE", &private), ("HF_TOKEN", TOKEN)]).is_ok());
    let own = text(&scratch.join("own"));
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(scratch.join("own/token"), format!("{TOKEN}\n")).unwrap();
    assert!(with(&[("HF_HOME", &own)]).unwrap().starts_with(scratch.join("own/hub")));
    assert!(
        with(&[
            ("HF_HOME", &own),
            ("HF_HUB_CACHE", &cold),
            ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
        ])
        .is_err()
    );

    // HTTPS_PROXY and NO_PROXY: only the proxy knows hub.test.
    let proxy = format!("http://127.0.0.1:{}", serve_proxy(stand_in.port, |_| {}));
    let named = [
        ("HF_ENDPOINT", "https://hub.test"),
        ("HF_TOKEN", TOKEN),
        ("NO_PROXY", "127.0.0.1"),
    ];
    let proxied = text(&scratch.join("proxied"));
    let through = [&named[..], &[("HTTPS_PROXY", &proxy), ("HF_HUB_CACHE", &proxied)]].concat();
    assert_eq!(std::fs::read(with(&through).unwrap()).unwrap(), weights);
    let down = [
        ("HTTPS_PROXY", "http://127.0.0.1:9"),
        ("HF_HUB_CACHE", cold.as_str()),
        ("HF_TOKEN", TOKEN),
    ];
    assert!(with(&down).unwrap_err().contains("127.0.0.1"));
    assert!(with(&[&down[..], &[("NO_PROXY", "127.0.0.1")]].concat()).is_ok());
}

#[test]
fn a_process_killed_at_60_percent_is_resumed_to_the_right_hash() {
    let (stand_in, scratch, weights) = published("killed");
    stand_in.twist(|host, _, answer| {
        if host == Host::Storage {
            answer.drip = Some((25_000, Duration::from_millis(40)));
        }
    });
    let cache = scratch.join("cache");
    let home = scratch.to_str().unwrap();
    let vars = [
        ("HOME", home),
        ("HF_ENDPOINT", stand_in.url()),
        ("HF_HUB_CACHE", cache.to_str().unwrap()),
    ];
    let blobs = cache.join("models--Cactus-Compute--needle3/blobs");
    let partial = blobs.join(format!("{}.incomplete", stand_in::sha256(&weights)));
    let held = || partial.metadata().map_or(0, |meta| meta.len());

    let mut killed = start(&scratch.join("outcome"), "needle3", &vars);
    let start = Instant::now();
    while held() < 600_000 {
        assert!(start.elapsed() < Duration::from_secs(20), "only {} bytes came", held());
        std::thread::sleep(Duration::from_millis(2));
    }
    killed.kill().unwrap();
    assert!(!killed.wait().unwrap().success());
    assert!((600_000..1_000_000).contains(&held()), "{} bytes are held", held());
    assert!(!scratch.join("outcome").exists() && !blobs.join(stand_in::sha256(&weights)).exists());

    stand_in.heal();
    let rest = held();
    assert_eq!(std::fs::read(run(&scratch, &vars).unwrap()).unwrap(), weights);
    assert_eq!(
        stand_in.ranges().last().unwrap().as_deref(),
        Some(format!("bytes={rest}-").as_str())
    );
}

#[test]
fn two_processes_at_once_fetch_once() {
    let (stand_in, scratch, weights) = published("two");
    stand_in.twist(|_, _, answer| answer.drip = Some((100_000, Duration::from_millis(30))));
    let cache = scratch.join("cache");
    let vars = [
        ("HOME", "/"),
        ("HF_ENDPOINT", stand_in.url()),
        ("HF_HUB_CACHE", cache.to_str().unwrap()),
    ];
    let outs = [scratch.join("one"), scratch.join("two")];
    let children = outs.each_ref().map(|out| start(out, "needle3", &vars));
    for (mut child, out) in children.into_iter().zip(&outs) {
        assert!(child.wait().unwrap().success());
        let outcome = std::fs::read_to_string(out).unwrap();
        assert_eq!(std::fs::read(outcome.strip_prefix("ok ").unwrap()).unwrap(), weights);
    }
    assert_eq!(stand_in.count(Host::Storage), 1);
}
