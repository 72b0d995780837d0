//! Prompts, targets and completions against the reference's rendered examples.

use std::fs;

use needle_core::{
    Error, Tokenizer,
    prompt::{Completion, Example, Prompt, Turn, parse_completion, target},
};
use serde_json::Value;

use crate::{golden, tokenizer::ids};

fn tokenizer(generation: u32) -> Tokenizer {
    Tokenizer::from_sentencepiece(&fs::read(golden::path(&format!("gen{generation}/tokenizer.model"))).unwrap())
        .unwrap()
}

#[test]
fn every_example_is_rendered_as_the_reference_renders_it() {
    for (generation, used, skipped) in [(2, 26, 4), (3, 36, 10)] {
        let tokenizer = tokenizer(generation);
        let folder = format!("gen{generation}/training");
        let examples = fs::read_to_string(golden::path(&format!("{folder}/examples.jsonl"))).unwrap();
        let rendered = fs::read_to_string(golden::path(&format!("{folder}/rendered.jsonl"))).unwrap();
        let mut counts = (0, 0);
        assert_eq!(examples.lines().count(), rendered.lines().count());
        for (line, expected) in examples.lines().zip(rendered.lines()) {
            let expected: Value = serde_json::from_str(expected).unwrap();
            assert_eq!(line, expected["line"].as_str().unwrap());
            let Some(example) = Example::parse(line).unwrap() else {
                assert_eq!(expected["used"], Value::Bool(false), "{line}");
                counts.1 += 1;
                continue;
            };
            counts.0 += 1;
            assert_eq!(expected["used"], Value::Bool(true), "{line}");
            let prompt = example.prompt();
            assert_eq!(prompt.text, expected["prompt"].as_str().unwrap());
            let target = example.target();
            assert_eq!(target, expected["target"].as_str().unwrap());
            assert_eq!(tokenizer.encode(&prompt.text), ids(&expected["prompt_ids"]), "{line}");
            assert_eq!(tokenizer.encode(&target), ids(&expected["target_ids"]), "{line}");

            let encoded = prompt.encode(&tokenizer);
            assert_eq!(encoded.ids[0], tokenizer.bos_id());
            assert_eq!(encoded.ids[1..], ids(&expected["prompt_ids"]), "{line}");
            assert_eq!(encoded.ids[encoded.pinned - 1], tokenizer.id("</tools>").unwrap());

            let parsed = parse_completion(&target);
            assert_eq!(parsed.calls_json, Some(example.answers.as_str()));
            assert!(
                parsed.closed && parsed.rest.is_empty() && parsed.text.is_empty(),
                "{parsed:?}"
            );
            let reasoning = example
                .reasoning
                .as_deref()
                .map(str::trim)
                .filter(|text| !text.is_empty());
            assert_eq!(parsed.reasoning, reasoning);
        }
        assert_eq!(counts, (used, skipped));
    }
}

#[test]
fn the_pinned_ids_end_with_the_tools_even_if_a_marker_was_typed_before() {
    let tokenizer = tokenizer(2);
    let prompt = Prompt {
        system: Some(" say </tools> often "),
        tools: r#"[{"name":"ping","description":"</tools>"}]"#,
        query: "</tools>",
    };
    let rendered = prompt.render();
    assert!(rendered.text[..rendered.tools_end].ends_with("\"}]</tools>"));
    let encoded = rendered.encode(&tokenizer);
    assert_eq!(encoded.ids[1..], tokenizer.encode(&rendered.text));
    assert_eq!(
        encoded.ids[1..encoded.pinned],
        tokenizer.encode(&rendered.text[..rendered.tools_end])
    );
}

#[test]
fn later_turns_continue_the_conversation() {
    let cases = [
        (
            Turn::User(" and the hall? "),
            "\n<|im_start|>user\n and the hall? <|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            Turn::ToolResult(r#"{"ok":true}"#),
            "\n<|im_start|>user\n<tool_result>{\"ok\":true}</tool_result><|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            Turn::Assistant("<tool_call>[]</tool_call>"),
            "<tool_call>[]</tool_call><|im_end|>",
        ),
        (
            Turn::Assistant("<tool_call>[]</tool_call><|im_end|>"),
            "<tool_call>[]</tool_call><|im_end|>",
        ),
    ];
    let tokenizer = tokenizer(2);
    let space = tokenizer.id("▁").unwrap();
    for (turn, expected) in cases {
        assert_eq!(turn.render(), expected);
        let ids = turn.encode(&tokenizer);
        let is_assistant = matches!(turn, Turn::Assistant(_));
        assert_eq!(ids[0] == space, is_assistant, "{turn:?}");
        assert_eq!(tokenizer.decode(&ids), expected);
    }
}

#[test]
fn reasoning_is_left_out_where_there_is_none() {
    assert_eq!(target(None, "[]"), "<tool_call>[]</tool_call><|im_end|>");
    assert_eq!(target(Some(" \n\u{1c}"), "[]"), "<tool_call>[]</tool_call><|im_end|>");
    assert_eq!(
        target(Some(" a "), "[]"),
        "<think>\na\n</think>\n<tool_call>[]</tool_call><|im_end|>"
    );
}

#[test]
fn completions_of_both_generations_and_broken_ones() {
    let whole = Completion {
        closed: true,
        ..Completion::default()
    };
    let call = Completion {
        calls_json: Some(r#"[{"name":"a"}]"#),
        ..whole
    };
    let thought = Completion {
        reasoning: Some("b c"),
        ..call
    };
    let cases = [
        ("", whole),
        ("<|im_end|>", whole),
        (r#"<tool_call>[{"name":"a"}]</tool_call><|im_end|>"#, call),
        (r#" <tool_call> [{"name":"a"}] </tool_call>"#, call),
        (
            "<think>b c</think>\n<tool_call>[{\"name\":\"a\"}]</tool_call><|im_end|>",
            thought,
        ),
        (
            "<think>\nb c\n</think>\n<tool_call>[{\"name\":\"a\"}]</tool_call><|im_end|>\n",
            thought,
        ),
        ("<think>\n\n</think>\n<tool_call>[{\"name\":\"a\"}]</tool_call>", call),
        (
            r#"<tool_call>["</tool_call>\"</tool_call>",{"<|im_end|>":1}]</tool_call>"#,
            Completion {
                calls_json: Some(r#"["</tool_call>\"</tool_call>",{"<|im_end|>":1}]"#),
                ..whole
            },
        ),
        (
            "<think>b c</think> It is <b>27</b> degrees. <|im_end|> more",
            Completion {
                reasoning: Some("b c"),
                text: "It is <b>27</b> degrees.",
                ..whole
            },
        ),
        (
            r#"Sure: <tool_call>[{"name":"a"}]</tool_call><tool_call>[]</tool_call><|im_end|>"#,
            Completion {
                text: "Sure:",
                rest: "<tool_call>[]</tool_call>",
                ..call
            },
        ),
        (
            r#"<tool_call>[{"name":"a"}]<|im_end|>"#,
            Completion { closed: false, ..call },
        ),
        (
            r#"<tool_call>[{"na"#,
            Completion {
                calls_json: Some(r#"[{"na"#),
                closed: false,
                ..whole
            },
        ),
        (
            "<think>b c<|im_end|>",
            Completion {
                reasoning: Some("b c"),
                closed: false,
                ..whole
            },
        ),
        (
            r#"<think>b c<tool_call>[{"name":"a"}]</tool_call>"#,
            Completion {
                closed: false,
                ..thought
            },
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_completion(text), expected, "{text}");
    }
}

#[test]
fn a_line_that_cannot_be_used_says_why() {
    let cases = [
        ("{", "not JSON"),
        (r#"{"query": "x", "n": NaN}"#, "not JSON"),
        ("[1]", "the line should be an object, found a list"),
        (r#"{"query": 5}"#, "query should be a text, found a number"),
        (
            r#"{"query": "x", "system": ["y"]}"#,
            "system should be a text, found a list",
        ),
        (
            r#"{"messages": ["x", "y"]}"#,
            "a message should be an object, found a text",
        ),
        (
            r#"{"messages": [{"role": "user", "content": []}, {"role": "assistant"}]}"#,
            "content should be a text, found a list",
        ),
        (
            r#"{"messages": [{"role": "user"}, {"role": "assistant", "tool_calls": [{"name": "a", "arguments": "{"}]}]}"#,
            "arguments are not JSON",
        ),
    ];
    for (line, expected) in cases {
        match Example::parse(line) {
            Err(Error::Example(reason)) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("expected an error for {line}, found {other:?}"),
        }
    }
}
