//! What a data set is made of, in numbers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Dataset, Row};
use crate::tokenizer::Tokenizer;

/// Counts over the rows of a data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Rows that can be used.
    pub rows: usize,
    /// Lines that cannot.
    pub rejected: usize,
    /// Rows with a warning.
    pub warned: usize,
    /// Rows that say the same as an earlier one.
    pub duplicates: usize,
    /// Rows that want no call.
    pub refusals: usize,
    /// Rows that want more than one call.
    pub parallel: usize,
    /// Rows with a reasoning block.
    pub with_reasoning: usize,
    /// Rows with facts.
    pub with_system: usize,
    /// Tools that a row offers.
    pub tools_offered: Spread,
    /// Each tool by name.
    pub tools: Vec<ToolCount>,
    /// Rows of each category: the line's own, or refusal, single, parallel.
    pub categories: BTreeMap<String, usize>,
    /// Lengths in tokens, where a tokenizer was given.
    pub tokens: Option<TokenStatistics>,
}

/// How often a tool appears.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolCount {
    /// Its name.
    pub name: String,
    /// Rows that offer it.
    pub offered: usize,
    /// Calls of it.
    pub called: usize,
}

/// Lengths in tokens.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TokenStatistics {
    /// Of the prompts, beginning-of-sequence id included.
    pub prompt: Spread,
    /// Of the completions, end-of-sequence id included.
    pub target: Spread,
    /// Of both.
    pub total: Spread,
    /// All tokens of all rows.
    pub sum: usize,
}

/// How some counts lie; percentiles are the smallest value with that share of the values at or below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest.
    pub min: usize,
    /// The mean.
    pub mean: f64,
    /// Half are at or below.
    pub p50: usize,
    /// Nine of ten are at or below.
    pub p90: usize,
    /// 95 of 100 are at or below.
    pub p95: usize,
    /// 99 of 100 are at or below.
    pub p99: usize,
    /// The largest.
    pub max: usize,
}

impl Spread {
    /// Of some counts, in any order; all zero of none.
    pub fn of(mut counts: Vec<usize>) -> Self {
        counts.sort_unstable();
        let (Some(&min), Some(&max)) = (counts.first(), counts.last()) else {
            return Self::default();
        };
        let share = |percent: usize| counts[(counts.len() * percent).div_ceil(100) - 1];
        Self {
            min,
            mean: counts.iter().sum::<usize>() as f64 / counts.len() as f64,
            p50: share(50),
            p90: share(90),
            p95: share(95),
            p99: share(99),
            max,
        }
    }
}

impl Dataset {
    /// Counts everything; with a tokenizer, lengths too.
    pub fn statistics(&self, tokenizer: Option<&Tokenizer>) -> Statistics {
        let count = |which: &dyn Fn(&Row) -> bool| self.rows.iter().filter(|row| which(row)).count();
        let mut warned: Vec<usize> = self.warnings.iter().map(|warning| warning.line).collect();
        warned.dedup();
        let mut categories = BTreeMap::new();
        for row in &self.rows {
            *categories.entry(row.kind().to_owned()).or_default() += 1;
        }
        let offered = |row: &Row| row.tools.as_ref().map_or(0, |tools| tools.len());
        Statistics {
            rows: self.rows.len(),
            rejected: self.rejected.len(),
            warned: warned.len(),
            duplicates: self.duplicates.len(),
            refusals: count(&|row| row.calls.is_empty()),
            parallel: count(&|row| row.calls.len() > 1),
            with_reasoning: count(&|row| {
                row.example
                    .reasoning
                    .as_deref()
                    .is_some_and(|text| !text.trim().is_empty())
            }),
            with_system: count(&|row| {
                row.example
                    .system
                    .as_deref()
                    .is_some_and(|text| !text.trim().is_empty())
            }),
            tools_offered: Spread::of(self.rows.iter().map(offered).collect()),
            tools: tools(&self.rows),
            categories,
            tokens: tokenizer.map(|tokenizer| tokens(&self.rows, tokenizer)),
        }
    }
}

/// By the number of calls, then by name.
fn tools(rows: &[Row]) -> Vec<ToolCount> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for row in rows {
        for tool in row.tools.iter().flat_map(|tools| tools.tools()) {
            counts.entry(tool.name()).or_default().0 += 1;
        }
        for call in &row.calls {
            counts.entry(&call.name).or_default().1 += 1;
        }
    }
    let mut tools: Vec<ToolCount> = counts
        .into_iter()
        .map(|(name, (offered, called))| ToolCount {
            name: name.to_owned(),
            offered,
            called,
        })
        .collect();
    tools.sort_by_key(|tool| std::cmp::Reverse(tool.called));
    tools
}

fn tokens(rows: &[Row], tokenizer: &Tokenizer) -> TokenStatistics {
    let encoded = rows.iter().map(|row| row.encode(tokenizer));
    let lengths: Vec<(usize, usize)> = encoded.map(|row| (row.prompt.len(), row.target.len())).collect();
    let spread = |length: &dyn Fn(&(usize, usize)) -> usize| Spread::of(lengths.iter().map(length).collect());
    TokenStatistics {
        prompt: spread(&|(prompt, _)| *prompt),
        target: spread(&|(_, target)| *target),
        total: spread(&|(prompt, target)| prompt + target),
        sum: lengths.iter().map(|(prompt, target)| prompt + target).sum(),
    }
}
