//! How far two forms of one model agree: the same rows through both, and what each answers.
//!
//! Made for an archive beside the float model that it was packed from. Both decode greedily along the grammar; then both read
//! the first one's answer, and their logits are compared token by token.

use std::sync::Arc;

use crate::{
    decode::{Constraint, DecodeOptions, Flow, generate_within},
    engine::Engine,
    error::Result,
    grammar::{Grammar, GrammarOptions},
    model::Window,
    prompt::{Example, Prompt},
    tool::ToolSet,
};

/// Two engines side by side.
#[derive(Debug)]
pub struct Comparison {
    engines: [Arc<Engine>; 2],
    /// The grammar of the last row's tools, and their text.
    grammar: Option<(String, Grammar)>,
}

/// What the two answered to one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// The first one's completion.
    pub first: String,
    /// The second one's.
    pub second: String,
    /// The largest difference of a logit, along the first one's completion.
    pub largest_deviation: f32,
}

impl Answers {
    /// Whether both answered the same.
    pub fn are_equal(&self) -> bool {
        self.first == self.second
    }
}

impl Comparison {
    /// The model to hold up, and the one to hold against it. They must share their tokenizer.
    pub fn new(first: &Arc<Engine>, second: &Arc<Engine>) -> Self {
        Self {
            engines: [first.clone(), second.clone()],
            grammar: None,
        }
    }

    /// Lets both answer a row; the row's own answer is not looked at.
    ///
    /// # Errors
    /// [`Error::Tools`](crate::Error::Tools) and [`Error::Schema`](crate::Error::Schema) for the row's tools,
    /// [`Error::PromptTooLong`](crate::Error::PromptTooLong) for a row that leaves no room.
    pub fn answers(&mut self, row: &Example) -> Result<Answers> {
        let grammar = self.grammar_for(&row.tools)?;
        let prompt = Prompt {
            system: row.system.as_deref(),
            tools: &row.tools,
            query: &row.query,
        };
        let [first, second] = &self.engines;
        let prompt = prompt.render().encode(first.tokenizer()).ids;
        let (first_ids, second_ids) = (
            completion(first, &grammar, &prompt)?,
            completion(second, &grammar, &prompt)?,
        );
        let (held_up, held_against) = (
            logits(first, &prompt, &first_ids)?,
            logits(second, &prompt, &first_ids)?,
        );
        let deviations = held_up.iter().flatten().zip(held_against.iter().flatten());
        Ok(Answers {
            largest_deviation: deviations.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max),
            first: first.tokenizer().decode(&first_ids),
            second: second.tokenizer().decode(&second_ids),
        })
    }

    fn grammar_for(&mut self, tools: &str) -> Result<Grammar> {
        if let Some((text, grammar)) = &self.grammar
            && text == tools
        {
            return Ok(grammar.clone());
        }
        let vocabulary = self.engines[0].vocabulary()?;
        let grammar = Grammar::compile(&ToolSet::parse(tools)?, vocabulary, &GrammarOptions::default())?;
        self.grammar = Some((tools.to_owned(), grammar.clone()));
        Ok(grammar)
    }
}

fn window(engine: &Engine) -> Window {
    Window {
        size: engine.runner().config().effective_kv_window(),
        sinks: 0,
    }
}

fn completion(engine: &Engine, grammar: &Grammar, prompt: &[u32]) -> Result<Vec<u32>> {
    let mut matcher = grammar.matcher();
    let encode = |text: &str| engine.tokenizer().encode_continuation(text);
    let constraint = Constraint {
        matcher: &mut matcher,
        encode: &encode,
    };
    let mut session = engine.runner().session(window(engine))?;
    let options = DecodeOptions::until(&engine.end_ids());
    Ok(generate_within(&mut session, prompt, &options, constraint, |_| Flow::Continue)?.ids)
}

/// The logits from which each of `ids` was picked.
fn logits(engine: &Engine, prompt: &[u32], ids: &[u32]) -> Result<Vec<Vec<f32>>> {
    let mut session = engine.runner().session(window(engine))?;
    let mut rows = vec![session.extend(prompt)?];
    if let [before @ .., _] = ids
        && !before.is_empty()
    {
        rows.extend(session.extend_all(before)?);
    }
    Ok(rows)
}
