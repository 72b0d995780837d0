//! What a file looks like from outside: first line, length, name.

use super::{
    Finding,
    source::{Source, is_test_path},
};

const LONG: usize = 350;
const TOO_LONG: usize = 600;
const TOO_LONG_FOR_TESTS: usize = 800;

/// Faults in the shape of a Rust file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !source.text.starts_with("//!") {
        findings.push(Finding::at(
            &source.path,
            0,
            "a file begins with `//!`: what it is and why",
        ));
    }
    let limit = if is_test_path(&source.path) {
        TOO_LONG_FOR_TESTS
    } else {
        TOO_LONG
    };
    let lines = source.text.lines().count();
    if lines > limit {
        findings.push(Finding::at(
            &source.path,
            limit,
            format!("{lines} lines, at most {limit}: one idea a file"),
        ));
    }
    let name = source
        .path
        .trim_end_matches("/mod.rs")
        .trim_end_matches(".rs")
        .rsplit('/')
        .next()
        .unwrap_or_default();
    if ["utils", "util", "common", "helpers", "misc"].contains(&name) {
        findings.push(Finding::at(&source.path, 0, format!("`{name}` names no idea")));
    }
    findings
}

/// Product files that are longer than they should be, with their lines: a warning, not a fault.
pub(super) fn long(source: &Source) -> Option<usize> {
    let lines = source.text.lines().count();
    (lines > LONG && !is_test_path(&source.path)).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, count: usize) -> Source {
        Source::rust(path, &"//! x\n".repeat(count))
    }

    #[test]
    fn first_line() {
        assert!(check(&Source::rust("a.rs", "//! What.\nfn f() {}")).is_empty());
        assert_eq!(check(&Source::rust("a.rs", "fn f() {}\n//! What.")).len(), 1);
    }

    #[test]
    fn length() {
        assert!(check(&lines("a.rs", 600)).is_empty());
        assert_eq!(check(&lines("a.rs", 601)).len(), 1);
        assert!(check(&lines("tests/a.rs", 800)).is_empty());
        assert_eq!(check(&lines("tests/a.rs", 801)).len(), 1);
        assert_eq!(
            (long(&lines("a.rs", 350)), long(&lines("a.rs", 351))),
            (None, Some(351))
        );
        assert_eq!(long(&lines("tests/a.rs", 351)), None);
    }

    #[test]
    fn names() {
        assert_eq!(check(&lines("crates/x/src/utils.rs", 1)).len(), 1);
        assert_eq!(check(&lines("crates/x/src/helpers/mod.rs", 1)).len(), 1);
        assert!(check(&lines("crates/x/src/utilisation.rs", 1)).is_empty());
    }
}
