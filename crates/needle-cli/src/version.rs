//! What `needle --version` says: version, commit, features, formats.

use std::sync::LazyLock;

use needle_core::device;

/// The text after the program's name.
pub(crate) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let features = [vec!["cpu"], device::features()].concat();
        format!(
            "{} (commit {})\nfeatures: {}\nreads: .cact 2 and 3, safetensors and pickle checkpoints 2, adapters 2 and 3\n\
             writes: safetensors checkpoints 2\nruns: Needle 2",
            env!("CARGO_PKG_VERSION"),
            env!("NEEDLE_COMMIT"),
            features.join(", "),
        )
    });
    &TEXT
}
