//! Numbers written in a text, and the numeric arguments that equal one of them.

use std::collections::BTreeSet;

use serde_json::{Number, Value};

use super::{
    dates::child,
    scan::{Scan, is_word},
};

/// Paths of the numeric arguments whose value is written in one of the texts.
///
/// Values are compared as decimals: 5, 5.0 and 5e0 are one. "4b" and "10%" license 4 and 10; a number that follows a
/// letter, a dot or a comma does not count. Booleans are no numbers.
pub(super) fn written_paths(texts: [&str; 2], arguments: &Value) -> BTreeSet<String> {
    let numbers: BTreeSet<Decimal> = texts.into_iter().flat_map(written_numbers).collect();
    let mut paths = BTreeSet::new();
    walk(&numbers, arguments, String::new(), &mut paths);
    paths
}

fn walk(numbers: &BTreeSet<Decimal>, value: &Value, path: String, paths: &mut BTreeSet<String>) {
    match value {
        Value::Number(number) if is_written(numbers, number) => {
            paths.insert(path);
        }
        Value::Object(fields) => {
            fields
                .iter()
                .for_each(|(key, value)| walk(numbers, value, child(&path, key), paths));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| walk(numbers, value, format!("{path}[{index}]"), paths));
        }
        _ => {}
    }
}

fn is_written(numbers: &BTreeSet<Decimal>, number: &Number) -> bool {
    Decimal::parse(&number.to_string()).is_some_and(|number| numbers.contains(&number))
}

/// All numbers of a text, date facts cut out first so that the day and the year of a date license nothing.
fn written_numbers(text: &str) -> BTreeSet<Decimal> {
    let text = without_date_facts(text);
    let mut numbers = BTreeSet::new();
    let mut at = 0;
    while at < text.len() {
        match number_end(&text, at) {
            Some(end) => {
                numbers.extend(Decimal::parse(&text.latin(at, end).replace(',', "")));
                at = end;
            }
            None => at += 1,
        }
    }
    numbers
}

/// The end of the number that begins here, sign included.
fn number_end(text: &Scan, at: usize) -> Option<usize> {
    if text.before(at).is_some_and(|c| is_word(c) || c == '.' || c == ',') {
        return None;
    }
    let from = if matches!(text.at(at)?, '-' | '+') { at + 1 } else { at };
    let plain = text.digits(from);
    if plain == from {
        return None;
    }
    let end = if plain - from <= 3 {
        thousands(text, plain)
    } else {
        plain
    };
    let fraction = text.word(end, ".").map_or(end, |dot| text.digits(dot));
    Some(if fraction > end + 1 { fraction } else { end })
}

/// The end of as many groups of a comma and exactly three digits as follow.
fn thousands(text: &Scan, mut at: usize) -> usize {
    while let Some(end) = text.shape(at, ",000").filter(|end| !text.is_digit(*end)) {
        at = end;
    }
    at
}

/// The text with "date: 2026-07-31 Fri 09:00" and "2026-07-31T09:00" replaced by a space.
fn without_date_facts(text: &str) -> Scan {
    let text = Scan::new(text);
    let mut kept = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(c) = text.at(at) {
        let fact = date_fact(&text, at).or_else(|| time_stamp(&text, at));
        kept.push(if fact.is_some() { ' ' } else { c });
        at = fact.unwrap_or(at + 1);
    }
    kept.into()
}

fn date_fact(text: &Scan, at: usize) -> Option<usize> {
    let key = text.word(at, "date:")?;
    let date = text.shape(text.spaces(key), "0000-00-00")?;
    let weekday = text
        .some_spaces(date)
        .filter(|at| text.skip(*at, |c| c.is_ascii_alphabetic()) >= at + 3);
    let date = weekday.map_or(date, |at| at + 3);
    let time = text.some_spaces(date).and_then(|at| text.shape(at, "00:00"));
    Some(time.unwrap_or(date))
}

fn time_stamp(text: &Scan, at: usize) -> Option<usize> {
    let minutes = text.shape(at, "0000-00-00T00:00")?;
    Some(text.shape(minutes, ":00").unwrap_or(minutes))
}

/// A decimal number in one spelling: digits without zeros at either end, and the power of ten of the last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads `[+-]digits[.digits][e[+-]digits]`, the forms of JSON and of the texts.
    fn parse(literal: &str) -> Option<Self> {
        let negative = literal.starts_with('-');
        let unsigned = literal.strip_prefix(['-', '+']).unwrap_or(literal);
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = all.trim_end_matches('0');
        let zeros = i64::try_from(all.len() - digits.len()).ok()?;
        let shift = zeros.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        let exponent = exponent.parse::<i64>().ok()?.checked_add(shift)?;
        let digits = digits.trim_start_matches('0').to_owned();
        let is_zero = digits.is_empty();
        Some(Self {
            negative: negative && !is_zero,
            exponent: if is_zero { 0 } else { exponent },
            digits,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_of_a_text() {
        let cases: &[(&str, &[&str])] = &[
            ("split 1,234.50 in 3", &["1234.5", "3"]),
            ("4b and 10%", &["4", "10"]),
            ("b4, .5 and 5.", &["5"]),
            ("10-20", &["10", "20"]),
            ("at -5 or +6, --7", &["-5", "6", "-7"]),
            ("1,2345 and 1234,567", &["1", "1234"]),
            ("1,234,5678", &["1234"]),
            ("1,234,567", &["1234567"]),
            ("3.14.15 2,5", &["3.14", "2"]),
            ("007", &["7"]),
            ("٤٢ ５", &["42", "5"]),
            ("date: 2026-07-31 Fri 14:20; battery 40%", &["40"]),
            ("update: 2026-07-31 14:20 at 2026-07-31T14:20:05 9", &["9"]),
            ("Date: 2026-07-31", &["2026", "7", "31"]),
            ("", &[]),
        ];
        for (text, numbers) in cases {
            let numbers: BTreeSet<_> = numbers.iter().map(|number| Decimal::parse(number).unwrap()).collect();
            assert_eq!(written_numbers(text), numbers, "{text:?}");
        }
    }

    #[test]
    fn decimals_have_one_spelling() {
        let parse = |literal| Decimal::parse(literal).unwrap();
        for same in [
            ["5", "5.0"],
            ["5e0", "0.5E+1"],
            ["-0", "0.00"],
            ["1200", "12e2"],
            ["+7", "007"],
        ] {
            assert_eq!(parse(same[0]), parse(same[1]), "{same:?}");
        }
        assert_ne!(parse("12345678901234567890.5"), parse("12345678901234567890.25"));
        assert_ne!(parse("5"), parse("-5"));
        assert_eq!(Decimal::parse("1e99999999999999999999"), None);
        assert_eq!(Decimal::parse("-"), None);
        assert_eq!(Decimal::parse("1e"), None);
    }

    #[test]
    fn paths_of_written_numbers() {
        let arguments = json!({"a": 5.0, "b": [1, {"c": 1234.5}], "d": true, "e": "5", "f": 99});
        let paths = written_paths(["5 times 1,234.50", "1"], &arguments);
        assert_eq!(paths.into_iter().collect::<Vec<_>>(), ["a", "b[0]", "b[1].c"]);
    }
}
