//! Tables of lists, objects and compositions: values that fit and values that do not.

use needle_core::Error;
use serde_json::json;

use super::scalars::check;
use super::{admits, admits_value, compile, one_parameter, with_parameters};

#[test]
fn arrays() {
    check(
        json!({ "type": "array" }),
        &["[]", "[1,\"a\",[true]]"],
        &["[1,]", "[ 1]", "{}"],
    );
    check(
        json!({ "type": "array", "items": { "type": "integer" }, "minItems": 1, "maxItems": 3 }),
        &["[1]", "[1,2,3]"],
        &["[]", "[1,2,3,4]", "[\"a\"]"],
    );
    check(
        json!({ "type": "array", "items": { "type": "boolean" }, "minItems": 5, "maxItems": 6 }),
        &["[true,true,true,true,true]", "[true,true,true,true,true,false]"],
        &["[true,true,true,true]", "[true,true,true,true,true,true,true]"],
    );
    check(
        json!({ "type": "array", "prefixItems": [{ "type": "integer" }, { "type": "string" }], "items": false }),
        &["[]", "[1]", "[1,\"a\"]"],
        &["[\"a\"]", "[1,\"a\",2]"],
    );
    check(
        json!({ "type": "array", "prefixItems": [{ "type": "integer" }], "items": { "type": "string" }, "minItems": 2, "maxItems": 3 }),
        &["[1,\"a\"]", "[1,\"a\",\"b\"]"],
        &["[1]", "[1,2]", "[1,\"a\",\"b\",\"c\"]"],
    );
    check(json!({ "type": "array", "items": false }), &["[]"], &["[1]"]);
    check(json!({ "type": "array", "maxItems": 0 }), &["[]"], &["[1]"]);
    check(
        json!({ "type": "array", "items": { "enum": ["a", "b", "c", ","] }, "uniqueItems": true }),
        &["[]", "[\"c\",\"a\"]", "[\"b\",\",\",\"a\",\"c\"]"],
        &["[\"a\",\"a\"]", "[\"a\",\"b\",\"a\"]", "[\"d\"]"],
    );
    check(
        json!({ "type": "array", "items": { "type": "integer", "minimum": 1, "maximum": 3 }, "uniqueItems": true, "minItems": 2, "maxItems": 2 }),
        &["[1,3]", "[3,2]"],
        &["[1,1]", "[1]", "[1,2,3]"],
    );
    check(
        json!({ "type": "array", "items": { "type": "boolean" }, "uniqueItems": true }),
        &["[true,false]"],
        &["[true,true]"],
    );
    check(
        json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true, "maxItems": 1 }),
        &["[\"a\"]"],
        &["[\"a\",\"b\"]"],
    );
}

#[test]
fn long_arrays_count_exactly() {
    for (least, most) in [(0, 100), (3, 3), (17, 33), (0, 4096)] {
        let tools = one_parameter(
            &json!({ "type": "array", "items": { "type": "integer" }, "minItems": least, "maxItems": most }),
        )
        .unwrap();
        let grammar = compile(&tools).unwrap();
        let list = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        for count in [0, 1, 2, 3, 4, 16, 17, 18, 32, 33, 34, 99, 100, 101] {
            assert_eq!(
                admits_value(&grammar, &list(count)),
                (least..=most).contains(&count),
                "{count} in {least}..={most}"
            );
        }
    }
}

/// Lists without repeats over as many as 64 values, in any order.
#[test]
fn large_sets_of_distinct_values() {
    let values: Vec<String> = (0..64)
        .map(|i| format!("{} {i}", ["red", "green", "blue", "old"][i % 4]))
        .collect();
    let schema = json!({ "type": "array", "items": { "enum": values }, "uniqueItems": true, "minItems": 2 });
    let grammar = compile(&one_parameter(&schema).unwrap()).unwrap();
    let text = |values: &[String]| serde_json::to_string(values).unwrap();
    let mut all: Vec<String> = values.into_iter().rev().collect();
    assert!(admits_value(&grammar, &text(&all)));
    assert!(admits_value(&grammar, &text(&all[..2])));
    assert!(!admits_value(&grammar, &text(&all[..1])));
    all[60] = all[3].clone();
    assert!(!admits_value(&grammar, &text(&all)));
}

#[test]
fn objects() {
    let city = json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "string" }, "c": { "type": "boolean" } }, "required": ["b"] });
    check(
        city.clone(),
        &[r#"{"b":""}"#, r#"{"a":1,"b":"","c":true}"#, r#"{"b":"","c":false}"#],
        &[
            "{}",
            r#"{"a":1}"#,
            r#"{"b":"","a":1}"#,
            r#"{"b":"","b":""}"#,
            r#"{"b":"","d":1}"#,
            r#"{"b": ""}"#,
            r#"{"b":"",}"#,
        ],
    );
    let mut open = city;
    open["additionalProperties"] = json!({ "type": "integer" });
    check(
        open,
        &[r#"{"b":"","d":1}"#, r#"{"b":"","d":1,"e":2}"#],
        &[
            r#"{"b":"","d":"x"}"#,
            r#"{"b":"","d":1,"d":2}"#,
            r#"{"b":"","a":1}"#,
            r#"{"d":1,"b":""}"#,
        ],
    );
    check(
        json!({ "type": "object" }),
        &["{}", r#"{"k":1,"l":{"k":[]}}"#],
        &[r#"{"k":1,"k":2}"#, r#"{"":1}"#],
    );
    check(json!({ "type": "object", "properties": {} }), &["{}"], &[r#"{"a":1}"#]);
    check(
        json!({ "type": "object", "additionalProperties": { "type": "string" }, "minProperties": 1, "maxProperties": 2 }),
        &[r#"{"a":"x"}"#, r#"{"a":"x","b":"y"}"#],
        &["{}", r#"{"a":"x","b":"y","c":"z"}"#, r#"{"a":1}"#],
    );
    check(
        json!({ "type": "object", "properties": { "a": {}, "b": {}, "c": {} }, "minProperties": 2 }),
        &[r#"{"a":1,"c":2}"#, r#"{"b":1,"c":2}"#],
        &["{}", r#"{"a":1}"#],
    );
    check(
        json!({ "type": "object", "properties": { "a": {}, "b": {}, "c": {} }, "required": ["c"], "maxProperties": 2 }),
        &[r#"{"c":1}"#, r#"{"a":1,"c":2}"#],
        &[r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2,"c":3}"#],
    );
    check(
        json!({ "type": "object", "propertyNames": { "enum": ["x", "y"] }, "additionalProperties": { "type": "integer" } }),
        &["{}", r#"{"x":1,"y":2}"#, r#"{"y":2}"#],
        &[r#"{"z":1}"#, r#"{"x":"a"}"#],
    );
    check(
        json!({ "type": "object", "properties": { "a": false, "b": { "type": "null" } } }),
        &["{}", r#"{"b":null}"#],
        &[r#"{"a":1}"#],
    );
}

#[test]
fn compositions() {
    check(
        json!({ "anyOf": [{ "type": "integer" }, { "type": "string", "maxLength": 1 }] }),
        &["12", "\"a\""],
        &["\"ab\"", "1.5"],
    );
    check(
        json!({ "type": "integer", "anyOf": [{ "maximum": 3 }, { "minimum": 8 }] }),
        &["3", "8"],
        &["4", "7"],
    );
    check(
        json!({ "allOf": [{ "type": "integer", "minimum": 2 }, { "maximum": 4 }, { "multipleOf": 2 }] }),
        &["2", "4"],
        &["3", "6"],
    );
    check(
        json!({ "allOf": [{ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] }, { "type": "object", "properties": { "b": { "type": "string" } } }] }),
        &[r#"{"a":1}"#, r#"{"a":1,"b":""}"#],
        &["{}", r#"{"b":""}"#],
    );
    check(
        json!({ "allOf": [{ "type": "string", "pattern": "^a" }, { "type": "string", "pattern": "b$" }, { "maxLength": 3 }] }),
        &["\"ab\"", "\"axb\""],
        &["\"a\"", "\"axxb\""],
    );
    check(
        json!({ "oneOf": [{ "type": "integer" }, { "type": "string" }] }),
        &["1", "\"a\""],
        &["true"],
    );
    check(
        json!({ "oneOf": [{ "enum": [1, 2] }, { "enum": [2, 3] }] }),
        &["1", "3"],
        &["2"],
    );
    check(
        json!({ "oneOf": [{ "type": "integer", "maximum": 3 }, { "type": "integer", "exclusiveMinimum": 3 }] }),
        &["3", "4"],
        &["\"a\""],
    );
    let tagged = |tag: &str, key: &str| json!({ "type": "object", "properties": { "kind": { "const": tag }, key: { "type": "integer" } }, "required": ["kind", key] });
    check(
        json!({ "oneOf": [tagged("a", "x"), tagged("b", "y")] }),
        &[r#"{"kind":"a","x":1}"#, r#"{"kind":"b","y":1}"#],
        &[r#"{"kind":"a","y":1}"#, r#"{"kind":"c","x":1}"#],
    );
    check(
        json!({ "oneOf": [{ "type": "object", "properties": { "x": { "type": "integer" } }, "required": ["x"] }, { "type": "object", "properties": { "y": { "type": "integer" } }, "required": ["y"] }] }),
        &[r#"{"x":1}"#, r#"{"y":1}"#],
        &["{}", r#"{"x":1,"y":1}"#],
    );
}

/// The branches of a union are told apart as late as it takes, whatever they have in common.
#[test]
fn branches_that_begin_alike() {
    check(
        json!({ "anyOf": [{ "const": ["a", "b"] }, { "type": "array", "items": { "type": "string" }, "maxItems": 1 }] }),
        &[r#"["a","b"]"#, r#"["a"]"#, r#"["b"]"#, r#"["x"]"#, "[]"],
        &[r#"["b","a"]"#, r#"["a","b","c"]"#],
    );
    let closed = json!({ "type": "object", "properties": { "k": { "type": "integer" } }, "required": ["k"] });
    let open = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    check(
        json!({ "anyOf": [closed, open, { "const": { "k": { "l": [] } } }] }),
        &[
            r#"{"k":1}"#,
            r#"{"k":"x"}"#,
            r#"{"k":"x","l":"y"}"#,
            r#"{"k":{"l":[]}}"#,
            "{}",
        ],
        &[r#"{"k":1,"l":"y"}"#, r#"{"l":1}"#, r#"{"k":{}}"#],
    );
    check(
        json!({ "anyOf": [{ "enum": [1, 15, "a"] }, { "type": "number", "minimum": 100 }, { "type": "string", "minLength": 3 }] }),
        &["1", "15", "\"a\"", "150", "100.5", "\"abc\""],
        &["11", "99", "1.5", "\"ab\""],
    );
    check(
        json!({ "anyOf": [{ "type": "array", "items": { "enum": [[1], [2], 1, 12] }, "uniqueItems": true }, { "const": [1, 1] }] }),
        &["[[1],[2]]", "[12,1]", "[1,1]", "[1,12,[1]]"],
        &["[[1],[1]]", "[12,12]", "[1,1,12]"],
    );
}

#[test]
fn references() {
    let parameters = json!({
        "type": "object",
        "properties": { "from": { "$ref": "#/$defs/Place", "description": "start" }, "to": { "$ref": "#/$defs/Place" } },
        "required": ["from"],
        "$defs": { "Place": { "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] } }
    });
    let grammar = compile(&with_parameters(&parameters).unwrap()).unwrap();
    assert!(admits(
        &grammar,
        r#"[{"name":"t","arguments":{"from":{"city":"a"},"to":{"city":"b"}}}]"#
    ));
    assert!(!admits(&grammar, r#"[{"name":"t","arguments":{"from":{}}}]"#));
}

/// Recursion is followed six times along one path, and not further.
#[test]
fn recursion_ends_at_the_limit() {
    let tree = json!({
        "type": "object",
        "properties": { "x": { "$ref": "#/$defs/Tree" } },
        "required": ["x"],
        "$defs": { "Tree": { "type": "object", "properties": { "v": { "type": "integer" }, "kids": { "type": "array", "items": { "$ref": "#/$defs/Tree" } } }, "required": ["v"] } }
    });
    let grammar = compile(&with_parameters(&tree).unwrap()).unwrap();
    let nested = |levels: usize| {
        (1..levels).fold(r#"{"v":1}"#.to_string(), |inner, _| {
            format!(r#"{{"v":1,"kids":[{inner},{inner}]}}"#)
        })
    };
    for levels in 1..=6 {
        assert!(admits_value(&grammar, &nested(levels)), "{levels}");
    }
    assert_eq!(needle_core::schema::RECURSION_LIMIT, 6);
    assert!(!admits_value(&grammar, &nested(7)));
}

/// A47: tools without parameters, however they say it, are called with `{}`.
#[test]
fn tools_without_parameters() {
    for parameters in [
        json!({}),
        json!(null),
        json!({ "type": "object" }),
        json!({ "type": "object", "properties": {} }),
        json!({ "type": "object", "properties": {}, "required": [] }),
    ] {
        let grammar = compile(&with_parameters(&parameters).unwrap()).unwrap();
        assert!(admits(&grammar, r#"[{"name":"t","arguments":{}}]"#), "{parameters}");
        assert!(
            !admits(&grammar, r#"[{"name":"t","arguments":{"a":1}}]"#),
            "{parameters}"
        );
    }
    let tools = needle_core::ToolSet::parse(r#"[{"name":"ping"}]"#).unwrap();
    assert!(admits(&compile(&tools).unwrap(), r#"[{"name":"ping","arguments":{}}]"#));
}

/// The bounds of a large schema cost no more than its size.
#[test]
fn merging_recursive_definitions_ends() {
    let schema = json!({
        "type": "object",
        "properties": { "x": { "allOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/b" }] } },
        "$defs": {
            "a": { "type": "object", "properties": { "child": { "$ref": "#/$defs/a" } } },
            "b": { "type": "object", "properties": { "child": { "$ref": "#/$defs/b" } } }
        }
    });
    match with_parameters(&schema) {
        Ok(tools) => assert!(compile(&tools).is_ok()),
        Err(error) => assert!(matches!(error, Error::Schema { .. })),
    }
}
