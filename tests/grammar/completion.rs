//! Whole completions: markers, reasoning, the end, options, and the targets of the reference's own training data.

use needle_core::grammar::{Grammar, GrammarOptions, Phase, Reasoning};
use needle_core::{Error, ToolSet};
use serde_json::Value;

use super::vocabulary::{self, longest_match};
use super::{follow, gen2};

const TOOLS: &str = r#"[{"name":"ping"},{"name":"set","parameters":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}]"#;

fn with(options: &GrammarOptions) -> Grammar {
    Grammar::compile(&ToolSet::parse(TOOLS).unwrap(), gen2(), options).unwrap()
}

/// `parts` as ids: markers by name, everything else as text.
fn ids(parts: &[&str]) -> Vec<u32> {
    let marker = |part: &str| match part {
        "<think>" => Some(6),
        "</think>" => Some(7),
        "<tool_call>" => Some(10),
        "</tool_call>" => Some(11),
        "<|im_end|>" => Some(5),
        "</s>" => Some(1),
        _ => None,
    };
    parts
        .iter()
        .flat_map(|part| marker(part).map_or_else(|| longest_match(gen2(), part.as_bytes()), |id| vec![id]))
        .collect()
}

fn fits(grammar: &Grammar, parts: &[&str]) -> bool {
    let mut matcher = grammar.matcher();
    follow(&mut matcher, &ids(parts)).is_none() && matcher.is_complete()
}

#[test]
fn the_parts_of_a_completion() {
    let grammar = with(&GrammarOptions::default());
    let call = r#"[{"name":"ping","arguments":{}}]"#;
    let (open, close, end) = ("<tool_call>", "</tool_call>", "<|im_end|>");
    for good in [
        &[open, call, close, end][..],
        &[open, call, close, end, "</s>"],
        &[open, call, close, "</s>"],
        &[" ", open, call, close, end],
        &[open, "[]", close, end],
        &[
            "<think>",
            "\nKöln → city 日\n",
            "</think>",
            "\n",
            open,
            call,
            close,
            end,
        ],
        &[" ", "<think>", "a", "</think>", open, call, close, end],
        &["<think>", "</think>", open, "[]", close, end],
    ] {
        assert!(fits(&grammar, good), "{good:?}");
    }
    for bad in [
        &[call][..],
        &[" ", " ", open, call, close, end],
        &["\n", open, call, close, end],
        &[open, open, call, close, end],
        &[open, "\n", call, close, end],
        &[open, call, " ", close, end],
        &[open, call, close, close],
        &["<think>", "<think>", "</think>", open, call, close, end],
        &[
            "<think>", "a", "</think>", "<think>", "</think>", open, call, close, end,
        ],
        &["<think>", "a", "</think>", "\n", "\n", open, call, close, end],
        &["<think>", "a", "</s>"],
        &["<think>", "a", end],
        &[open, r#"[{"name":"pong","arguments":{}}]"#, close, end],
        &[open, r#"[{"name":"set","arguments":{}}]"#, close, end],
        &[open, r#"[{"arguments":{},"name":"ping"}]"#, close, end],
        &[open, r#"{"name":"ping","arguments":{}}"#, close, end],
        &[open, "null", close, end],
    ] {
        assert!(!fits(&grammar, bad), "{bad:?}");
    }
}

/// A marker spelt out of text is text: it opens no call, and its token stands in no string.
#[test]
fn markers_are_tokens() {
    let grammar = with(&GrammarOptions::default());
    let mut matcher = grammar.matcher();
    let spelt: Vec<u32> = "<tool_call>"
        .bytes()
        .flat_map(|byte| longest_match(gen2(), &[byte]))
        .collect();
    assert_eq!(follow(&mut matcher, &spelt), Some(0));
    let tools =
        ToolSet::parse(r#"[{"name":"say","parameters":{"type":"object","properties":{"t":{"type":"string"}}}}]"#)
            .unwrap();
    let grammar = Grammar::compile(&tools, gen2(), &GrammarOptions::default()).unwrap();
    let mut inside = ids(&["<tool_call>", r#"[{"name":"say","arguments":{"t":""#]);
    let start = inside.len();
    inside.extend_from_slice(&spelt);
    inside.extend(ids(&[r#""}}]"#, "</tool_call>", "<|im_end|>"]));
    assert_eq!(follow(&mut grammar.matcher(), &inside), None);
    inside[start] = 10;
    assert_eq!(follow(&mut grammar.matcher(), &inside), Some(start));
}

#[test]
fn phases_and_reset() {
    let grammar = with(&GrammarOptions::default());
    let mut matcher = grammar.matcher();
    for _ in 0..3 {
        let mut phases = vec![matcher.phase()];
        for id in ids(&[
            "<think>",
            "a",
            "</think>",
            "\n",
            "<tool_call>",
            "[]",
            "</tool_call>",
            "<|im_end|>",
        ]) {
            assert!(!matcher.is_complete());
            matcher.accept(id).unwrap();
            phases.push(matcher.phase());
        }
        phases.dedup();
        assert_eq!(
            phases,
            [
                Phase::Preamble,
                Phase::Reasoning,
                Phase::Preamble,
                Phase::Calls,
                Phase::End,
                Phase::Done
            ]
        );
        assert!(matcher.is_complete() && matcher.is_accepting());
        assert_eq!(matcher.calls_json(), "[]");
        assert_eq!(matcher.mask().unwrap().iter().collect::<Vec<_>>(), [1]);
        matcher.reset();
    }
}

#[test]
fn a_refused_token_changes_nothing() {
    let grammar = with(&GrammarOptions::default());
    let mut matcher = grammar.matcher();
    for id in ids(&[
        " ",
        "<tool_call>",
        r#"[{"name":"set","arguments":{"n":12}}]"#,
        "</tool_call>",
        "<|im_end|>",
    ]) {
        for wrong in [0, 2, 3, 4, 6 + 2, 99_999] {
            let error = matcher.accept(wrong).unwrap_err();
            assert!(matches!(error, Error::Token { token, .. } if token == wrong), "{error}");
        }
        matcher.accept(id).unwrap();
    }
    assert!(matcher.is_complete());
}

#[test]
fn options_narrow_the_language() {
    let call = r#"{"name":"ping","arguments":{}}"#;
    let completion = |count: usize| format!("[{}]", vec![call; count].join(","));
    for (least, most) in [(1, None), (0, Some(2)), (2, Some(3)), (0, Some(0)), (1, Some(1))] {
        let grammar = with(&GrammarOptions {
            fewest_calls: least,
            most_calls: most,
            ..GrammarOptions::default()
        });
        for count in 0..5 {
            let fitting = count >= least && most.is_none_or(|most| count <= most);
            assert_eq!(
                fits(&grammar, &["<tool_call>", &completion(count), "</tool_call>", "</s>"]),
                fitting,
                "{count} {least} {most:?}"
            );
        }
    }
    let grammar = with(&GrammarOptions {
        names: Some(vec!["set".into()]),
        reasoning: Reasoning::Forbidden,
        ..GrammarOptions::default()
    });
    assert!(fits(
        &grammar,
        &[
            "<tool_call>",
            r#"[{"name":"set","arguments":{"n":1}}]"#,
            "</tool_call>",
            "</s>"
        ]
    ));
    assert!(!fits(
        &grammar,
        &["<tool_call>", &completion(1), "</tool_call>", "</s>"]
    ));
    assert!(!fits(
        &grammar,
        &["<think>", "</think>", "<tool_call>", "[]", "</tool_call>", "</s>"]
    ));
}

#[test]
fn options_that_contradict_themselves() {
    let tools = ToolSet::parse(TOOLS).unwrap();
    let none = ToolSet::default();
    let unknown = GrammarOptions {
        names: Some(vec!["pong".into()]),
        ..GrammarOptions::default()
    };
    let empty = GrammarOptions {
        fewest_calls: 2,
        most_calls: Some(1),
        ..GrammarOptions::default()
    };
    let one = GrammarOptions {
        fewest_calls: 1,
        ..GrammarOptions::default()
    };
    assert!(matches!(
        Grammar::compile(&tools, gen2(), &unknown),
        Err(Error::Tools(_))
    ));
    assert!(matches!(Grammar::compile(&tools, gen2(), &empty), Err(Error::Tools(_))));
    assert!(matches!(Grammar::compile(&none, gen2(), &one), Err(Error::Tools(_))));
    let refusal = Grammar::compile(&none, gen2(), &GrammarOptions::default()).unwrap();
    assert!(fits(&refusal, &["<tool_call>", "[]", "</tool_call>", "</s>"]));
}

/// The reference's training targets, token by token. What falls outside is listed with its reason.
#[test]
fn reference_targets() {
    for (generation, vocabulary) in [("gen2", gen2()), ("gen3", vocabulary::gen3())] {
        let path = format!(
            "{}/golden/grammar/{generation}_targets.jsonl",
            env!("CARGO_MANIFEST_DIR")
        );
        let lines = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut followed = 0;
        for line in lines.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let number = line["line"].as_u64().unwrap();
            let outside = match number {
                8 | 21 => "keys in another order than declared",
                15 => "white space inside the calls",
                16 => "null instead of calls",
                17 => "a key that is not declared",
                18 => "the marker's token inside a string",
                24 | 26 | 34 | 35 | 36 | 37 => "a call without tools, or without a name",
                _ => "",
            };
            let tools = line["tools"].as_str().unwrap();
            let tools = if tools == "null" || tools.starts_with("[\"") {
                ToolSet::default()
            } else {
                ToolSet::parse(tools).unwrap()
            };
            let grammar = Grammar::compile(&tools, vocabulary, &GrammarOptions::default()).unwrap();
            let ids: Vec<u32> = line["target_ids"]
                .as_array()
                .unwrap()
                .iter()
                .map(|id| id.as_u64().unwrap() as u32)
                .collect();
            let mut matcher = grammar.matcher();
            let stopped = follow(&mut matcher, &ids);
            assert_eq!(
                stopped.is_none(),
                outside.is_empty(),
                "{generation} line {number} {outside}: stopped at {stopped:?} of {ids:?}"
            );
            assert_eq!(matcher.is_complete(), outside.is_empty(), "{generation} line {number}");
            followed += usize::from(stopped.is_none());
        }
        assert!(followed >= 15, "{generation}: {followed}");
    }
}

/// Matchers of one grammar do not disturb each other, on one thread or on many.
#[test]
fn matchers_are_independent() {
    fn shared<T: Send + Sync>() {}
    shared::<Grammar>();
    shared::<needle_core::grammar::Matcher>();
    shared::<ToolSet>();
    let grammar = with(&GrammarOptions::default());
    let run = |number: usize| {
        let parts = [
            "<tool_call>",
            &format!(r#"[{{"name":"set","arguments":{{"n":{number}}}}}]"#),
            "</tool_call>",
            "<|im_end|>",
        ];
        let mut matcher = grammar.matcher();
        let counts: Vec<usize> = ids(&parts)
            .into_iter()
            .map(|id| {
                let count = matcher.mask().unwrap().count();
                matcher.accept(id).unwrap();
                count
            })
            .collect();
        (matcher.calls_json().into_owned(), counts)
    };
    let serial: Vec<_> = (0..24).map(run).collect();
    let parallel: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..24).map(|number| scope.spawn(move || run(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(serial, parallel);
}
