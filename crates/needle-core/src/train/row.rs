//! One sequence to learn from, and the length that a data set asks for.

use crate::{
    error::{Error, Result},
    prompt::Example,
    tokenizer::Tokenizer,
};

/// Ids of a prompt and its completion. Only the completion is scored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The whole sequence: beginning-of-sequence id, prompt, completion, end-of-sequence id.
    pub ids: Vec<u32>,
    /// The first id that is scored, 1 or more: each scored id is predicted from those before it.
    pub target_start: usize,
}

/// Whether a sequence fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// All of it is there.
    Whole,
    /// The end of the completion was cut off.
    TargetCut,
    /// The prompt alone fills the length; nothing is left to learn.
    NothingScored,
}

impl Row {
    /// The sequence of an example, at most `max_len` ids of it, as the reference cuts it.
    pub fn encode(example: &Example, tokenizer: &Tokenizer, max_len: usize) -> (Self, Fit) {
        let mut ids = example.prompt().encode(tokenizer).ids;
        let target_start = ids.len();
        ids.extend(tokenizer.encode(&example.target()));
        ids.push(tokenizer.eos_id());
        let fit = match ids.len() {
            whole if whole <= max_len => Fit::Whole,
            _ if max_len <= target_start => Fit::NothingScored,
            _ => Fit::TargetCut,
        };
        ids.truncate(max_len);
        (Self { ids, target_start }, fit)
    }

    /// A sequence of which everything after the first id is scored, as in training from scratch.
    pub fn text(ids: Vec<u32>) -> Self {
        Self { ids, target_start: 1 }
    }

    /// How many ids are scored.
    pub fn scored(&self) -> usize {
        self.ids.len().saturating_sub(self.target_start)
    }

    pub(super) fn expect_usable(&self, vocabulary: usize) -> Result<()> {
        if self.target_start == 0 || self.scored() == 0 {
            let Self { ids, target_start } = self;
            return Err(Error::Unsupported(format!(
                "a row of {} ids whose completion begins at {target_start} has nothing to learn from",
                ids.len()
            )));
        }
        match self.ids.iter().find(|&&id| id as usize >= vocabulary) {
            Some(id) => Err(Error::Unsupported(format!(
                "token id {id} is outside the vocabulary of {vocabulary}"
            ))),
            None => Ok(()),
        }
    }
}

/// The sequence length for rows of which the longest has `longest` ids: rounded up to 128·2^k, at most `cap`.
pub fn sequence_length(longest: usize, cap: usize) -> usize {
    let mut length = 128;
    while length < longest.min(cap) {
        length *= 2;
    }
    length.min(cap)
}
