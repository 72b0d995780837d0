//! Tables of one scalar's schema, values that fit and values that do not. Each row is a promise of the schema pass.

use serde_json::{Value, json};

use super::{admits_value, compile, one_parameter};

pub(super) fn check(schema: Value, good: &[&str], bad: &[&str]) {
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
        json!({ "type": "integer", "format": "uint8" }),
        &["0", "255"],
        &["-1", "256"],
    );
    check(
        json!({ "type": "integer", "format": "uint64" }),
        &["18446744073709551615"],
        &["18446744073709551616", "-1"],
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
        json!({ "type": "string", "maxLength": u32::MAX }),
        &["\"\"", "\"abc\""],
        &["1"],
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

/// Draft 4 marks a bound as exclusive with a flag beside it; the validator of the tables knows no such flag.
#[test]
fn bounds_of_draft_4() {
    let schema =
        json!({ "type": "integer", "minimum": 5, "exclusiveMinimum": true, "maximum": 7, "exclusiveMaximum": false });
    let grammar = compile(&one_parameter(&schema).unwrap()).unwrap();
    let admitted: Vec<i32> = (0..12).filter(|n| admits_value(&grammar, &n.to_string())).collect();
    assert_eq!(admitted, [6, 7]);
}
