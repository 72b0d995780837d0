//! What cannot be honoured is refused when the tools are read or compiled, by tool, field and keyword.

use needle_core::Error;
use serde_json::{Value, json};

use super::{compile, one_parameter, with_parameters};

/// The tool, field and reason of the refusal.
fn refusal(schema: &Value) -> (String, String, String) {
    let error = match one_parameter(schema) {
        Err(error) => error,
        Ok(tools) => compile(&tools)
            .err()
            .unwrap_or_else(|| panic!("{schema} was not refused")),
    };
    match error {
        Error::Schema { tool, field, reason } => (tool, field.unwrap_or_default(), reason),
        other => panic!("{schema}: {other}"),
    }
}

fn check(schema: Value, field: &str, keyword: &str) {
    let (tool, found, reason) = refusal(&schema);
    assert_eq!((tool.as_str(), found.as_str()), ("t", field), "{schema}: {reason}");
    assert!(reason.starts_with(&format!("{keyword}: ")), "{schema}: {reason}");
}

#[test]
fn keywords_that_are_not_honoured() {
    for keyword in [
        "not",
        "if",
        "contains",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedProperties",
        "patternProperties",
        "$dynamicRef",
        "$anchor",
    ] {
        check(json!({ "type": "object", keyword: {} }), "x", keyword);
    }
    check(
        json!({ "type": "array", "items": { "type": "object", "properties": { "y": { "not": {} } } } }),
        "x[].y",
        "not",
    );
    check(json!({ "type": "string", "format": "regex" }), "x", "format");
    check(
        json!({ "type": "object", "propertyNames": { "pattern": "^a" } }),
        "x",
        "propertyNames",
    );
    check(json!({ "$ref": "https://example.org/schema" }), "x", "$ref");
    check(json!({ "$ref": "#/$defs/Nowhere" }), "x", "$ref");
}

/// A46 and its kin: schemas that nothing fits.
#[test]
fn impossible_schemas() {
    check(json!({ "enum": [] }), "x", "enum");
    check(json!({ "type": [] }), "x", "type");
    check(json!({ "type": "string", "enum": [1, 2] }), "x", "enum");
    check(json!({ "enum": ["a"], "const": "b" }), "x", "enum");
    check(json!({ "type": "integer", "minimum": 5, "maximum": 4 }), "x", "minimum");
    check(
        json!({ "type": "integer", "exclusiveMinimum": 4, "exclusiveMaximum": 5 }),
        "x",
        "exclusiveMinimum",
    );
    check(
        json!({ "type": "integer", "minimum": 1, "maximum": 6, "multipleOf": 7 }),
        "x",
        "minimum",
    );
    check(
        json!({ "type": "number", "minimum": 0.1, "maximum": 0.2, "multipleOf": 0.25 }),
        "x",
        "minimum",
    );
    check(
        json!({ "type": "number", "exclusiveMinimum": 1, "maximum": 1 }),
        "x",
        "exclusiveMinimum",
    );
    check(json!({ "type": "number", "minimum": 1e308 }), "x", "minimum");
    check(
        json!({ "type": "string", "minLength": 3, "maxLength": 2 }),
        "x",
        "minLength",
    );
    check(
        json!({ "type": "string", "pattern": "^[a-z]{5}$", "maxLength": 3 }),
        "x",
        "pattern",
    );
    check(
        json!({ "type": "string", "format": "uuid", "maxLength": 9 }),
        "x",
        "format",
    );
    check(
        json!({ "type": "array", "minItems": 3, "maxItems": 2 }),
        "x",
        "minItems",
    );
    check(
        json!({ "type": "array", "items": false, "minItems": 1 }),
        "x",
        "minItems",
    );
    check(
        json!({ "type": "array", "items": { "enum": ["a", "b"] }, "uniqueItems": true, "minItems": 3 }),
        "x",
        "minItems",
    );
    check(
        json!({ "type": "object", "properties": { "a": {} }, "minProperties": 2 }),
        "x",
        "minProperties",
    );
    check(
        json!({ "type": "object", "properties": { "a": false }, "required": ["a"] }),
        "x",
        "required",
    );
    check(
        json!({ "type": "object", "properties": { "a": {} }, "required": ["b"], "additionalProperties": false }),
        "x",
        "required",
    );
    check(
        json!({ "allOf": [{ "type": "string" }, { "type": "integer" }] }),
        "x",
        "allOf",
    );
    check(
        json!({ "allOf": [{ "type": "integer", "minimum": 5 }, { "type": "integer", "maximum": 3 }] }),
        "x",
        "minimum",
    );
    check(json!({ "anyOf": [] }), "x", "anyOf");
    check(
        json!({ "type": "integer", "anyOf": [{ "type": "string" }, { "type": "boolean" }] }),
        "x",
        "anyOf",
    );
    check(json!({ "type": "array", "items": { "enum": [] } }), "x[]", "enum");
    let loops = json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/A" } }, "required": ["x"], "$defs": { "A": { "$ref": "#/$defs/A" } } });
    assert!(matches!(with_parameters(&loops), Err(Error::Schema { .. })));
    let endless = json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/A" } }, "required": ["x"], "$defs": { "A": { "type": "object", "properties": { "a": { "$ref": "#/$defs/A" } }, "required": ["a"] } } });
    assert!(matches!(with_parameters(&endless), Err(Error::Schema { .. })));
}

/// An impossible schema is refused even where the parameter may be left out.
#[test]
fn impossible_optional_parameters() {
    let error = with_parameters(&json!({ "type": "object", "properties": { "y": { "enum": [] } } })).unwrap_err();
    assert_eq!(error.to_string(), "tool t: y: enum: the list is empty, so nothing fits");
}

/// A41: what is no pattern is never run free.
#[test]
fn broken_patterns() {
    for pattern in [
        "(",
        "[",
        "a{2",
        "^(?=a)b",
        "(?<!a)b",
        "\\1",
        "a**",
        "(?P<n>a)",
        "\\bword\\b",
    ] {
        check(json!({ "type": "string", "pattern": pattern }), "x", "pattern");
    }
}

/// A pattern whose search for a first match does not end in reasonable time is refused, not tried.
#[test]
fn patterns_that_are_too_complex() {
    check(
        json!({ "type": "string", "pattern": "^(a|b)*a(a|b){40}$", "maxLength": 30 }),
        "x",
        "pattern",
    );
}

#[test]
fn values_of_the_wrong_kind() {
    check(json!({ "type": "dict" }), "x", "type");
    check(json!({ "type": "integer", "minimum": "5" }), "x", "minimum");
    check(json!({ "type": "string", "maxLength": -1 }), "x", "maxLength");
    check(json!({ "type": "string", "maxLength": 1.5 }), "x", "maxLength");
    check(json!({ "type": "number", "multipleOf": 0 }), "x", "multipleOf");
    check(json!({ "type": "number", "multipleOf": -2 }), "x", "multipleOf");
    check(json!({ "type": "array", "items": 5 }), "x[]", "schema");
    check(json!({ "type": "object", "required": "a" }), "x", "required");
    check(json!({ "enum": "a" }), "x", "enum");
    check(json!({ "properties": [] }), "x", "properties");
    check(json!({ "anyOf": {} }), "x", "anyOf");
    check(json!(5), "x", "schema");
}

#[test]
fn one_of_with_branches_that_overlap() {
    check(
        json!({ "oneOf": [{ "type": "integer" }, { "type": "number" }] }),
        "x",
        "oneOf",
    );
    check(
        json!({ "oneOf": [{ "type": "string", "minLength": 1 }, { "type": "string" }] }),
        "x",
        "oneOf",
    );
    check(
        json!({ "oneOf": [{ "minimum": 1 }, { "type": "string" }] }),
        "x",
        "oneOf",
    );
    check(json!({ "oneOf": [{ "enum": ["a"] }, { "enum": ["a"] }] }), "x", "oneOf");
    check(
        json!({ "type": "object", "properties": { "a": {}, "b": {} }, "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] }),
        "x",
        "oneOf",
    );
}

#[test]
fn lists_of_distinct_values_without_end() {
    check(
        json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true }),
        "x",
        "uniqueItems",
    );
    check(json!({ "type": "array", "uniqueItems": true }), "x", "uniqueItems");
}
