//! A folder of one test, removed at its end.

use std::path::{Path, PathBuf};

/// An empty folder below the system's temporary one.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes it; `name` is the test's.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("needle-tests-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl std::ops::Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
