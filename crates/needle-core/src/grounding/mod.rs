//! Whether a call says what the user said: years of dates, numbers, negation, and the date that the model is told.
//!
//! The rules for years, numbers and the date fact are those of cactus-needle 3.2.8, found by running its pure functions;
//! `tests/golden/grounding.jsonl` holds what they answered. Its engine, which alone decides `negation` there, is closed,
//! so [`negation()`] is a rule of our own. Nothing here reads files or looks at tensors: text and JSON in, names out.
//!
//! A date is doubted only against a year that somebody wrote. Where no text names a year, nothing is marked, and marking
//! removes nothing: a strict run asks [`unforgiven`] before it executes, a strict extraction [`extraction_faults`].
//!
//! Where the reference's answer would punish a right call we differ, each time towards marking less or blaming the right
//! thing, and each is tested:
//!
//! | case | reference | here |
//! | --- | --- | --- |
//! | "due 5 June 24", argument 2024-06-05 | marked: 24 is not 2024 | a year of two digits allows every year that ends in it |
//! | a tool result names a year | from then on dates are checked | allowed besides the user's years, starts no check |
//! | a tool's name has a dot | its marks are lost, the tool runs | the whole name is taken off |
//! | `$ref` to `#` or into a list | not followed, or a crash | followed |
//! | numbers beyond 17 digits | compared as rounded | compared as written |
//! | "5２０２６": Latin and other digits in one number | cut where the script changes | one number |

mod clock;
mod dates;
mod negation;
mod numbers;
mod scan;
mod strict;
mod years;

use std::collections::BTreeSet;

pub use clock::{LocalTime, with_date};
pub use dates::ungrounded;
pub use negation::negation;
pub use strict::{NEGATED_REQUEST, extraction_faults, unforgiven};
pub use years::source_years;

/// What a conversation has said so far, as far as dates and numbers are concerned.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    system: String,
    system_years: BTreeSet<i32>,
    user_years: BTreeSet<i32>,
    result_years: BTreeSet<i32>,
}

impl Sources {
    /// A conversation that has just begun. `system` is the text the model sees, the date put in by [`with_date`] included.
    pub fn new(system: Option<&str>) -> Self {
        let system = system.unwrap_or_default();
        Self {
            system: system.into(),
            system_years: source_years(system),
            ..Self::default()
        }
    }

    /// Remembers what the user wrote, until [`Self::reset`].
    pub fn note(&mut self, text: &str) {
        self.user_years.extend(source_years(text));
    }

    /// Remembers what a tool answered. Its years are allowed in later dates, but do not make dates checked.
    pub fn note_result(&mut self, text: &str) {
        self.result_years.extend(source_years(text));
    }

    /// Forgets the turns and keeps the system text.
    pub fn reset(&mut self) {
        self.user_years.clear();
        self.result_years.clear();
    }

    /// The system text.
    pub fn system(&self) -> &str {
        &self.system
    }

    /// The years that a date of this turn may carry; empty where dates are not to be checked.
    ///
    /// They are the user's, this turn's `text` included whether or not it was noted, and those of tool results. Where
    /// the text reasons from today ("tomorrow", "in 3 weeks"), the years of the system text are added.
    pub fn licensed_years(&self, text: &str) -> BTreeSet<i32> {
        let mut allowed = source_years(text);
        allowed.extend(&self.user_years);
        if allowed.is_empty() {
            return allowed;
        }
        allowed.extend(&self.result_years);
        if years::is_relative(text) {
            allowed.extend(&self.system_years);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_send_and_sync<T: Send + Sync>() {}

    #[test]
    fn sources_travel_between_threads() {
        is_send_and_sync::<Sources>();
        is_send_and_sync::<LocalTime>();
    }

    #[test]
    fn years_last_until_reset() {
        let mut sources = Sources::new(Some("date: 2026-07-31 Fri 09:00"));
        assert!(
            sources.licensed_years("tomorrow").is_empty(),
            "no year written, nothing to check"
        );
        sources.note("the trip of March 3, 2025");
        assert_eq!(sources.licensed_years("and the hotel"), BTreeSet::from([2025]));
        assert_eq!(sources.licensed_years("and tomorrow"), BTreeSet::from([2025, 2026]));
        assert_eq!(sources.licensed_years("on 2027-01-02"), BTreeSet::from([2025, 2027]));
        sources.reset();
        assert!(sources.licensed_years("and the hotel").is_empty());
        assert_eq!(sources.licensed_years("today, year 2024"), BTreeSet::from([2024, 2026]));
    }

    #[test]
    fn results_allow_but_do_not_start_a_check() {
        let mut sources = Sources::new(None);
        sources.note_result(r#"{"created": "2023-01-09"}"#);
        assert!(sources.licensed_years("remind me on August 5").is_empty());
        assert_eq!(
            sources.licensed_years("or August 5, 2026"),
            BTreeSet::from([2023, 2026])
        );
    }
}
