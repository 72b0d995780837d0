//! Compact JSON in the spelling that the model was trained on: Python's `json.dumps(…, separators=(",", ":"),
//! ensure_ascii=False)`.
//!
//! The model reads JSON as text, so `1e-7` and `1e-07` are different prompts. Keys keep their order; of a key that was given
//! twice the last value wins, at the place of the first (both are `serde_json`'s own doing).

use std::fmt::Write;

use serde_json::{Number, Value};

/// Writes a value without white space.
///
/// Whole numbers keep their digits, however many. A number with a fraction or an exponent is spelt as Python spells the
/// nearest 64-bit float; one too large for that keeps the spelling it came with, where Python would write `Infinity`,
/// which is not JSON.
pub fn compact(value: &Value) -> String {
    let mut json = String::new();
    write_value(&mut json, value);
    json
}

fn write_value(json: &mut String, value: &Value) {
    match value {
        Value::Null => json.push_str("null"),
        Value::Bool(true) => json.push_str("true"),
        Value::Bool(false) => json.push_str("false"),
        Value::Number(number) => json.push_str(&spell(number)),
        Value::String(text) => write_text(json, text),
        Value::Array(values) => {
            json.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                write_value(json, value);
            }
            json.push(']');
        }
        Value::Object(fields) => {
            json.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                write_text(json, key);
                json.push(':');
                write_value(json, value);
            }
            json.push('}');
        }
    }
}

fn write_text(json: &mut String, text: &str) {
    json.push('"');
    for char in text.chars() {
        match char {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\u{8}' => json.push_str("\\b"),
            '\t' => json.push_str("\\t"),
            '\n' => json.push_str("\\n"),
            '\u{c}' => json.push_str("\\f"),
            '\r' => json.push_str("\\r"),
            // Writing to a `String` cannot fail.
            '\0'..' ' => drop(write!(json, "\\u{:04x}", char as u32)),
            _ => json.push(char),
        }
    }
    json.push('"');
}

fn spell(number: &Number) -> String {
    let digits = number.to_string();
    if !digits.contains(['.', 'e', 'E']) {
        // Python reads `-0` as the whole number 0.
        return if digits == "-0" { "0".to_owned() } else { digits };
    }
    match digits.parse() {
        Ok(value) if f64::is_finite(value) => repr(value),
        _ => digits,
    }
}

/// Python's `repr` of a finite float: the shortest digits that read back the same, in plain notation from 1e-4 up to below
/// 1e16, otherwise with an exponent of at least two digits.
fn repr(value: f64) -> String {
    let shortest = format!("{value:e}");
    let Some((digits, exponent)) = shortest.split_once('e') else {
        return shortest;
    };
    // Of two shortest spellings that are equally near, Rust takes the larger and Python the even one, which is also what
    // rounding to that many digits gives.
    let decimals = digits.bytes().filter(u8::is_ascii_digit).count() - 1;
    match exponent.parse() {
        Ok(exponent @ -4..16) => {
            let decimals = (decimals as i32 - exponent).max(1) as usize;
            format!("{value:.decimals$}")
        }
        _ => {
            let rounded = format!("{value:.decimals$e}");
            let digits = rounded.split_once('e').map_or(digits, |(digits, _)| digits);
            match exponent.strip_prefix('-') {
                Some(exponent) => format!("{digits}e-{exponent:0>2}"),
                None => format!("{digits}e+{exponent:0>2}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(json: &str) -> String {
        compact(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn numbers_are_spelt_as_python_spells_them() {
        let cases = [
            ("1e-7", "1e-07"),
            ("1E16", "1e+16"),
            ("1e15", "1000000000000000.0"),
            ("9999999999999998.0", "9999999999999998.0"),
            ("0.0001", "0.0001"),
            ("0.00009999999999999999", "9.999999999999999e-05"),
            ("-1.5E+3", "-1500.0"),
            ("1.0", "1.0"),
            ("-0.0", "-0.0"),
            ("-0", "0"),
            ("-0e3", "-0.0"),
            ("1.5e300", "1.5e+300"),
            ("5e-324", "5e-324"),
            ("1e-400", "0.0"),
            ("0.1", "0.1"),
            ("926040571409173.25", "926040571409173.2"),
            ("926040571409173.75", "926040571409173.8"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("12345678901234567890123456789.0", "1.2345678901234568e+28"),
        ];
        for (given, expected) in cases {
            assert_eq!(again(given), expected, "{given}");
        }
        assert_eq!(compact(&serde_json::json!([1.5, 1e-7, 3, -2])), "[1.5,1e-07,3,-2]");
    }

    #[test]
    fn a_number_beyond_all_floats_stays_a_number() {
        let value: Value = serde_json::from_str(&again("-1e400")).unwrap();
        assert!(value.is_number());
        assert_eq!(again("1.25E400").to_lowercase().replace('+', ""), "1.25e400");
    }

    #[test]
    fn text_stays_raw_but_for_what_json_forbids() {
        let given = r#"{ "k": "\u0000\u001f\u007f\u0080\u2028\/\b\f\r\n\t\\\"", "é": [ ], "😀": { } }"#;
        let expected = "{\"k\":\"\\u0000\\u001f\u{7f}\u{80}\u{2028}/\\b\\f\\r\\n\\t\\\\\\\"\",\"é\":[],\"😀\":{}}";
        assert_eq!(again(given), expected);
    }

    #[test]
    fn the_last_of_equal_keys_wins_at_the_place_of_the_first() {
        assert_eq!(again(r#"{"b":1,"a":2,"b":3}"#), r#"{"b":3,"a":2}"#);
    }
}
