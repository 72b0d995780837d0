//! Where the golden files lie.

use std::path::PathBuf;

/// The path of a golden file, named as in the oracle's folder. A missing one fails the test.
pub(crate) fn path(relative: &str) -> PathBuf {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/golden")).join(relative);
    assert!(path.is_file(), "golden file {} is missing", path.display());
    path
}
