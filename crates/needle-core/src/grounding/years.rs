//! Which years a text names, and whether it reasons from today.
//!
//! A number is a year only in five shapes: after day and month, after month and day, after a month (three or four
//! digits), after the word "year", and at the front of a numeric date that begins with it. So `5/6/24` names none: its
//! first number is a day or a month, and taking it for a year would make every date of the conversation look wrong.

use std::{collections::BTreeSet, ops::RangeInclusive};

use super::scan::Scan;

/// The short form of each month and what the long form adds.
const MONTHS: [(&str, &str); 12] = [
    ("jan", "uary"),
    ("feb", "ruary"),
    ("mar", "ch"),
    ("apr", "il"),
    ("may", ""),
    ("jun", "e"),
    ("jul", "y"),
    ("aug", "ust"),
    ("sep", "tember"),
    ("oct", "ober"),
    ("nov", "ember"),
    ("dec", "ember"),
];

/// Words that make a date depend on today.
const CUES: [&str; 15] = [
    "today",
    "tonight",
    "tomorrow",
    "yesterday",
    "next",
    "this",
    "coming",
    "now",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

const UNITS: [&str; 4] = ["day", "week", "month", "year"];

/// A year and where it ends, if the shape starts at this position.
type Shape = fn(&Scan, usize) -> Option<(i32, usize)>;

/// Years that a text mentions.
///
/// ```text
/// 2026-09-01 → 2026    March 3rd, 2025 → 2025    in march 300 → 300    year 7 → 7
/// 5/6/24, 12/31/24, 2026.09.01, 5 June 19:30, June 5 7 pm → none
/// ```
pub fn source_years(text: &str) -> BTreeSet<i32> {
    const SHAPES: [Shape; 5] = [day_month_year, month_day_year, month_year, word_year, numeric_date];
    let text = Scan::lower_case(text);
    let mut years = BTreeSet::new();
    for shape in SHAPES {
        let mut at = 0;
        while at < text.len() {
            if let Some((year, end)) = shape(&text, at) {
                years.insert(year);
                at = end;
            } else {
                at += 1;
            }
        }
    }
    years
}

/// Whether the text reasons from today: "tomorrow", "next", "this", a weekday, "in 3 weeks".
pub(super) fn is_relative(text: &str) -> bool {
    let text = Scan::lower_case(text);
    (0..text.len()).filter(|at| text.begins_word(*at)).any(|at| {
        CUES.iter()
            .any(|cue| text.word(at, cue).is_some_and(|end| text.ends_word(end)))
            || is_distance(&text, at)
    })
}

/// "in 3 weeks", with single spaces.
fn is_distance(text: &Scan, at: usize) -> bool {
    let Some(from) = text.word(at, "in ") else { return false };
    let to = text.digits(from);
    let Some(unit) = text.word(to, " ").filter(|_| to > from) else {
        return false;
    };
    UNITS
        .iter()
        .filter_map(|name| text.word(unit, name))
        .any(|end| text.ends_word(text.word(end, "s").unwrap_or(end)))
}

/// "5 June 2026", "5th of" is no such date.
fn day_month_year(text: &Scan, at: usize) -> Option<(i32, usize)> {
    let at = day(text, word_begin(text, at)?)?;
    let at = month(text, text.some_spaces(at)?)?;
    number(text, gap(text, at)?, 1..=4).filter(|(_, end)| !is_time(text, *end))
}

/// "June 5th, 2026".
fn month_day_year(text: &Scan, at: usize) -> Option<(i32, usize)> {
    let at = month(text, word_begin(text, at)?)?;
    let at = day(text, text.some_spaces(at)?)?;
    let at = match text.word(text.spaces(at), ",") {
        Some(comma) => text.some_spaces(comma)?,
        None => text.some_spaces(at)?,
    };
    number(text, at, 1..=4).filter(|(_, end)| !is_time(text, *end))
}

/// "June 2026", "in march 300".
fn month_year(text: &Scan, at: usize) -> Option<(i32, usize)> {
    let at = month(text, word_begin(text, at)?)?;
    number(text, gap(text, at)?, 3..=4)
}

/// "year 2026".
fn word_year(text: &Scan, at: usize) -> Option<(i32, usize)> {
    let at = text.word(word_begin(text, at)?, "year")?;
    number(text, text.some_spaces(at)?, 1..=4)
}

/// "2026-09-01", "2026/9/1", also inside a word.
fn numeric_date(text: &Scan, at: usize) -> Option<(i32, usize)> {
    if at > 0 && text.is_digit(at - 1) {
        return None;
    }
    let end = text.digits(at);
    let middle = text.digits(separator(text, end)?);
    let last = separator(text, middle)?;
    let short = |from: usize, to: usize| (1..=2).contains(&(to - from));
    let fits = end - at == 4 && short(end + 1, middle) && short(last, text.digits(last));
    fits.then(|| Some((value(text, at, end)?, end)))?
}

fn word_begin(text: &Scan, at: usize) -> Option<usize> {
    text.begins_word(at).then_some(at)
}

fn separator(text: &Scan, at: usize) -> Option<usize> {
    matches!(text.at(at)?, '-' | '/').then_some(at + 1)
}

/// One or two digits, "st", "nd", "rd" or "th".
fn day(text: &Scan, at: usize) -> Option<usize> {
    let end = text.digits(at);
    let suffix = ["st", "nd", "rd", "th"]
        .iter()
        .find_map(|suffix| text.word(end, suffix));
    (1..=2).contains(&(end - at)).then(|| suffix.unwrap_or(end))
}

/// The name of a month, long, short or "sept", and its dot.
fn month(text: &Scan, at: usize) -> Option<usize> {
    let end = MONTHS.iter().find_map(|(short, rest)| {
        let end = text.word(at, short)?;
        let sept = || text.word(end, "t").filter(|_| *short == "sep");
        Some(text.word(end, rest).or_else(sept).unwrap_or(end))
    })?;
    Some(text.word(end, ".").unwrap_or(end))
}

/// At least one space or comma.
fn gap(text: &Scan, at: usize) -> Option<usize> {
    Some(text.skip(at, |c| c == ',' || c.is_whitespace())).filter(|end| *end > at)
}

/// A number of so many digits that no letter follows.
fn number(text: &Scan, at: usize, digits: RangeInclusive<usize>) -> Option<(i32, usize)> {
    let end = text.digits(at);
    let stands_alone = !text.at(end).is_some_and(|c| c.is_ascii_alphabetic());
    (digits.contains(&(end - at)) && stands_alone).then(|| Some((value(text, at, end)?, end)))?
}

/// Whether what follows a number makes it an hour: ":30", " p.m".
fn is_time(text: &Scan, at: usize) -> bool {
    let is_half_day = || {
        let half = text.spaces(at);
        let dot = text.word(half + 1, ".").unwrap_or(half + 1);
        matches!(text.at(half), Some('a' | 'p')) && text.word(dot, "m").is_some_and(|end| text.ends_word(end))
    };
    text.shape(at, ":0").is_some() || is_half_day()
}

fn value(text: &Scan, from: usize, to: usize) -> Option<i32> {
    text.latin(from, to).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_are_years_and_shapes_that_are_not() {
        let cases: &[(&str, &[i32])] = &[
            ("on 2026-09-01", &[2026]),
            ("2026/9/1 and 2027/12/31", &[2026, 2027]),
            ("v2026-09-01T10:00", &[2026]),
            ("5/6/24", &[]),
            ("12/31/24", &[]),
            ("12/31/2024", &[]),
            ("2026.09.01", &[]),
            ("12026-09-01", &[]),
            ("2026-09-011", &[]),
            ("2026-9", &[]),
            ("5 June 2026", &[2026]),
            ("5th\nJUNE, 2026", &[2026]),
            ("5 June 19:30", &[]),
            ("June 5 7 pm", &[]),
            ("June 5 7 p.m.", &[]),
            ("June 5 7 people", &[7]),
            ("June 5th, 2026", &[2026]),
            ("June 5,2026", &[]),
            ("Sept. 5, 2026", &[2026]),
            ("in march 300", &[300]),
            ("in march 30", &[]),
            ("june 930 pm", &[930]),
            ("remarch 300", &[]),
            ("5 june 2026b", &[]),
            ("year 7", &[7]),
            ("years 7", &[]),
            ("year 20261", &[]),
            ("1 may 3 may 2024", &[3, 2024]),
            ("２０２６-０９-０１", &[2026]),
            ("", &[]),
        ];
        for (text, years) in cases {
            assert_eq!(source_years(text), years.iter().copied().collect(), "{text:?}");
        }
    }

    #[test]
    fn words_that_reason_from_today() {
        for text in [
            "Tomorrow at 5",
            "in 3 weeks",
            "in 1 day",
            "this one",
            "next-week",
            "on FRIDAY",
        ] {
            assert!(is_relative(text), "{text:?}");
        }
        for text in [
            "",
            "nowhere",
            "in 3  weeks",
            "in three weeks",
            "in weeks",
            "fridays",
            "within 3 weeks",
            "in 3 dayss",
        ] {
            assert!(!is_relative(text), "{text:?}");
        }
    }
}
