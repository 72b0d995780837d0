//! What `needle --version` says: version, commit, features, formats.

use std::sync::LazyLock;

/// The text after the program's name.
pub(crate) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let mut features = vec!["cpu"];
        if cfg!(feature = "gpu") {
            features.push("gpu");
        }
        if cfg!(feature = "metal") {
            features.push("metal");
        }
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
