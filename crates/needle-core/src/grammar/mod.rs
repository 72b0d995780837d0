//! Completions that cannot be wrong in form: a [`ToolSet`] compiles once to a [`Grammar`]; a [`Matcher`] follows one
//! completion, says which tokens may come next and which must.
//!
//! The language of a completion, `[…]` optional, markers as single tokens:
//! ```text
//! [space] [<think> text without markers </think> [newline]] <tool_call> calls </tool_call> <|im_end|> or end
//! calls = compact JSON: [] or [{"name":…,"arguments":{…}},…]
//! ```
//! The space in front is the piece that encoding a completion on its own yields. Names are those of the tools offered,
//! arguments satisfy their schema, keys come in declared order (see [`crate::schema`] for what is honoured and how).
//!
//! The array of calls is matched by llguidance; markers, reasoning and the end by a small machine of our own.

mod bridge;
mod compile;
mod culprit;
mod forced;
mod format;
mod keys;
mod lexeme;
mod mask;
mod matcher;
mod members;
mod numeral;
mod rules;
mod vocabulary;

pub use mask::TokenMask;
pub use matcher::{Matcher, Phase};
pub use vocabulary::{Markers, Token, TokenKind, Vocabulary};

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::tool::ToolSet;

/// What a completion may hold beyond what its tools say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrammarOptions {
    /// The fewest calls; 0 lets the model refuse with an empty list.
    pub fewest_calls: usize,
    /// The most calls, if there is a limit.
    pub most_calls: Option<usize>,
    /// The tools that may be called, if not all of them.
    pub names: Option<Vec<String>>,
    /// Whether a reasoning block may come first.
    pub reasoning: Reasoning,
}

/// Whether a reasoning block may come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reasoning {
    /// The model may reason before it calls.
    #[default]
    Allowed,
    /// The completion begins with the call.
    Forbidden,
}

impl Default for GrammarOptions {
    fn default() -> Self {
        Self {
            fewest_calls: 0,
            most_calls: None,
            names: None,
            reasoning: Reasoning::Allowed,
        }
    }
}

/// A compiled grammar. Cloning is cheap; any number of matchers may follow it at once.
#[derive(Clone)]
pub struct Grammar {
    inner: Arc<Inner>,
}

struct Inner {
    vocabulary: Vocabulary,
    /// The parser of the calls before its first token; every matcher works on a copy.
    start: llguidance::Matcher,
    reasoning: Reasoning,
    open_keys: bool,
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammar")
            .field("vocabulary", &self.inner.vocabulary)
            .finish_non_exhaustive()
    }
}

impl Grammar {
    /// Compiles the calls of `tools` for a vocabulary.
    ///
    /// # Errors
    /// [`Error::Schema`] for a schema that only shows here that it cannot be honoured (a pattern that nothing matches, a
    /// list of distinct values that is too long), [`Error::Tools`] for options that name no tool or contradict themselves,
    /// [`Error::Grammar`] where the whole is too large.
    pub fn compile(tools: &ToolSet, vocabulary: &Vocabulary, options: &GrammarOptions) -> Result<Self> {
        if let Some(unknown) = options.names.iter().flatten().find(|name| tools.find(name).is_none()) {
            return Err(Error::Tools(format!("there is no tool {unknown:?} to choose")));
        }
        let offered = |name: &str| {
            options
                .names
                .as_ref()
                .is_none_or(|names| names.iter().any(|chosen| chosen == name))
        };
        let chosen: Vec<_> = tools
            .with_arguments()
            .filter(|(tool, _)| offered(tool.name()))
            .collect();
        let compiled = compile::calls(chosen.iter().copied(), options)?;
        let parser = vocabulary.inner.factory.create_parser_from_init_default(compiled.init);
        let start = llguidance::Matcher::new(parser);
        if let Some(error) = start.get_error() {
            return Err(culprit::find(&chosen, vocabulary, error));
        }
        Ok(Self {
            inner: Arc::new(Inner {
                vocabulary: vocabulary.clone(),
                start,
                reasoning: options.reasoning,
                open_keys: compiled.open_keys,
            }),
        })
    }

    /// A matcher at the beginning of a completion.
    pub fn matcher(&self) -> Matcher {
        Matcher::new(self.clone())
    }

    /// The vocabulary that the grammar was compiled for.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.inner.vocabulary
    }
}

/// The engine's errors, in words.
fn failure(error: impl std::fmt::Display) -> Error {
    Error::Grammar(error.to_string())
}
