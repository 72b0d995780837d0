//! Scalars as regular expressions on their JSON text: strings with their escapes, numbers, literals.

use llguidance::derivre::{JsonQuoteOptions, RegexAst, RegexBuilder};
use serde_json::Value;

use super::{format, numeral};
use crate::schema::{Decimal, Number, Text, TextRule, gcd};

/// One character of a JSON string: itself, or an escape where it needs one. DEL may stand as it is, as Python writes it.
const CHARACTER: &str = r#"(?:[^"\\\x00-\x1F]|\\["\\bfnrt]|\\u00[01][0-9a-fA-F])"#;

/// Work that the search for a first match may cost before a pattern is refused as too complex.
const EMPTINESS_FUEL: u64 = 500_000;

/// The largest step and its largest scale: the remainders of larger ones do not fit the automaton's arithmetic.
const STEP_LIMIT: i128 = 400_000_000;
const STEP_SCALE: u32 = 8;

/// Work that the search for a first multiple inside a range may cost before the step is refused.
const STEP_FUEL: u64 = 5_000_000;

/// Why a scalar cannot be compiled: keyword and reason.
pub(super) type Reason = (&'static str, String);

/// Exactly this JSON text.
fn literal(text: &str) -> RegexAst {
    RegexAst::Literal(text.into())
}

/// One of these values, in compact JSON.
pub(super) fn literals<'a>(values: impl IntoIterator<Item = &'a Value>) -> RegexAst {
    RegexAst::Or(values.into_iter().map(|value| literal(&value.to_string())).collect())
}

/// A JSON string within the given lengths.
fn quoted(shortest: u32, longest: Option<u32>) -> RegexAst {
    let times = match longest {
        Some(longest) => format!("{{{shortest},{longest}}}"),
        None if shortest == 0 => "*".into(),
        None => format!("{{{shortest},}}"),
    };
    RegexAst::Regex(format!("\"{CHARACTER}{times}\""))
}

/// Any string.
pub(super) fn string() -> RegexAst {
    quoted(0, None)
}

/// Any number.
pub(super) fn any_number() -> RegexAst {
    RegexAst::Regex(numeral::any())
}

/// A key that nobody declared: any text without escapes, but none of `taken`.
pub(super) fn other_key(taken: &[&str]) -> RegexAst {
    let key = RegexAst::Regex(r#""[^"\\\x00-\x1F]+""#.into());
    if taken.is_empty() {
        return key;
    }
    let taken = taken
        .iter()
        .map(|name| literal(&Value::from(*name).to_string()))
        .collect();
    RegexAst::And(vec![key, RegexAst::Not(Box::new(RegexAst::Or(taken)))])
}

/// The strings that `text` allows.
pub(super) fn text(text: &Text) -> Result<RegexAst, Reason> {
    let mut longest = text.longest;
    let mut parts = Vec::new();
    for rule in &text.rules {
        let inner = match rule {
            TextRule::Format(kind) => {
                longest = [longest, format::longest(*kind)].into_iter().flatten().min();
                RegexAst::Regex(format::expression(*kind))
            }
            TextRule::Pattern(pattern) => search(pattern)?,
        };
        parts.push(RegexAst::JsonQuote(Box::new(inner), JsonQuoteOptions::regular()));
    }
    if parts.is_empty() || text.shortest > 0 || longest.is_some() {
        parts.push(quoted(text.shortest, longest));
    }
    let whole = match parts.len() {
        1 => parts.swap_remove(0),
        _ => RegexAst::And(parts),
    };
    let alone = text.rules.len() == 1 && text.shortest == 0 && text.longest.is_none();
    let free = text.rules.is_empty() || (alone && matches!(text.rules[0], TextRule::Format(_)));
    if !free {
        let keyword = text
            .rules
            .iter()
            .find(|rule| matches!(rule, TextRule::Pattern(_)))
            .map_or("format", |_| "pattern");
        if is_empty(&whole, EMPTINESS_FUEL).map_err(|reason| (keyword, reason))? {
            return Err((keyword, "no string fits it together with the other keywords".into()));
        }
    }
    Ok(whole)
}

/// An ECMA-262 pattern, found anywhere in the string.
fn search(pattern: &str) -> Result<RegexAst, Reason> {
    let refuse = |why: String| ("pattern", format!("{pattern:?} cannot be honoured: {why}"));
    let rust = jsonschema_regex::to_rust_regex(pattern)
        .map_err(|()| refuse("not a regular expression that can be translated".into()))?;
    let ast = RegexAst::SearchRegex(rust.into_owned());
    RegexBuilder::new()
        .mk(&ast)
        .map_err(|error| refuse(last_line(&error.to_string())))?;
    Ok(ast)
}

/// What the parser of patterns says, without the drawing above it.
fn last_line(error: &str) -> String {
    let line = error.lines().rfind(|line| !line.trim().is_empty()).unwrap_or(error);
    line.trim().trim_start_matches("error: ").to_string()
}

fn is_empty(ast: &RegexAst, fuel: u64) -> Result<bool, String> {
    let mut builder = RegexBuilder::new();
    let too_complex = |error| format!("too complex: {error}");
    let expression = builder.mk(ast).map_err(too_complex)?;
    let mut regex = builder.into_regex_limited(expression, fuel).map_err(too_complex)?;
    Ok(regex.always_empty())
}

/// The numbers that `number` allows.
pub(super) fn number(number: &Number) -> Result<RegexAst, Reason> {
    let nothing = || {
        (
            "minimum",
            "no number within the digits that are written fits".to_string(),
        )
    };
    let range = match (number.whole, number.low, number.high) {
        (true, None, None) => numeral::any_whole(),
        (true, low, high) => numeral::whole_range(low, high).ok_or_else(nothing)?,
        (false, None, None) if number.plain || number.step.is_some() => numeral::any_plain(),
        (false, None, None) => numeral::any(),
        (false, low, high) => numeral::range(low, high).ok_or_else(nothing)?,
    };
    let range = RegexAst::Regex(range);
    match number.step {
        None => Ok(range),
        Some(step) => {
            let multiples = multiples(step, number.whole)?;
            near_zero(number, step)?;
            let whole = RegexAst::And(vec![range, multiples]);
            if number.low.is_some() || number.high.is_some() {
                let refuse = |why: String| ("multipleOf", format!("the multiples inside the range are {why}"));
                if is_empty(&whole, STEP_FUEL).map_err(refuse)? {
                    return Err(nothing());
                }
            }
            Ok(whole)
        }
    }
}

/// Refuses a range whose multiples all lie beyond the digits that a double tells apart.
fn near_zero(number: &Number, step: Decimal) -> Result<(), Reason> {
    let (_, scale) = step.parts();
    let limit = Decimal::whole(10_i128.pow(numeral::EXACT_DIGITS as u32 - scale));
    let nearest = match (number.low, number.high) {
        (Some(low), _) if low.value > Decimal::ZERO => low.value,
        (_, Some(high)) if high.value.is_negative() => high.value.negated(),
        _ => return Ok(()),
    };
    match nearest.next_multiple(step).plus(step) < limit {
        true => Ok(()),
        false => Err((
            "multipleOf",
            "the range lies beyond 15 digits, too far to tell multiples apart".into(),
        )),
    }
}

/// The multiples of `step`, in at most 15 digits. With `k` digits after the point a number is a whole count of 10^-k, so it is a multiple where
/// that count is one of `step·10^k`, brought to a whole number by the factors of ten it shares.
fn multiples(step: Decimal, whole: bool) -> Result<RegexAst, Reason> {
    let (coefficient, scale) = step.parts();
    if coefficient > STEP_LIMIT || scale > STEP_SCALE {
        return Err((
            "multipleOf",
            format!("at most {STEP_SCALE} digits after the point and {STEP_LIMIT} in all can be honoured"),
        ));
    }
    let digits = numeral::EXACT_DIGITS - scale as usize;
    let short = RegexAst::Regex(format!("-?[0-9]{{1,{digits}}}(?:\\.[0-9]+)?"));
    let mut forms = Vec::new();
    for k in 0..=scale {
        let shared = gcd(coefficient, 10_i128.pow(scale - k));
        forms.push(RegexAst::MultipleOf((coefficient / shared) as u32, k));
    }
    if !whole {
        // Zeros may follow, as in 10.0 or 1.50.
        let tail = if scale == 0 {
            format!("\\.0{{1,{digits}}}")
        } else {
            format!("0{{1,{digits}}}")
        };
        forms.push(RegexAst::Concat(vec![
            RegexAst::MultipleOf(coefficient as u32, scale),
            RegexAst::Regex(tail),
        ]));
    }
    let sign = RegexAst::Regex("-?".into());
    let multiple = RegexAst::Concat(vec![sign, RegexAst::Or(forms)]);
    Ok(RegexAst::And(vec![multiple, short]))
}
