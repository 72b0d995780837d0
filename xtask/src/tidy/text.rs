//! Files that are not Rust: manifests, documents, scripts.

use std::path::Path;

use super::Finding;

/// Path dependencies without a version: such a crate cannot be published.
pub(super) fn manifest(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut dependencies = false;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            dependencies = line.contains("dependencies");
        } else if dependencies && line.contains("path =") && !line.contains("version =") {
            findings.push(Finding::at(path, number, "a path dependency carries a version"));
        }
    }
    findings
}

/// Relative links of a Markdown file that lead nowhere.
pub(super) fn links(root: &Path, path: &str, text: &str) -> Vec<Finding> {
    let folder = root.join(path).parent().map(Path::to_path_buf).unwrap_or_default();
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.map(|target| target.split('#').next().unwrap_or_default()) {
            let elsewhere = target.is_empty() || target.contains("://") || target.starts_with("mailto:");
            if !elsewhere && !folder.join(target).exists() {
                findings.push(Finding::at(path, number, format!("the link to {target} leads nowhere")));
            }
        }
    }
    findings
}

/// Paths of the machine that the file was written on.
pub(super) fn paths(path: &str, text: &str) -> Vec<Finding> {
    let words = ["/work/", "/root/", "/home/", "../shared"];
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(number, line)| Some((number, words.iter().find(|word| line.contains(**word))?)))
        .map(|(number, word)| Finding::at(path, number, format!("`{word}`: no path of one machine")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_dependencies() {
        let good = "[lib]\npath = \"lib.rs\"\n[dependencies]\na = { path = \"a\", version = \"1\" }\nb = \"2\"";
        assert!(manifest("Cargo.toml", good).is_empty());
        let bad = "[dev-dependencies]\n\na = { path = \"a\" }";
        assert_eq!(manifest("Cargo.toml", bad)[0].line, 3);
    }

    #[test]
    fn dead_links() {
        let root = crate::cargo::root();
        let text = "[a](Cargo.toml) [b](nowhere.md#x)\n[c](https://example.org) [d](#here) [e](xtask/)";
        let found = links(root, "README.md", text);
        assert_eq!((found.len(), found[0].line), (1, 1));
        assert!(links(root, "xtask/README.md", "[a](src/main.rs)").is_empty());
    }

    #[test]
    fn machine_paths() {
        assert_eq!(paths("a.md", "x\nsee /root/x").len(), 1);
        assert!(paths("a.md", "see $HOME, ~/x, framework/x").is_empty());
    }
}
