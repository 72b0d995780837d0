//! Rows that say the same, and rows that contradict each other.

use std::collections::HashMap;

use super::{Caution, Row, Warning};

/// A row that says the same as an earlier one: prompt and answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Duplicate {
    /// Its line, from 1.
    pub line: usize,
    /// The line of the first such row.
    pub first: usize,
}

/// The duplicates among rows; equal prompts with other answers are added to the warnings.
pub(super) fn find(rows: &[Row], warnings: &mut Vec<Warning>) -> Vec<Duplicate> {
    let mut prompts: HashMap<_, Vec<&Row>> = HashMap::new();
    let mut duplicates = Vec::new();
    for row in rows {
        let example = &row.example;
        let system = example.system.as_deref().unwrap_or_default().trim();
        let earlier = prompts
            .entry((system, example.tools.as_str(), folded(&example.query)))
            .or_default();
        let line = row.line;
        let same = earlier.iter().find(|first| first.example.answers == example.answers);
        match (same, earlier.first()) {
            (Some(first), _) => duplicates.push(Duplicate {
                line,
                first: first.line,
            }),
            (None, Some(first)) => {
                let caution = Caution::Contradiction { line: first.line };
                warnings.push(Warning { line, caution });
                earlier.push(row);
            }
            (None, None) => earlier.push(row),
        }
    }
    warnings.sort_by_key(|warning| warning.line);
    duplicates
}

/// A query without what makes no other question of it: capitals, white space, a mark at its end.
pub(crate) fn folded(query: &str) -> String {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let text = words.join(" ");
    text.trim_end_matches(['.', '!', '?', ' ']).to_owned()
}
