//! Follows one completion token by token.

use super::keys::KeyTracker;
use super::mask::TokenMask;
use super::{Grammar, Reasoning, Vocabulary, failure};
use crate::error::{Error, Result};

/// The part of the completion that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the reasoning or the calls.
    Preamble,
    /// Inside the reasoning block.
    Reasoning,
    /// Inside the calls.
    Calls,
    /// The calls are closed; the end marker is missing.
    End,
    /// The completion is complete.
    Done,
}

/// Where in the completion we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// At the very beginning.
    Start,
    /// Behind the space in front.
    Spaced,
    /// Inside the reasoning, with the bytes of a character that is not whole yet.
    Reasoning(Vec<u8>),
    /// Behind `</think>`.
    Reasoned,
    /// Behind `</think>` and a line break.
    ReasonedLine,
    /// Inside the array of calls.
    Calls,
    /// Behind the array of calls.
    Called,
    /// Behind `</tool_call>`.
    Closed,
    /// Behind `<|im_end|>`.
    Ended,
    /// Behind the end of the sequence.
    Done,
}

/// Follows one completion. Not to be shared between completions that run at the same time: ask the grammar for another.
pub struct Matcher {
    pub(super) grammar: Grammar,
    pub(super) stage: Stage,
    /// The parser of the calls; made when the calls begin.
    pub(super) parser: Option<llguidance::Matcher>,
    keys: Option<KeyTracker>,
    calls: Vec<u8>,
    mask: Option<TokenMask>,
}

impl std::fmt::Debug for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matcher")
            .field("stage", &self.stage)
            .field("calls", &self.calls_json())
            .finish_non_exhaustive()
    }
}

impl Matcher {
    pub(super) fn new(grammar: Grammar) -> Self {
        let keys = grammar.inner.open_keys.then(KeyTracker::default);
        Self {
            grammar,
            stage: Stage::Start,
            parser: None,
            keys,
            calls: Vec::new(),
            mask: None,
        }
    }

    /// Back to the beginning of a completion. What the matcher has learnt of the grammar is kept, so a matcher that is
    /// reset is faster than a new one.
    pub fn reset(&mut self) {
        let usable = self.parser.as_mut().is_some_and(|parser| parser.reset().is_ok());
        if !usable {
            self.parser = None;
        }
        self.keys = self.grammar.inner.open_keys.then(KeyTracker::default);
        self.stage = Stage::Start;
        self.calls.clear();
        self.mask = None;
    }

    /// The part of the completion that comes next.
    pub fn phase(&self) -> Phase {
        match self.stage {
            Stage::Start | Stage::Spaced | Stage::Reasoned | Stage::ReasonedLine => Phase::Preamble,
            Stage::Reasoning(_) => Phase::Reasoning,
            Stage::Calls | Stage::Called => Phase::Calls,
            Stage::Closed => Phase::End,
            Stage::Ended | Stage::Done => Phase::Done,
        }
    }

    /// Whether the completion is complete: calls closed, end marker seen. Nothing but the end of the sequence may follow.
    pub fn is_complete(&self) -> bool {
        matches!(self.stage, Stage::Ended | Stage::Done)
    }

    /// Whether the calls are closed, so that the completion could end here.
    pub fn is_accepting(&self) -> bool {
        matches!(self.stage, Stage::Closed | Stage::Ended | Stage::Done)
    }

    /// The JSON of the calls as far as it is written; whole from `</tool_call>` on.
    pub fn calls_json(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.calls)
    }

    /// The tokens that may come next. Behind the end of the sequence that is the end again.
    ///
    /// # Errors
    /// [`Error::Grammar`] where the engine's limits are exceeded; the completion cannot go on then.
    pub fn mask(&mut self) -> Result<&TokenMask> {
        let mask = match self.mask.take() {
            Some(mask) => mask,
            None => self.allowed()?,
        };
        Ok(self.mask.insert(mask))
    }

    fn allowed(&mut self) -> Result<TokenMask> {
        let inner = self.grammar.inner.clone();
        let vocabulary = &inner.vocabulary.inner;
        let markers = &vocabulary.markers;
        let of = |ids: &[Option<u32>]| TokenMask::of(vocabulary.tokens.len(), ids.iter().copied().flatten());
        let think = markers.think.filter(|_| inner.reasoning == Reasoning::Allowed);
        let (open, close) = (Some(markers.tool_call.0), Some(markers.tool_call.1));
        Ok(match &self.stage {
            Stage::Start => of(&[vocabulary.space, think.map(|(begin, _)| begin), open]),
            Stage::Spaced => of(&[think.map(|(begin, _)| begin), open]),
            Stage::Reasoning(pending) if pending.is_empty() => {
                let mut mask = vocabulary.text.clone();
                continuations(&inner.vocabulary, pending).for_each(|id| mask.allow(id));
                think.into_iter().for_each(|(_, end)| mask.allow(end));
                mask
            }
            Stage::Reasoning(pending) => {
                TokenMask::of(vocabulary.tokens.len(), continuations(&inner.vocabulary, pending))
            }
            Stage::Reasoned => of(&[vocabulary.newline, open]),
            Stage::ReasonedLine => of(&[open]),
            Stage::Calls => {
                let mut mask = TokenMask::new(self.parser()?.compute_mask().map_err(failure)?);
                mask.disallow(markers.eos);
                self.without_repeated_keys(&mut mask);
                mask
            }
            Stage::Called => of(&[close]),
            Stage::Closed => of(&[markers.im_end, Some(markers.eos)]),
            Stage::Ended | Stage::Done => of(&[Some(markers.eos)]),
        })
    }

    /// Goes on by one token.
    ///
    /// # Errors
    /// [`Error::Token`] for a token that may not come next; the matcher stays where it is and may be used on.
    /// [`Error::Grammar`] where the engine's limits are exceeded.
    pub fn accept(&mut self, token: u32) -> Result<()> {
        if !self.may_come(token)? {
            let place = match self.phase() {
                Phase::Preamble => "before the calls",
                Phase::Reasoning => "in the reasoning",
                Phase::Calls => "in the calls",
                Phase::End => "behind the calls",
                Phase::Done => "behind the end",
            };
            return Err(Error::Token { token, place });
        }
        let vocabulary = self.grammar.inner.vocabulary.clone();
        let (vocabulary, markers) = (&vocabulary.inner, &vocabulary.inner.markers);
        let bytes = vocabulary.tokens[token as usize].bytes.as_slice();
        self.mask = None;
        let next = match &mut self.stage {
            Stage::Start | Stage::Spaced | Stage::Reasoned | Stage::ReasonedLine if token == markers.tool_call.0 => {
                Stage::Calls
            }
            Stage::Start | Stage::Spaced if markers.think.is_some_and(|(begin, _)| begin == token) => {
                Stage::Reasoning(Vec::new())
            }
            Stage::Start | Stage::Spaced => Stage::Spaced,
            Stage::Reasoning(_) if markers.think.is_some_and(|(_, end)| end == token) => Stage::Reasoned,
            Stage::Reasoning(pending) => {
                pending.extend_from_slice(bytes);
                if std::str::from_utf8(pending).is_ok() {
                    pending.clear();
                }
                return Ok(());
            }
            Stage::Reasoned | Stage::ReasonedLine => Stage::ReasonedLine,
            Stage::Calls => {
                let parser = self.parser()?;
                parser.consume_token(token).map_err(failure)?;
                let closed = parser.is_stopped() || parser.is_accepting().map_err(failure)?;
                self.calls.extend_from_slice(bytes);
                if let Some(keys) = &mut self.keys {
                    keys.advance(bytes)
                        .map_err(|_| Error::Grammar("a key is repeated".into()))?;
                }
                if closed { Stage::Called } else { Stage::Calls }
            }
            Stage::Called => Stage::Closed,
            Stage::Closed if Some(token) == markers.im_end => Stage::Ended,
            Stage::Closed | Stage::Ended | Stage::Done => Stage::Done,
        };
        self.stage = next;
        Ok(())
    }

    /// Whether the token may come next; cheaper than a whole mask where there is none yet.
    fn may_come(&mut self, token: u32) -> Result<bool> {
        if self.mask.is_some() || self.stage != Stage::Calls {
            return Ok(self.mask()?.is_allowed(token));
        }
        let vocabulary = self.grammar.inner.vocabulary.clone();
        let Some(known) = vocabulary.token(token).filter(|_| token != vocabulary.markers().eos) else {
            return Ok(false);
        };
        let fits = self.parser()?.validate_tokens(&[token]).map_err(failure)? == 1;
        Ok(fits && !self.repeats_key(&known.bytes))
    }

    pub(super) fn parser(&mut self) -> Result<&mut llguidance::Matcher> {
        let start = &self.grammar.inner.start;
        let parser = self.parser.get_or_insert_with(|| start.deep_clone());
        match parser.get_error() {
            Some(error) => Err(Error::Grammar(error)),
            None => Ok(parser),
        }
    }

    /// Whether `bytes` would end a key that its object has already. With no key behind us that takes two keys in one token.
    fn repeats_key(&self, bytes: &[u8]) -> bool {
        let quotes = bytes.iter().filter(|byte| **byte == b'"').count();
        let tracker = self
            .keys
            .as_ref()
            .filter(|keys| quotes >= if keys.has_keys() { 1 } else { 4 });
        tracker.is_some_and(|keys| keys.clone().advance(bytes).is_err())
    }

    fn without_repeated_keys(&self, mask: &mut TokenMask) {
        if self.keys.is_none() {
            return;
        }
        let vocabulary = &self.grammar.inner.vocabulary.inner;
        for id in &vocabulary.quotes {
            if mask.is_allowed(*id) && self.repeats_key(&vocabulary.tokens[*id as usize].bytes) {
                mask.disallow(*id);
            }
        }
    }
}

/// The tokens of parts of a character that may follow the part `pending`.
fn continuations<'a>(vocabulary: &'a Vocabulary, pending: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
    let inner = &vocabulary.inner;
    inner.fragments.iter().copied().filter(move |id| {
        let text = [pending, &inner.tokens[*id as usize].bytes].concat();
        std::str::from_utf8(&text).map_or_else(|error| error.error_len().is_none(), |_| true)
    })
}
