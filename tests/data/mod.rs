//! Files of examples: what a line may look like, what becomes of those that cannot be used, duplicates, splits, counts.
//!
//! Names such as A10 point to the users' reports that the tests grew out of.

mod files;
mod lines;
mod splits;
mod statistics;

use needle_core::data::Dataset;

/// Reads lines that stand in a text.
fn read(lines: &str) -> Dataset {
    Dataset::read(lines.as_bytes(), "test").unwrap()
}

/// Different questions to one tool, one a line.
fn rows(count: usize) -> String {
    let line = |number| {
        format!(
            r#"{{"query":"ping {number} now","tools":[{{"name":"ping"}}],"answers":[{{"name":"ping","arguments":{{}}}}]}}"#
        )
    };
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}
