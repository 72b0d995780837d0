//! Small schemas that would grow without bound, or that the engine cannot carry: read once, or refused by name and quickly.

use needle_core::{Error, ToolSet};
use serde_json::{Map, Value, json};

use super::{admits_value, compile, one_parameter, with_parameters};

fn refusal(tools: Result<ToolSet, Error>) -> String {
    let error = tools.and_then(|tools| compile(&tools)).err().unwrap();
    assert!(matches!(error, Error::Schema { .. }), "{error}");
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

/// `count` definitions, each made by `link` of a reference to the next; the last is `end`.
fn chain(count: usize, link: impl Fn(Value) -> Value, end: Value) -> Value {
    let mut definitions: Map<String, Value> = (0..count)
        .map(|i| (format!("d{i}"), link(json!({ "$ref": format!("#/$defs/d{}", i + 1) }))))
        .collect();
    definitions.insert(format!("d{count}"), end);
    json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/d0" } }, "required": ["x"], "$defs": definitions })
}

#[test]
fn equal_branches_are_one() {
    let doubled = chain(
        31,
        |next| json!({ "anyOf": [next.clone(), next] }),
        json!({ "type": "string" }),
    );
    let grammar = compile(&with_parameters(&doubled).unwrap()).unwrap();
    assert!(admits_value(&grammar, r#""a""#) && !admits_value(&grammar, "1"));

    let lengths: Vec<Value> = (1..20).map(|i| json!({ "type": "string", "maxLength": i })).collect();
    let parts = vec![json!({ "anyOf": lengths }); 6];
    let grammar = compile(&one_parameter(&json!({ "allOf": parts })).unwrap()).unwrap();
    assert!(admits_value(&grammar, r#""abcdefghijklmnopqrs""#));
    assert!(!admits_value(&grammar, r#""abcdefghijklmnopqrst""#));
}

#[test]
fn branches_that_multiply() {
    let part = |k: usize| {
        let branches: Vec<Value> = (0..19)
            .map(|i| json!({ "type": "object", "properties": { format!("k{k}_{i}"): { "type": "integer" } } }))
            .collect();
        json!({ "anyOf": branches })
    };
    let parts: Vec<Value> = (0..6).map(part).collect();
    let text = refusal(one_parameter(&json!({ "allOf": parts })));
    assert!(
        text.starts_with("tool t: x: allOf: ") && text.contains("20000 parts"),
        "{text}"
    );
}

#[test]
fn long_chains_and_lists() {
    let text = refusal(with_parameters(&chain(5000, |next| next, json!({}))));
    assert!(text.starts_with("tool t: x: schema: "), "{text}");
    let items = vec![json!({ "type": "integer" }); 10_000];
    let text = refusal(one_parameter(&json!({ "type": "array", "prefixItems": items })));
    assert!(text.starts_with("tool t: x: prefixItems: "), "{text}");
}

#[test]
fn look_around_is_named() {
    let text = refusal(one_parameter(&json!({ "type": "string", "pattern": "(?=a)b" })));
    assert!(text.starts_with("tool t: x: pattern: "), "{text}");
    assert!(text.contains("look-around") && text.contains("not supported"), "{text}");
}

#[test]
fn steps_that_are_too_large_for_a_range() {
    let step = json!({ "type": "integer", "multipleOf": 1_000_003, "minimum": 1 });
    let text = refusal(one_parameter(&step));
    assert!(text.starts_with("tool t: x: multipleOf: "), "{text}");
}

#[test]
fn a_key_required_twice() {
    let schema = json!({ "type": "object", "properties": { "x": {} }, "required": ["x", "x"] });
    assert_eq!(
        refusal(with_parameters(&schema)),
        r#"tool t: required: "x" is listed twice"#
    );
}
