//! Licences of all dependencies, and one copy of the crates whose types cross crate borders.
//!
//! A small stand-in for cargo-deny, whose build takes longer than all other checks together. It reads the same
//! `deny.toml`: the licences that it allows, and the crates that it wants once.

use std::{collections::BTreeMap, fs};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo::{cargo, output, root};

/// Checks `cargo metadata` against `deny.toml`.
pub(crate) fn run() -> Result<()> {
    let rules = fs::read_to_string(root().join("deny.toml")).context("cannot read deny.toml")?;
    let allowed = list(&rules, "allow = [");
    if allowed.is_empty() {
        bail!("deny.toml: expected a list `allow`, found none");
    }
    let metadata = output(&mut cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--all-features",
    ]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cannot parse what cargo metadata prints")?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata: expected a list `packages`")?;

    let mut faults = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let version = package["version"].as_str().unwrap_or_default();
        versions.entry(name).or_default().push(version);
        match package["license"].as_str() {
            None => faults.push(format!("{name} {version}: no licence is stated")),
            Some(licence) if !permits(licence, &allowed) => faults.push(format!("{name} {version}: licence {licence}")),
            Some(_) => {}
        }
    }
    let single = list(&rules, "deny = [");
    for (name, versions) in versions {
        let once = name.starts_with("candle-") || single.contains(&name);
        if once && versions.len() > 1 {
            faults.push(format!(
                "{name}: {} versions, {}",
                versions.len(),
                versions.join(" and ")
            ));
        }
    }
    if !faults.is_empty() {
        bail!("dependencies that deny.toml does not allow:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// The quoted words between `start` and the next `]`.
fn list<'a>(toml: &'a str, start: &str) -> Vec<&'a str> {
    let body = toml
        .split_once(start)
        .and_then(|(_, rest)| rest.split_once("\n]"))
        .map_or("", |(body, _)| body);
    let entries = body.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    entries.filter_map(|line| line.split('"').nth(1)).collect()
}

/// Whether an SPDX expression can be met with allowed licences alone. `OR` binds weaker than `AND`; crates of old spell
/// `OR` as a slash.
fn permits(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (met, used) = any(&words, allowed);
    met && used == words.len()
}

// Each returns whether the part is met and how many words it took.
fn any(words: &[&str], allowed: &[&str]) -> (bool, usize) {
    let (mut met, mut used) = all(words, allowed);
    while words.get(used) == Some(&"OR") {
        let (next, taken) = all(&words[used + 1..], allowed);
        met |= next;
        used += 1 + taken;
    }
    (met, used)
}

fn all(words: &[&str], allowed: &[&str]) -> (bool, usize) {
    let (mut met, mut used) = one(words, allowed);
    while words.get(used) == Some(&"AND") {
        let (next, taken) = one(&words[used + 1..], allowed);
        met &= next;
        used += 1 + taken;
    }
    (met, used)
}

fn one(words: &[&str], allowed: &[&str]) -> (bool, usize) {
    match words {
        ["(", rest @ ..] => {
            let (met, used) = any(rest, allowed);
            (met && rest.get(used) == Some(&")"), used + 2)
        }
        [licence, "WITH", exception, ..] => (allowed.contains(&format!("{licence} WITH {exception}").as_str()), 3),
        [licence, ..] => (allowed.contains(licence), 1),
        [] => (false, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[&str] = &["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];

    #[test]
    fn expressions() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "(GPL-2.0 AND MIT) OR Apache-2.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(permits(good, ALLOWED), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND GPL-3.0",
            "GPL-3.0 WITH Classpath-exception",
            "MIT Apache-2.0",
            "MIT OR",
            "( MIT",
            "(MIT Apache-2.0",
        ] {
            assert!(!permits(bad, ALLOWED), "{bad}");
        }
    }

    #[test]
    fn lists_of_deny_toml() {
        let toml = "[licenses]\nallow = [\n  \"MIT\",\n  # \"GPL-3.0\",\n  \"Zlib\", # why\n]\ndeny = [\n  { crate = \"x\" },\n]\n";
        assert_eq!(list(toml, "allow = ["), ["MIT", "Zlib"]);
        assert_eq!(list(toml, "deny = ["), ["x"]);
        assert!(list(toml, "skip = [").is_empty());
    }
}
