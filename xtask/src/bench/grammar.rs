//! What a grammar costs: compiling twenty tools, a mask and a step per token, a forced stretch.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use needle_core::grammar::{Grammar, GrammarOptions, Token, TokenKind, Vocabulary};
use needle_core::{Tool, ToolSet};
use serde_json::json;

/// Tools of the measurement.
const TOOLS: usize = 20;
/// Compilations and walks.
const RUNS: usize = 200;
/// Most tokens of one walk.
const LONGEST: usize = 200;

/// Measures on `vocabulary` and prints a table. The targets are medians: 20 ms to compile, 50 µs a token.
pub(crate) fn run(vocabulary: &Vocabulary) -> Result<()> {
    println!(
        "{} tokens in the vocabulary, {TOOLS} tools, {RUNS} runs",
        vocabulary.len()
    );
    println!("{:<44} {:>10} {:>10} {:>10}", "", "median", "99 %", "most");
    let read = sample(RUNS, || tools().map(drop))?;
    show("read and check the schemas", &read);
    let set = tools()?;
    let compile = sample(RUNS, || {
        Ok(Grammar::compile(&set, vocabulary, &GrammarOptions::default()).map(drop)?)
    })?;
    show("compile", &compile);
    let grammar = Grammar::compile(&set, vocabulary, &GrammarOptions::default())?;
    let fresh = sample(RUNS, || {
        let mut matcher = grammar.matcher();
        matcher.accept(vocabulary.markers().tool_call.0)?;
        matcher.mask()?;
        Ok(())
    })?;
    show("a new matcher and its first mask", &fresh);
    for (kind, reuse) in [("new matcher each", Reuse::New), ("one matcher, reset", Reuse::Reset)] {
        for (source, walk) in [("written calls", Walk::Written), ("random walks", Walk::Random)] {
            let (masks, steps, tokens) = walks(&grammar, reuse, walk)?;
            show(&format!("mask, {source}, {kind}"), &masks);
            show(&format!("step, {source}, {kind}"), &steps);
            show(&format!("mask and step, {source}, {kind}"), &tokens);
        }
    }
    forced(&grammar)
}

#[derive(Clone, Copy)]
enum Reuse {
    New,
    Reset,
}

#[derive(Clone, Copy)]
enum Walk {
    /// Calls as a model would write them.
    Written,
    /// Any allowed token.
    Random,
}

type Times = Vec<Duration>;

/// Walks through the calls; the times of all masks, of all steps, and of both together.
fn walks(grammar: &Grammar, reuse: Reuse, walk: Walk) -> Result<(Times, Times, Times)> {
    let vocabulary = grammar.vocabulary();
    let spelling = Spelling::new(vocabulary);
    let (mut masks, mut steps, mut both) = (Vec::new(), Vec::new(), Vec::new());
    let mut matcher = grammar.matcher();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for run in 0..RUNS {
        match reuse {
            Reuse::New => matcher = grammar.matcher(),
            Reuse::Reset => matcher.reset(),
        }
        matcher.accept(vocabulary.markers().tool_call.0)?;
        let mut written = spelling.tokens(&call(run)).into_iter();
        for _ in 0..LONGEST {
            let start = Instant::now();
            let mask = matcher.mask()?;
            let mask_time = start.elapsed();
            let next = match walk {
                Walk::Written => written.next(),
                Walk::Random => {
                    let open: Vec<u32> = mask.iter().collect();
                    ensure!(!open.is_empty(), "a dead end");
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    Some(open[(state >> 8) as usize % open.len()])
                }
            };
            let Some(next) = next else { break };
            let start = Instant::now();
            matcher.accept(next)?;
            let step_time = start.elapsed();
            masks.push(mask_time);
            steps.push(step_time);
            both.push(mask_time + step_time);
            if matcher.is_complete() {
                break;
            }
        }
    }
    Ok((masks, steps, both))
}

/// How many tokens of the written calls the grammar forces, and what asking for them costs.
fn forced(grammar: &Grammar) -> Result<()> {
    let spelling = Spelling::new(grammar.vocabulary());
    let (mut times, mut fed, mut asked) = (Vec::new(), 0, 0);
    let mut matcher = grammar.matcher();
    for run in 0..RUNS {
        matcher.reset();
        matcher.accept(grammar.vocabulary().markers().tool_call.0)?;
        let text = call(run);
        loop {
            let start = Instant::now();
            let tokens = matcher.forced(|text| spelling.tokens(text))?;
            times.push(start.elapsed());
            let rest = text.get(matcher.calls_json().len()..).unwrap_or_default();
            let next = if tokens.is_empty() {
                spelling.tokens(rest).into_iter().take(1).collect()
            } else {
                tokens.clone()
            };
            if rest.is_empty() || next.is_empty() {
                break;
            }
            fed += tokens.len();
            asked += usize::from(tokens.is_empty());
            next.into_iter().try_for_each(|token| matcher.accept(token))?;
        }
    }
    show("a forced stretch", &times);
    println!("of the written calls {fed} tokens are forced and {asked} are asked for");
    Ok(())
}

/// A call as a model would write it.
fn call(run: usize) -> String {
    let name = name(run % TOOLS);
    format!(
        "[{{\"name\":\"{name}\",\"arguments\":{{\"place\":\"the kitchen in Köln\",\"unit\":\"left half\",\"level\":{},\"share\":0.75,\
         \"day\":\"2024-02-29\",\"code\":\"AB-123\",\"note\":\"bring the ladder\",\"people\":[{{\"name\":\"Ann\",\"mail\":\"ann@example.org\"}}]}}}}]",
        run % 90
    )
}

/// The longest tokens from the left.
struct Spelling(HashMap<Vec<u8>, u32>);

impl Spelling {
    fn new(vocabulary: &Vocabulary) -> Self {
        let text = |id: &u32| {
            matches!(
                vocabulary.token(*id),
                Some(Token {
                    kind: TokenKind::Normal | TokenKind::Byte,
                    ..
                })
            )
        };
        // Pieces come after the bytes and win over them.
        let ids = (0..vocabulary.len() as u32).filter(text);
        Self(
            ids.filter_map(|id| Some((vocabulary.token(id)?.bytes.clone(), id)))
                .collect(),
        )
    }

    fn tokens(&self, text: &str) -> Vec<u32> {
        let (mut rest, mut ids) = (text.as_bytes(), Vec::new());
        while let Some((length, id)) = (1..=rest.len().min(32))
            .rev()
            .find_map(|n| Some((n, *self.0.get(&rest[..n])?)))
        {
            ids.push(id);
            rest = &rest[length..];
        }
        ids
    }
}

fn sample(runs: usize, mut subject: impl FnMut() -> Result<()>) -> Result<Times> {
    let time = |_| {
        let start = Instant::now();
        subject()?;
        Ok(start.elapsed())
    };
    (0..runs).map(time).collect()
}

fn show(name: &str, times: &[Duration]) {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    println!(
        "{name:<44} {:>7.1} µs {:>7.1} µs {:>7.1} µs",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn name(i: usize) -> String {
    format!("{}_{i}", ["set_lamp", "get_weather", "send_mail", "find_place"][i % 4])
}

/// Twenty tools with every kind of parameter.
fn tools() -> Result<ToolSet> {
    let tool = |i: usize| {
        Tool::new(name(i), "One of twenty tools.")
            .string("place", "where")
            .enumeration("unit", "which unit", ["metric", "imperial", "left half", "right half"])
            .optional()
            .integer("level", "how much")
            .keyword("minimum", 0)
            .keyword("maximum", 100 + i)
            .optional()
            .parameter("share", json!({ "type": "number", "minimum": 0, "maximum": 1 }))
            .optional()
            .parameter("day", json!({ "type": "string", "format": "date" }))
            .optional()
            .parameter("code", json!({ "type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$" }))
            .optional()
            .parameter("note", json!({ "type": "string", "maxLength": 80 }))
            .optional()
            .array("people", "who", json!({ "type": "object", "properties": { "name": { "type": "string" }, "mail": { "type": "string", "format": "email" } }, "required": ["name"] }))
            .optional()
    };
    Ok(ToolSet::new((0..TOOLS).map(tool))?)
}
