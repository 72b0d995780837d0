//! Rows as ids, and those that are too long.

use super::{Dataset, Row};
use crate::tokenizer::Tokenizer;

/// A row as the trainer feeds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRow {
    /// The prompt's ids, the beginning-of-sequence id first.
    pub prompt: Vec<u32>,
    /// The completion's ids, the end-of-sequence id last: the positions that the loss counts.
    pub target: Vec<u32>,
}

/// A row that does not fit a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Overlong {
    /// Its line, from 1.
    pub line: usize,
    /// Its tokens, prompt and completion.
    pub tokens: usize,
    /// Tokens of the completion that are beyond the limit: where there are any, the row teaches half an answer.
    pub target_cut: usize,
}

impl EncodedRow {
    /// Tokens in all.
    pub fn len(&self) -> usize {
        self.prompt.len() + self.target.len()
    }

    /// Never: a prompt has its first id.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Row {
    /// The row's ids.
    pub fn encode(&self, tokenizer: &Tokenizer) -> EncodedRow {
        let prompt = self.example.prompt().encode(tokenizer).ids;
        let mut target = tokenizer.encode(&self.example.target());
        target.push(tokenizer.eos_id());
        EncodedRow { prompt, target }
    }
}

impl Dataset {
    /// The rows with more than `limit` tokens, in order.
    pub fn overlong(&self, tokenizer: &Tokenizer, limit: usize) -> Vec<Overlong> {
        let judge = |row: &Row| {
            let encoded = row.encode(tokenizer);
            let tokens = encoded.len();
            (tokens > limit).then(|| Overlong {
                line: row.line,
                tokens,
                target_cut: (tokens - limit).min(encoded.target.len()),
            })
        };
        self.rows.iter().filter_map(judge).collect()
    }
}
