//! The grammar of completions: what it admits and refuses, random walks through it, and tools in all their spellings.
#![allow(clippy::unwrap_used)]

mod blowup;
mod budget;
mod completion;
mod containers;
mod forced;
mod generator;
mod random;
mod refuse;
mod scalars;
mod tokens;
mod tools;
mod vocabulary;

use needle_core::grammar::{Grammar, GrammarOptions, Matcher, Vocabulary};
use needle_core::{Error, ToolSet};
use serde_json::{Value, json};

/// One tool `t` whose only parameter `x` has this schema and is required.
fn one_parameter(schema: &Value) -> Result<ToolSet, Error> {
    with_parameters(&json!({ "type": "object", "properties": { "x": schema }, "required": ["x"] }))
}

/// One tool `t` with these parameters.
fn with_parameters(parameters: &Value) -> Result<ToolSet, Error> {
    ToolSet::from_json(&json!([{ "name": "t", "parameters": parameters }]))
}

/// The grammar of one tool for byte tokens.
fn compile(tools: &ToolSet) -> Result<Grammar, Error> {
    Grammar::compile(tools, vocabulary::bytes(), &GrammarOptions::default())
}

/// Whether `calls` is a whole array of calls, byte by byte; a refused byte leaves the matcher as it was.
fn admits(grammar: &Grammar, calls: &str) -> bool {
    let mut matcher = grammar.matcher();
    matcher.accept(grammar.vocabulary().markers().tool_call.0).unwrap();
    for byte in calls.bytes() {
        if matcher.accept(u32::from(byte)).is_err() {
            assert!(
                !matcher.mask().unwrap().is_allowed(u32::from(byte)),
                "accept and mask disagree in {calls}"
            );
            return false;
        }
    }
    matcher.accept(grammar.vocabulary().markers().tool_call.1).is_ok()
}

/// Whether `value` may stand as the argument `x`.
fn admits_value(grammar: &Grammar, value: &str) -> bool {
    admits(grammar, &format!(r#"[{{"name":"t","arguments":{{"x":{value}}}}}]"#))
}

/// Follows the ids; the position of the first that is refused, if any.
fn follow(matcher: &mut Matcher, ids: &[u32]) -> Option<usize> {
    ids.iter().position(|id| {
        let allowed = matcher.mask().unwrap().is_allowed(*id);
        let accepted = matcher.accept(*id).is_ok();
        assert_eq!(allowed, accepted, "mask and accept disagree about {id}");
        !accepted
    })
}

/// A small generator of numbers, the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// The vocabulary of the published tokenizer.
fn gen2() -> &'static Vocabulary {
    vocabulary::gen2()
}
