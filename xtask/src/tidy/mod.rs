//! The rules of ARCHITECTURE.md and CONTRIBUTING.md that a text search can check.
//!
//! Rust files are looked at by [`bans`] and [`shape`], the others by [`text`]. A rule that cannot be kept is changed here,
//! in the open; there is no comment that switches one off.

mod bans;
mod shape;
mod source;
mod text;

use std::{fmt, fs, path::Path};

use anyhow::{Context, Result, bail};

use self::source::Source;
use crate::cargo::root;

/// One broken rule.
#[derive(Clone)]
struct Finding {
    path: String,
    /// From 1.
    line: usize,
    what: String,
}

impl Finding {
    /// `index` counts lines from 0.
    fn at(path: &str, index: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line: index + 1,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Checks every file of the working tree.
pub(crate) fn run() -> Result<()> {
    let mut files = Vec::new();
    walk(root(), "", &mut files)?;
    let mut findings = Vec::new();
    for path in &files {
        // What is not text has no lines to check.
        let Ok(text) = fs::read_to_string(root().join(path)) else {
            continue;
        };
        findings.extend(check(path, &text));
    }
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("tidy: {} broken rules", findings.len());
    }
    Ok(())
}

fn check(path: &str, text: &str) -> Vec<Finding> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension {
        "rs" => {
            let source = Source::rust(path, text);
            if let Some(lines) = shape::long(&source) {
                println!("note: {path} has {lines} lines");
            }
            [shape::check(&source), bans::check(&source)].concat()
        }
        "toml" => [text::manifest(path, text), text::paths(path, text)].concat(),
        "md" => [text::links(root(), path, text), text::paths(path, text)].concat(),
        "sh" | "yml" | "yaml" | "" => text::paths(path, text),
        _ => Vec::new(),
    }
}

/// Files below `folder` (relative to `root`), sorted; builds and git's own are left out.
fn walk(root: &Path, folder: &str, files: &mut Vec<String>) -> Result<()> {
    let path = root.join(folder);
    let entries = fs::read_dir(&path).with_context(|| format!("cannot list {}", path.display()))?;
    let mut entries = entries
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("cannot list {}", path.display()))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let built = name.starts_with("target") && !folder.contains("src");
        if name == ".git" || name == "golden" || built {
            continue;
        }
        let path = if folder.is_empty() {
            name
        } else {
            format!("{folder}/{name}")
        };
        let kind = entry.file_type().with_context(|| format!("cannot look at {path}"))?;
        if kind.is_dir() {
            walk(root, &path, files)?;
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_read_like_a_compiler() {
        assert_eq!(Finding::at("a/b.rs", 4, "what").to_string(), "a/b.rs:5: what");
    }

    #[test]
    fn each_kind_of_file_meets_its_rules() {
        assert_eq!(check("a.rs", "fn f() { x.unwrap() }").len(), 2);
        assert_eq!(
            check("Cargo.toml", "[dependencies]\na = { path = \"../shared/a\" }").len(),
            2
        );
        assert_eq!(check("README.md", "[x](nowhere) in /root/x").len(), 2);
        assert_eq!(check(".ci/run", "cd /work/x").len(), 1);
        assert!(check("Cargo.lock", "/root/").is_empty());
    }

    #[test]
    fn the_walk_sees_this_file() {
        let mut files = Vec::new();
        walk(root(), "", &mut files).unwrap();
        assert!(files.contains(&"xtask/src/tidy/mod.rs".to_owned()));
        assert!(files.contains(&"Cargo.toml".to_owned()));
        assert!(
            !files
                .iter()
                .any(|path| path.starts_with("target/") || path.starts_with(".git/"))
        );
    }
}
