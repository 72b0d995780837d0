//! Numbers of the command line and the ranges they may lie in, so that a wrong one is found before a model is loaded.

use std::ops::RangeBounds;

use clap::builder::RangedU64ValueParser;
use needle_core::Generation;

/// A count that is at least 1.
pub(crate) fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

/// Threads, from 1 to what no machine exceeds usefully.
pub(crate) fn threads() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=512)
}

/// Seconds, from 1 to a day.
pub(crate) fn seconds() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(1..=86_400)
}

/// A temperature, from 0 to 1000.
pub(crate) fn temperature(text: &str) -> Result<f64, String> {
    within(text, 0.0..=1000.0, "from 0 to 1000")
}

/// A share of the probability, above 0 and at most 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    within(text, f64::MIN_POSITIVE..=1.0, "above 0 and at most 1")
}

/// A confidence, from 0 to 1.
pub(crate) fn confidence(text: &str) -> Result<f32, String> {
    Ok(within(text, 0.0..=1.0, "from 0 to 1")? as f32)
}

/// A generation of Needle.
pub(crate) fn generation(text: &str) -> Result<Generation, String> {
    match text {
        "2" => Ok(Generation::Two),
        "3" => Ok(Generation::Three),
        _ => Err("expected 2 or 3".into()),
    }
}

fn within(text: &str, range: impl RangeBounds<f64>, words: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("expected a number {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_their_ends_and_no_nan() {
        assert_eq!(
            (temperature("0"), temperature("1000"), share("1"), confidence("0")),
            (Ok(0.0), Ok(1000.0), Ok(1.0), Ok(0.0))
        );
        for text in ["nan", "inf", "-0.1", "1000.5", "", "warm"] {
            assert!(temperature(text).is_err(), "{text}");
        }
        assert!(share("0").is_err() && share("1.1").is_err() && confidence("1.1").is_err());
    }
}
