//! Stretches that the grammar leaves no choice about: keys, punctuation, names once decided. They can be fed to the model
//! in one go, without asking it.

use super::matcher::{Matcher, Stage};
use crate::error::Result;

impl Matcher {
    /// The tokens that must come next, none where the model has a choice. The matcher stays where it is: accept them one
    /// by one once they are fed.
    ///
    /// `encode` is the tokenizer on a piece of running text, without the space it may put in front and without markers.
    /// The text that must come is cut where the tokenizer would cut it, and tokens at its end are left to the model as
    /// soon as a longer token could begin there: it is the model's choice then how the text goes on. Where `encode` does
    /// not spell the text, nothing is forced.
    ///
    /// # Errors
    /// [`crate::Error::Grammar`] where the engine's limits are exceeded.
    pub fn forced(&mut self, encode: impl FnOnce(&str) -> Vec<u32>) -> Result<Vec<u32>> {
        if self.stage != Stage::Calls {
            return Ok(self
                .mask()?
                .single()
                .filter(|_| !self.is_complete())
                .into_iter()
                .collect());
        }
        let bytes = self.forced_bytes()?;
        let valid = std::str::from_utf8(&bytes).map_or_else(|error| error.valid_up_to(), str::len);
        let Ok(text) = std::str::from_utf8(&bytes[..valid]) else {
            return Ok(Vec::new());
        };
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let mut tokens = encode(text);
        if !self.spells(&tokens, text.as_bytes()) {
            return Ok(Vec::new());
        }
        self.leave_open_end(&mut tokens, &bytes);
        let fits = self.parser()?.validate_tokens(&tokens).map_err(super::failure)?;
        tokens.truncate(fits);
        Ok(tokens)
    }

    /// The bytes that must come next inside the calls; empty elsewhere, and where there is a choice.
    ///
    /// # Errors
    /// [`crate::Error::Grammar`] where the engine's limits are exceeded.
    pub fn forced_bytes(&mut self) -> Result<Vec<u8>> {
        if self.stage != Stage::Calls {
            return Ok(Vec::new());
        }
        Ok(self.parser()?.compute_ff_bytes())
    }

    /// Whether `tokens` are the text, cut into tokens.
    fn spells(&self, tokens: &[u32], text: &[u8]) -> bool {
        let vocabulary = self.grammar.vocabulary();
        let bytes = |id: &u32| vocabulary.token(*id).map_or(&[][..], |token| &token.bytes);
        tokens.iter().flat_map(bytes).eq(text)
    }

    /// Drops the tokens from the first one on at which a token could begin that reaches beyond `text`.
    fn leave_open_end(&self, tokens: &mut Vec<u32>, text: &[u8]) {
        let vocabulary = self.grammar.vocabulary();
        let trie = vocabulary.inner.trie.tok_trie();
        let mut start = 0;
        for (count, id) in tokens.iter().enumerate() {
            let rest = &text[start..];
            if rest.len() < trie.max_token_len() && trie.has_extensions(rest) {
                return tokens.truncate(count);
            }
            start += vocabulary.token(*id).map_or(0, |token| token.bytes.len());
        }
    }
}
