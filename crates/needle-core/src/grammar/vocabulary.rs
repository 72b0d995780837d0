//! A tokenizer's vocabulary as the grammar sees it: the bytes of every text token, the ids of the markers.
//!
//! Markers are matched as tokens and never spelt out of text, so only text tokens are in the trie. A byte token whose
//! byte another token spells as well is left out: encoding never yields it, and two spellings would be two answers.

use std::sync::Arc;

use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use super::failure;
use super::mask::TokenMask;
use crate::error::{Error, Result};

/// The longest token that the trie holds.
const LONGEST_TOKEN_BYTES: usize = 1024;

/// The bytes of all tokens that the trie holds.
const LARGEST_BYTES: usize = 4_000_000;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A piece of text.
    Normal,
    /// One byte, for text that no piece covers.
    Byte,
    /// A control token such as the end; it stands for no text.
    Control,
    /// A marker such as `<tool_call>`.
    Marker,
    /// The unknown token.
    Unknown,
}

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its bytes inside running text; markers by their spelling. Not used for control tokens.
    pub bytes: Vec<u8>,
    /// What it is.
    pub kind: TokenKind,
}

/// The ids of the markers that a completion is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Markers {
    /// `<think>` and `</think>`, where the vocabulary has them.
    pub think: Option<(u32, u32)>,
    /// `<tool_call>` and `</tool_call>`.
    pub tool_call: (u32, u32),
    /// `<|im_end|>`, where the vocabulary has it.
    pub im_end: Option<u32>,
    /// The end of the sequence.
    pub eos: u32,
}

/// A vocabulary, made ready for grammars once and shared by all of them. Cloning is cheap.
#[derive(Clone)]
pub struct Vocabulary {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) tokens: Vec<Token>,
    pub(super) markers: Markers,
    pub(super) factory: ParserFactory,
    pub(super) trie: TokEnv,
    /// Tokens of whole characters, which may stand anywhere in free text.
    pub(super) text: TokenMask,
    /// Tokens that hold parts of a character.
    pub(super) fragments: Vec<u32>,
    /// The lone space in front, which encoding a completion on its own yields.
    pub(super) space: Option<u32>,
    /// The lone line break.
    pub(super) newline: Option<u32>,
    /// Tokens that contain a quotation mark.
    pub(super) quotes: Vec<u32>,
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vocabulary")
            .field("tokens", &self.len())
            .field("markers", &self.inner.markers)
            .finish_non_exhaustive()
    }
}

impl Vocabulary {
    /// Makes `tokens`, in the order of their ids, ready. Costs tens of milliseconds for thousands of tokens.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] for a marker outside the vocabulary, a token longer than 1,024 bytes, or more than 4 MB of tokens.
    pub fn new(tokens: Vec<Token>, markers: Markers) -> Result<Self> {
        let count = tokens.len();
        let ids = [markers.tool_call.0, markers.tool_call.1, markers.eos];
        let ids = ids
            .into_iter()
            .chain(markers.im_end)
            .chain(markers.think.into_iter().flat_map(|(open, close)| [open, close]));
        for id in ids {
            if id as usize >= count {
                return Err(Error::Tokenizer(format!(
                    "marker {id} is outside the vocabulary of {count} tokens"
                )));
            }
        }
        if let Some(id) = tokens.iter().position(|token| token.bytes.len() > LONGEST_TOKEN_BYTES) {
            let found = tokens[id].bytes.len();
            return Err(Error::Tokenizer(format!(
                "token {id} has {found} bytes, at most {LONGEST_TOKEN_BYTES} can be matched"
            )));
        }
        let total: usize = tokens.iter().map(|token| token.bytes.len()).sum();
        if total > LARGEST_BYTES {
            let reason = format!("the tokens have {total} bytes in all, at most {LARGEST_BYTES} can be matched");
            return Err(Error::Tokenizer(reason));
        }
        let words = words(&tokens);
        let info = TokRxInfo::new(count as u32, markers.eos);
        let trie: TokEnv = Arc::new(Trie(TokTrie::from(&info, &words)));
        let mut factory = ParserFactory::new(
            &trie,
            InferenceCapabilities::default(),
            &SlicedBiasComputer::general_slices(),
        )
        .map_err(failure)?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        limits.initial_lexer_fuel = 20_000_000;
        limits.step_lexer_fuel = 2_000_000;
        limits.step_max_items = 500_000;
        let mut text = SimpleVob::alloc(count);
        let mut fragments = Vec::new();
        for (id, word) in words.iter().enumerate().filter(|(_, word)| is_text(word)) {
            match std::str::from_utf8(word) {
                Ok(_) => text.allow_token(id as u32),
                Err(_) => fragments.push(id as u32),
            }
        }
        let find = |bytes: &[u8]| words.iter().position(|word| word == bytes).map(|id| id as u32);
        let quotes = words
            .iter()
            .enumerate()
            .filter(|(_, word)| is_text(word) && word.contains(&b'"'))
            .map(|(id, _)| id as u32);
        let inner = Inner {
            text: TokenMask::new(text),
            fragments,
            space: find(b" "),
            newline: find(b"\n"),
            quotes: quotes.collect(),
            tokens,
            markers,
            factory,
            trie,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.inner.tokens.len()
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.inner.tokens.is_empty()
    }

    /// The token of an id.
    pub fn token(&self, id: u32) -> Option<&Token> {
        self.inner.tokens.get(id as usize)
    }

    /// The ids of the markers.
    pub fn markers(&self) -> &Markers {
        &self.inner.markers
    }
}

/// The bytes that the trie matches: text as it is, all else behind a byte that no text contains.
fn words(tokens: &[Token]) -> Vec<Vec<u8>> {
    let mut first: std::collections::HashMap<&[u8], usize> = std::collections::HashMap::new();
    for wanted in [TokenKind::Normal, TokenKind::Byte] {
        for (id, token) in tokens
            .iter()
            .enumerate()
            .filter(|(_, token)| token.kind == wanted && !token.bytes.is_empty())
        {
            first.entry(&token.bytes).or_insert(id);
        }
    }
    let spelt = |id: usize, token: &Token| first.get(token.bytes.as_slice()) == Some(&id);
    let hidden = |id: usize| [&[TokTrie::SPECIAL_TOKEN_MARKER], format!("<{id}>").as_bytes()].concat();
    let word = |(id, token): (usize, &Token)| {
        if spelt(id, token) {
            token.bytes.clone()
        } else {
            hidden(id)
        }
    };
    tokens.iter().enumerate().map(word).collect()
}

fn is_text(word: &[u8]) -> bool {
    word.first() != Some(&TokTrie::SPECIAL_TOKEN_MARKER)
}

struct Trie(TokTrie);

impl TokenizerEnv for Trie {
    fn tok_trie(&self) -> &TokTrie {
        &self.0
    }

    fn tokenize_bytes(&self, text: &[u8]) -> Vec<TokenId> {
        self.0.greedy_tokenize(text)
    }

    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}
