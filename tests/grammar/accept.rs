//! Tables of one parameter's schema, values that fit and values that do not. Each row is a promise of the schema pass.

use needle_core::Error;
use serde_json::{Value, json};

use super::{admits, admits_value, compile, one_parameter, with_parameters};

fn check(schema: Value, good: &[&str], bad: &[&str]) {
    let tools = one_parameter(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
    let grammar = compile(&tools).unwrap_or_else(|error| panic!("{schema}: {error}"));
    let judge = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap();
    for value in good {
        assert!(admits_value(&grammar, value), "{schema} should admit {value}");
        if schema.get("nullable").is_none() {
            let value = serde_json::from_str(value).unwrap();
            assert!(judge.is_valid(&value), "{schema}: the table is wrong about {value}");
        }
    }
    for value in bad {
        assert!(!admits_value(&grammar, value), "{schema} should refuse {value}");
    }
}

#[test]
fn types() {
    check(
        json!({ "type": "string" }),
        &[r#""""#, r#""a b""#, r#""\"\\\n\u0007""#, "\"日\u{7f}\u{2028}\""],
        &["1", "null", "\"\n\"", r#""\x""#, r#""a"#],
    );
    check(
        json!({ "type": "integer" }),
        &["0", "-7", "123456789012345678901234567890"],
        &["1.0", "01", "-0", "1e3", "+1", "true"],
    );
    check(
        json!({ "type": "number" }),
        &["0", "-0.0", "90.0", "1e-07", "1.5e+300", "5e-324", "3.141592653589793"],
        &["1.", ".5", "1e400", "00", "NaN"],
    );
    check(
        json!({ "type": "boolean" }),
        &["true", "false"],
        &["True", "0", "\"true\"", "null"],
    );
    check(json!({ "type": "null" }), &["null"], &["0", "\"null\""]);
    check(json!({ "type": ["string", "null"] }), &["\"a\"", "null"], &["1"]);
    check(
        json!({ "type": ["integer", "boolean"] }),
        &["1", "true"],
        &["1.5", "\"1\""],
    );
    check(
        json!({ "type": "string", "nullable": true }),
        &["\"a\"", "null"],
        &["0"],
    );
    check(
        json!({ "enum": ["a"], "nullable": true }),
        &["\"a\"", "null"],
        &["\"b\""],
    );
    check(
        json!({ "anyOf": [{ "type": "integer" }], "nullable": true }),
        &["5", "null"],
        &["\"b\""],
    );
    check(
        json!({}),
        &["null", "1", "\"a\"", "[1,[2]]", r#"{"a":{"b":[]}}"#],
        &["", "[1,]", "{a:1}", "[[[[[[[[]]]]]]]]"],
    );
    check(json!(true), &["1", "[]"], &["nul"]);
}

#[test]
fn finite_values() {
    check(
        json!({ "enum": ["left half", "ab", "a", 1, 1.5, null, true, [1], { "k": "v" }] }),
        &[
            "\"left half\"",
            "\"a\"",
            "\"ab\"",
            "1",
            "1.5",
            "null",
            "true",
            "[1]",
            r#"{"k":"v"}"#,
        ],
        &["\"left_half\"", "\"abc\"", "2", "[]", "false"],
    );
    check(json!({ "const": "a\"b" }), &[r#""a\"b""#], &["\"a\""]);
    check(
        json!({ "type": "string", "enum": ["a", 1, "bb"], "maxLength": 1 }),
        &["\"a\""],
        &["1", "\"bb\""],
    );
    check(
        json!({ "enum": ["2024-02-29", "2023-02-29"], "type": "string", "format": "date" }),
        &["\"2024-02-29\""],
        &["\"2023-02-29\""],
    );
}

#[test]
fn integers() {
    check(
        json!({ "type": "integer", "minimum": 0, "maximum": 100 }),
        &["0", "7", "42", "100"],
        &["-1", "101", "007", "1000", "5.0"],
    );
    check(
        json!({ "type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5 }),
        &["4"],
        &["3", "5"],
    );
    check(
        json!({ "type": "integer", "minimum": 5, "exclusiveMaximum": true, "maximum": 7 }).pipe_draft4(),
        &["5", "6"],
        &["7", "4"],
    );
    check(
        json!({ "type": "integer", "minimum": -10, "maximum": -1, "multipleOf": 2 }),
        &["-10", "-4", "-2"],
        &["-1", "-3", "0", "-12", "2"],
    );
    check(
        json!({ "type": "integer", "minimum": 0, "maximum": 50, "multipleOf": 7 }),
        &["0", "7", "49"],
        &["50", "6", "56", "70"],
    );
    check(
        json!({ "type": "integer", "multipleOf": 2.5 }),
        &["0", "5", "-10"],
        &["2", "2.5"],
    );
    check(
        json!({ "type": "integer", "minimum": 9007199254740993_u64 }),
        &["9007199254740993"],
        &["9007199254740992"],
    );
    check(
        json!({ "type": "integer", "format": "int32" }),
        &["2147483647", "-2147483648"],
        &["2147483648", "-2147483649"],
    );
    check(
        json!({ "type": "integer", "minimum": 86_400, "multipleOf": 3_600 }),
        &["86400", "90000"],
        &["3600", "86401"],
    );
}

#[test]
fn numbers() {
    check(
        json!({ "type": "number", "multipleOf": 0.25 }),
        &["1.5", "1.50", "1", "0.25", "-2.75", "3.0"],
        &["1.1", "0.3", "1.255", "1e2"],
    );
    check(
        json!({ "type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 1 }),
        &["0.1", "0.11", "1.00", "0.30"],
        &["0.111", "1.01"],
    );
    check(
        json!({ "type": "number", "multipleOf": 5 }),
        &["10", "10.0", "-15"],
        &["11", "10.5"],
    );
    check(
        json!({ "type": "number", "minimum": 0 }),
        &["0", "0.0", "12.75"],
        &["-0.1", "-1"],
    );
    check(
        json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1.5 }),
        &["0.001", "1", "1.5", "1.50"],
        &["0", "0.0", "1.51", "2"],
    );
    check(
        json!({ "type": "number", "minimum": -0.5, "exclusiveMaximum": 0.25 }),
        &["-0.5", "0", "0.24"],
        &["-0.51", "0.25", "1"],
    );
    check(json!({ "type": "number", "maximum": 1e308 }), &["5", "-5.5"], &["1e2"]);
}

/// A42 to A44: patterns mean what they say, together with the lengths.
#[test]
fn patterns() {
    check(
        json!({ "type": "string", "pattern": "\\S" }),
        &["\"a\"", "\" b \""],
        &["\"\"", "\"  \""],
    );
    check(
        json!({ "type": "string", "pattern": "^\\d+$" }),
        &["\"0123\""],
        &["\"\"", "\"12a\"", "\"٣\""],
    );
    check(
        json!({ "type": "string", "pattern": "^[\\w-]+$" }),
        &["\"a_b-9\""],
        &["\"é\"", "\"a b\""],
    );
    check(
        json!({ "type": "string", "pattern": "^[a-z]+$", "maxLength": 3 }),
        &["\"abc\""],
        &["\"abcd\"", "\"\"", "\"A\""],
    );
    check(
        json!({ "type": "string", "pattern": "x", "minLength": 2, "maxLength": 3 }),
        &["\"ax\"", "\"xxx\""],
        &["\"x\"", "\"abc\"", "\"xabc\""],
    );
    check(
        json!({ "type": "string", "pattern": "^(a|b)$|c" }),
        &["\"a\"", "\"xcx\""],
        &["\"ab\"", "\"xa\""],
    );
    check(
        json!({ "type": "string", "pattern": "^a.b$" }),
        &["\"aéb\"", r#""a\"b""#],
        &[r#""a\nb""#, "\"ab\""],
    );
    check(
        json!({ "type": "string", "pattern": "^[A-Z]{2}-\\d{3}$" }),
        &["\"AB-123\""],
        &["\"AB-12\"", "\"ab-123\""],
    );
    check(
        json!({ "type": "string", "pattern": "^hello\\!$" }),
        &["\"hello!\""],
        &["\"hello\""],
    );
    check(
        json!({ "type": "string", "minLength": 2, "maxLength": 2 }),
        &["\"日本\"", r#""\n\\""#],
        &["\"a\"", "\"abc\""],
    );
}

#[test]
fn formats() {
    check(
        json!({ "type": "string", "format": "date" }),
        &["\"2024-02-29\""],
        &["\"2023-02-29\"", "\"5/6/24\""],
    );
    check(
        json!({ "type": "string", "format": "email", "maxLength": 20 }),
        &["\"ann@example.org\""],
        &["\"someone.else@example.org\"", "\"ann\""],
    );
    check(
        json!({ "type": "string", "format": "uuid", "pattern": "^0" }),
        &["\"023e4567-e89b-12d3-a456-426614174000\""],
        &["\"123e4567-e89b-12d3-a456-426614174000\""],
    );
    check(
        json!({ "type": "string", "format": "date-time" }),
        &["\"2024-02-29T07:30:00Z\""],
        &["\"2024-02-29\""],
    );
    check(json!({ "type": "string", "format": "password" }), &["\"x y\""], &["1"]);
    check(json!({ "type": "number", "format": "double" }), &["1.5"], &["\"1\""]);
}

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

trait Draft4 {
    fn pipe_draft4(self) -> Value;
}

impl Draft4 for Value {
    /// The validator of the table knows no draft 4, so the row is given to it as it is meant.
    fn pipe_draft4(self) -> Value {
        let mut schema = self;
        schema["exclusiveMaximum"] = schema["maximum"].take();
        schema.as_object_mut().unwrap().remove("maximum");
        schema
    }
}
