//! Regular expressions for the numbers of a range, compared as decimal text: exact where doubles are not.

use crate::schema::{Bound, Decimal};

/// Digits before the point of a number that carries a bound.
const WHOLE_DIGITS: usize = 20;
/// Digits on either side of the point that a double can tell apart.
pub(super) const EXACT_DIGITS: usize = 15;
/// Digits on either side of the point of a number without bounds.
const FREE_DIGITS: usize = 36;

/// Any whole number. `-0` is left out: readers disagree whether it is one.
pub(super) fn any_whole() -> String {
    format!("0|-?[1-9][0-9]{{0,{}}}", FREE_DIGITS - 1)
}

/// Any number without an exponent.
pub(super) fn any_plain() -> String {
    format!(
        "-?(?:0|[1-9][0-9]{{0,{}}})(?:\\.[0-9]{{1,{FREE_DIGITS}}})?",
        FREE_DIGITS - 1
    )
}

/// Any number; with an exponent it has one digit before the point and stays within what a double holds.
pub(super) fn any() -> String {
    let exponent = "[eE](?:\\+?(?:[0-9]{1,2}|[12][0-9]{2}|30[0-7])|-(?:[0-9]{1,2}|[12][0-9]{2}|3[01][0-9]|32[0-4]))";
    format!("{}|-?[1-9](?:\\.[0-9]{{1,{FREE_DIGITS}}})?{exponent}", any_plain())
}

/// The whole numbers of a range with whole, inclusive ends.
pub(super) fn whole_range(low: Option<Bound>, high: Option<Bound>) -> Option<String> {
    let (low, high) = (
        low.map(|bound| bound.value.floor()),
        high.map(|bound| bound.value.floor()),
    );
    let mut parts = Vec::new();
    if high.is_none_or(|high| high >= 0) {
        parts.extend(naturals(
            low.unwrap_or(0).max(0).unsigned_abs(),
            high.map(i128::unsigned_abs),
        ));
    }
    if low.is_none_or(|low| low < 0) {
        let nearest = high.map_or(1, |high| (-high).max(1)).unsigned_abs();
        let negative = naturals(nearest, low.map(i128::unsigned_abs));
        parts.extend(negative.map(|digits| format!("-(?:{digits})")));
    }
    join(parts)
}

/// The numbers of a range, written without an exponent.
pub(super) fn range(low: Option<Bound>, high: Option<Bound>) -> Option<String> {
    let zero = |inclusive| Bound {
        value: Decimal::ZERO,
        inclusive,
    };
    let mut parts = Vec::new();
    if high.is_none_or(|high| !high.value.is_negative()) {
        let from = low.filter(|low| !low.value.is_negative()).unwrap_or(zero(true));
        parts.extend(magnitudes(from, high));
    }
    if low.is_none_or(|low| low.value.is_negative()) {
        let from = high
            .filter(|high| high.value.is_negative())
            .map_or(zero(false), mirrored);
        parts.extend(magnitudes(from, low.map(mirrored)).map(|digits| format!("-(?:{digits})")));
    }
    join(parts)
}

fn mirrored(bound: Bound) -> Bound {
    Bound {
        value: bound.value.negated(),
        ..bound
    }
}

/// The numbers of a range at or above zero.
fn magnitudes(low: Bound, high: Option<Bound>) -> Option<String> {
    let start = low.value.floor().unsigned_abs();
    let end = high.map(|high| high.value.floor().unsigned_abs());
    let digits = |n: u128| n.to_string().len();
    let room = EXACT_DIGITS.saturating_sub(digits(end.unwrap_or(start).max(start)));
    let (low_digits, high_digits) = (low.value.fraction(), high.map(|high| high.value.fraction()));
    let from = Edge {
        digits: low_digits.as_bytes(),
        inclusive: low.inclusive,
    };
    let to = high.zip(high_digits.as_ref()).map(|(high, digits)| Edge {
        digits: digits.as_bytes(),
        inclusive: high.inclusive,
    });
    let mut parts = Vec::new();
    if end == Some(start) {
        parts.extend(with_fraction(start.to_string(), Some(from), to, room));
        return join(parts);
    }
    if end.is_some_and(|end| end < start) {
        return None;
    }
    parts.extend(with_fraction(start.to_string(), Some(from), None, room));
    let inner = match end {
        Some(end) => (end > start + 1).then(|| naturals(start + 1, Some(end - 1))).flatten(),
        None => naturals(start + 1, None),
    };
    parts.extend(inner.and_then(|whole| with_fraction(format!("(?:{whole})"), None, None, room)));
    if let Some(end) = end {
        parts.extend(with_fraction(end.to_string(), None, to, room));
    }
    join(parts)
}

/// `whole`, followed by the fractions between two edges, or by none where none is needed.
fn with_fraction(whole: String, low: Option<Edge<'_>>, high: Option<Edge<'_>>, room: usize) -> Option<String> {
    match (may_end(low, high), fractions(low, high, room)) {
        (true, Some(digits)) => Some(format!("{whole}(?:\\.(?:{digits}))?")),
        (true, None) => Some(whole),
        (false, Some(digits)) => Some(format!("{whole}\\.(?:{digits})")),
        (false, None) => None,
    }
}

/// What is left of a bound's digits after the point, the ones before having been equal. No trailing zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edge<'a> {
    digits: &'a [u8],
    inclusive: bool,
}

impl<'a> Edge<'a> {
    /// The next digit, and the edge after it.
    fn split(self) -> (u8, Self) {
        match self.digits.split_first() {
            Some((first, rest)) => (*first, Self { digits: rest, ..self }),
            None => (b'0', self),
        }
    }
}

/// Whether the digits may end here.
fn may_end(low: Option<Edge<'_>>, high: Option<Edge<'_>>) -> bool {
    low.is_none_or(|low| low.digits.is_empty() && low.inclusive)
        && high.is_none_or(|high| !high.digits.is_empty() || high.inclusive)
}

/// One to `room` digits between two edges.
fn fractions(low: Option<Edge<'_>>, high: Option<Edge<'_>>, room: usize) -> Option<String> {
    if room == 0 {
        return None;
    }
    let low = low.filter(|low| !(low.digits.is_empty() && low.inclusive));
    match (low, high) {
        (None, None) => return Some(format!("[0-9]{{1,{room}}}")),
        (None, Some(high)) if high.digits.is_empty() => return high.inclusive.then(|| format!("0{{1,{room}}}")),
        (Some(low), None) if low.digits.is_empty() => {
            // Above zero: some digit is not zero.
            let rest = room - 1;
            return Some(format!("0{{0,{rest}}}[1-9][0-9]{{0,{rest}}}"));
        }
        (Some(low), Some(high)) if low.digits.is_empty() && high.digits.is_empty() => return None,
        _ => {}
    }
    let next = |digit: u8| -> Option<(Option<Edge<'_>>, Option<Edge<'_>>)> {
        let after_low = match low.map(Edge::split) {
            Some((first, _)) if digit < first => return None,
            Some((first, rest)) if digit == first => Some(rest),
            _ => None,
        };
        let after_high = match high.map(Edge::split) {
            Some((first, _)) if digit > first => return None,
            Some((first, rest)) if digit == first => Some(rest),
            _ => None,
        };
        Some((after_low, after_high))
    };
    let mut parts = Vec::new();
    let mut digit = b'0';
    while digit <= b'9' {
        let Some((low, high)) = next(digit) else {
            digit += 1;
            continue;
        };
        let first = digit;
        while digit <= b'9' && next(digit) == Some((low, high)) {
            digit += 1;
        }
        let class = match digit - 1 {
            last if last == first => char::from(first).to_string(),
            last => format!("[{}-{}]", char::from(first), char::from(last)),
        };
        parts.extend(match (may_end(low, high), fractions(low, high, room - 1)) {
            (true, Some(rest)) => Some(format!("{class}(?:{rest})?")),
            (true, None) => Some(class),
            (false, Some(rest)) => Some(format!("{class}(?:{rest})")),
            (false, None) => None,
        });
    }
    join(parts)
}

/// The naturals of a range, without leading zeros.
fn naturals(low: u128, high: Option<u128>) -> Option<String> {
    let longest = high.map_or(low.to_string().len(), |high| high.to_string().len());
    let mut parts = Vec::new();
    for length in low.to_string().len()..=longest {
        let least = if length == 1 { 0 } else { 10_u128.pow(length as u32 - 1) };
        let most = 10_u128.pow(length as u32) - 1;
        let (from, to) = (least.max(low), high.map_or(most, |high| most.min(high)));
        if from <= to {
            parts.push(same_length(from.to_string().as_bytes(), to.to_string().as_bytes()));
        }
    }
    if high.is_none() && longest < WHOLE_DIGITS {
        parts.push(format!("[1-9][0-9]{{{longest},{}}}", WHOLE_DIGITS - 1));
    }
    join(parts)
}

/// The digit strings between two of the same length.
fn same_length(low: &[u8], high: &[u8]) -> String {
    let (Some((l, low_rest)), Some((h, high_rest))) = (low.split_first(), high.split_first()) else {
        return String::new();
    };
    let rest = low_rest.len();
    let is = |digits: &[u8], digit: u8| digits.iter().all(|d| *d == digit);
    let class = |from: u8, to: u8| match from == to {
        true => char::from(from).to_string(),
        false => format!("[{}-{}]", char::from(from), char::from(to)),
    };
    if is(low_rest, b'0') && is(high_rest, b'9') {
        return match rest {
            0 => class(*l, *h),
            _ => format!("{}[0-9]{{{rest}}}", class(*l, *h)),
        };
    }
    if l == h {
        return format!("{}(?:{})", char::from(*l), same_length(low_rest, high_rest));
    }
    let (mut from, mut to, mut parts) = (*l, *h, Vec::new());
    if !is(low_rest, b'0') {
        parts.push(format!(
            "{}(?:{})",
            char::from(*l),
            same_length(low_rest, &vec![b'9'; rest])
        ));
        from += 1;
    }
    if !is(high_rest, b'9') {
        parts.push(format!(
            "{}(?:{})",
            char::from(*h),
            same_length(&vec![b'0'; rest], high_rest)
        ));
        to -= 1;
    }
    if from <= to {
        parts.push(format!("{}[0-9]{{{rest}}}", class(from, to)));
    }
    parts.join("|")
}

fn join(parts: Vec<String>) -> Option<String> {
    (!parts.is_empty()).then(|| parts.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(text: &str, inclusive: bool) -> Option<Bound> {
        Decimal::parse(text).ok().map(|value| Bound { value, inclusive })
    }

    fn matches(pattern: &str, text: &str) -> bool {
        let mut regex = llguidance::derivre::Regex::new(pattern).unwrap();
        regex.is_match(text)
    }

    #[test]
    fn whole_ranges_hold_exactly_their_numbers() {
        for (low, high) in [
            (0, 0),
            (0, 100),
            (-7, 13),
            (-120, -35),
            (99, 1001),
            (5, 5),
            (-1, 0),
            (37, 4096),
        ] {
            let pattern = whole_range(bound(&low.to_string(), true), bound(&high.to_string(), true)).unwrap();
            for n in -1200..5200 {
                assert_eq!(
                    matches(&pattern, &n.to_string()),
                    (low..=high).contains(&n),
                    "{n} in {low}..={high}: {pattern}"
                );
            }
            for text in ["-0", "00", "01", "1.0", "1e1", ""] {
                assert!(!matches(&pattern, text), "{text:?}: {pattern}");
            }
        }
        let above = whole_range(bound("250", true), None).unwrap();
        let below = whole_range(None, bound("-3", true)).unwrap();
        for n in -400..3000 {
            assert_eq!(matches(&above, &n.to_string()), n >= 250, "{n}");
            assert_eq!(matches(&below, &n.to_string()), n <= -3, "{n}");
        }
    }

    #[test]
    fn ranges_hold_exactly_their_decimals() {
        let cases = [
            (Some("0"), true, Some("1"), true),
            (Some("0"), false, Some("1"), false),
            (Some("-1.5"), true, Some("2.25"), false),
            (Some("0.13"), false, Some("0.5"), true),
            (Some("-3.07"), false, Some("-3.01"), true),
            (Some("2"), false, None, true),
            (None, true, Some("-0.4"), false),
            (Some("1.25"), true, Some("1.25"), true),
            (Some("0.99"), true, Some("3.001"), true),
        ];
        for (low, low_inclusive, high, high_inclusive) in cases {
            let low = low.and_then(|low| bound(low, low_inclusive));
            let high = high.and_then(|high| bound(high, high_inclusive));
            let pattern = range(low, high).unwrap();
            for thousandths in -4100..4100_i32 {
                let sign = if thousandths < 0 { "-" } else { "" };
                let full = format!("{sign}{}.{:03}", thousandths.abs() / 1000, thousandths.abs() % 1000);
                let value = Decimal::parse(&full).unwrap();
                let inside = low.is_none_or(|low| value > low.value || (value == low.value && low.inclusive))
                    && high.is_none_or(|high| value < high.value || (value == high.value && high.inclusive));
                let short = full.trim_end_matches('0').trim_end_matches('.');
                for text in [full.as_str(), short] {
                    assert_eq!(
                        matches(&pattern, text),
                        inside,
                        "{text} in {low:?}..{high:?}: {pattern}"
                    );
                }
            }
        }
    }
}
