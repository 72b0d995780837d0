//! The feature graph: a GPU feature has to reach every candle crate, a plain build has to pull no GPU crate, and the library
//! without its defaults nothing that talks to a network.
//!
//! A candle crate that the feature does not reach compiles, and fails at run time with "no cuda implementation for …".

use anyhow::{Result, bail};

use crate::cargo::{cargo, output};

const APPLE_TARGET: &str = "aarch64-apple-darwin";
const LINUX_TARGET: &str = "x86_64-unknown-linux-gnu";

/// Packages that offer the user's features.
const PACKAGES: &[&str] = &["needle-core", "needle-cli", "needle-tests"];

/// The user's feature, the leaf crates' name for it, a target where it can be built.
const BACKENDS: &[(&str, &str, &str)] = &[("gpu", "cuda", LINUX_TARGET), ("metal", "metal", APPLE_TARGET)];

/// Crates that only a GPU feature may bring.
const GPU_CRATES: &[&str] = &["cudarc", "candle-kernels", "candle-metal-kernels", "objc2"];

/// Crates that only needle-core's feature `hub` may bring.
const NETWORK_CRATES: &[&str] = &["hf-hub", "reqwest", "ring", "rustls", "ureq"];

/// Checks every package with each of the features and with none.
pub(crate) fn run() -> Result<()> {
    let mut faults = Vec::new();
    for package in PACKAGES {
        for (feature, leaf, target) in BACKENDS {
            for name in unreached(&tree(package, target, &["--features", feature])?, leaf) {
                faults.push(format!("{package}: feature {feature} does not turn on {name}/{leaf}"));
            }
            for name in among(&tree(package, target, &[])?, GPU_CRATES) {
                faults.push(format!("{package}: a plain build for {target} pulls {name}"));
            }
        }
    }
    let bare = tree(
        "needle-core",
        LINUX_TARGET,
        &["--no-default-features", "--edges", "normal"],
    )?;
    for name in among(&bare, NETWORK_CRATES) {
        faults.push(format!("needle-core: without default features it pulls {name}"));
    }
    if !faults.is_empty() {
        bail!("the feature graph is wrong:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// Lines `name version …|feature,feature`, one for each crate that a build of `package`, or of its tests, needs.
fn tree(package: &str, target: &str, options: &[&str]) -> Result<String> {
    let mut tree = cargo(&["tree", "--package", package, "--target", target]);
    output(tree.args(["--prefix", "none", "--format", "{p}|{f}"]).args(options))
}

/// Candle crates and our own leaf that lack the feature `leaf`. Kernel crates have no such feature: they are it.
fn unreached(tree: &str, leaf: &str) -> Vec<String> {
    let own_leaf = format!("needle-{leaf}");
    let mut expected = vec!["candle-core".to_owned(), "candle-nn".to_owned(), own_leaf];
    let candle = |name: &str| name.starts_with("candle-") && !name.ends_with("-kernels");
    expected.extend(
        crates(tree)
            .map(|(name, _)| name.to_owned())
            .filter(|name| candle(name)),
    );
    expected.sort();
    expected.dedup();
    expected
        .retain(|name| !crates(tree).any(|(found, features)| found == name && features.split(',').any(|f| f == leaf)));
    expected
}

/// Those of `names` that the tree contains.
fn among<'a>(tree: &str, names: &[&'a str]) -> Vec<&'a str> {
    names
        .iter()
        .copied()
        .filter(|name| crates(tree).any(|(found, _)| found == *name))
        .collect()
}

fn crates(tree: &str) -> impl Iterator<Item = (&str, &str)> {
    tree.lines().filter_map(|line| {
        let (package, features) = line.trim_end_matches(" (*)").split_once('|')?;
        Some((package.split(' ').next()?, features))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
candle-core v0.11.1|cuda,cudarc,default
candle-kernels v0.11.1|
candle-nn v0.11.1|cuda,default (*)
cudarc v0.19.10|std
needle-cuda v0.1.0 (/somewhere)|cuda";

    #[test]
    fn a_full_graph_passes() {
        assert!(unreached(GOOD, "cuda").is_empty());
    }

    #[test]
    fn a_forgotten_crate_is_named() {
        let forgotten = GOOD.replace("candle-nn v0.11.1|cuda,default", "candle-nn v0.11.1|default");
        assert_eq!(unreached(&forgotten, "cuda"), ["candle-nn"]);
        assert_eq!(
            unreached(&format!("{GOOD}\ncandle-transformers v0.11.1|"), "cuda"),
            ["candle-transformers"]
        );
        assert_eq!(unreached(GOOD, "metal"), ["candle-core", "candle-nn", "needle-metal"]);
    }

    #[test]
    fn crates_that_should_not_be_there_are_named() {
        assert_eq!(among(GOOD, GPU_CRATES), ["cudarc", "candle-kernels"]);
        assert!(among("candle-core v0.11.1|default\nserde v1.0.0|std", GPU_CRATES).is_empty());
    }
}
