//! Exact decimals for bounds and steps: `coefficient · 10^-scale`. Doubles would move 0.1 and lose 2^53 + 1.

use std::cmp::Ordering;

/// Digits before the point that a bound may have.
const WHOLE_DIGITS: usize = 20;
/// Digits after the point that a bound may have.
const SCALE: u32 = 17;

/// An exact decimal below 10^20 with at most 17 digits after the point, without trailing zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Decimal {
    coefficient: i128,
    scale: u32,
}

/// Why a number's text is no [`Decimal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    /// Below -10^20.
    FarBelow,
    /// Above 10^20.
    FarAbove,
    /// Too many digits after the point.
    TooFine,
}

impl Decimal {
    pub(crate) const ZERO: Self = Self {
        coefficient: 0,
        scale: 0,
    };
    pub(crate) const ONE: Self = Self {
        coefficient: 1,
        scale: 0,
    };

    /// Reads a JSON number as it is spelt.
    pub(crate) fn parse(text: &str) -> Result<Self, Outside> {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |m| (true, m));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let far = if negative { Outside::FarBelow } else { Outside::FarAbove };
        let digits = format!("{whole}{}", fraction.trim_end_matches('0'));
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(Self::ZERO);
        }
        let exponent: i64 = match exponent.strip_prefix('+').unwrap_or(exponent).parse() {
            Ok(exponent) => exponent,
            Err(_) if exponent.starts_with('-') => return Err(Outside::TooFine),
            Err(_) => return Err(far),
        };
        let scale = fraction.trim_end_matches('0').len() as i64 - exponent;
        if digits.len() as i64 - scale > WHOLE_DIGITS as i64 {
            return Err(far);
        }
        let kept = digits.trim_end_matches('0');
        let scale = scale - (digits.len() - kept.len()) as i64;
        if scale > i64::from(SCALE) {
            return Err(Outside::TooFine);
        }
        // At most WHOLE_DIGITS + SCALE = 37 digits, which an i128 holds.
        let mut coefficient: i128 = kept.parse().map_err(|_| far)?;
        if scale < 0 {
            coefficient *= 10_i128.pow(scale.unsigned_abs() as u32);
        }
        if negative {
            coefficient = -coefficient;
        }
        Ok(Self {
            coefficient,
            scale: scale.max(0) as u32,
        })
    }

    /// A whole number.
    pub(crate) fn whole(value: i128) -> Self {
        Self {
            coefficient: value,
            scale: 0,
        }
    }

    pub(crate) fn is_negative(self) -> bool {
        self.coefficient < 0
    }

    pub(crate) fn negated(self) -> Self {
        Self {
            coefficient: -self.coefficient,
            ..self
        }
    }

    /// The whole number at or below.
    pub(crate) fn floor(self) -> i128 {
        self.coefficient.div_euclid(10_i128.pow(self.scale))
    }

    /// The whole number at or above.
    pub(crate) fn ceil(self) -> i128 {
        -self.negated().floor()
    }

    /// Coefficient and scale, without trailing zeros after the point.
    pub(crate) fn parts(self) -> (i128, u32) {
        (self.coefficient, self.scale)
    }

    /// Digits after the point of the magnitude, without trailing zeros.
    pub(crate) fn fraction(self) -> String {
        if self.scale == 0 {
            return String::new();
        }
        let rest = self.coefficient.unsigned_abs() % 10_u128.pow(self.scale);
        let text = format!("{rest:0width$}", width = self.scale as usize);
        text.trim_end_matches('0').into()
    }

    /// The smallest number that is a multiple of both (both above zero), or `None` where it is too large.
    pub(crate) fn common_multiple(self, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let (a, b) = (self.at_scale(scale), other.at_scale(scale));
        let coefficient = (a / gcd(a, b)).checked_mul(b)?;
        let multiple = Self { coefficient, scale }.trimmed();
        (multiple.coefficient < 10_i128.pow(WHOLE_DIGITS as u32)).then_some(multiple)
    }

    /// Whether `self` is a whole multiple of `step` (above zero).
    pub(crate) fn is_multiple_of(self, step: Self) -> bool {
        let scale = self.scale.max(step.scale);
        self.at_scale(scale) % step.at_scale(scale) == 0
    }

    /// The first multiple of `step` (above zero) at or above `self`.
    pub(crate) fn next_multiple(self, step: Self) -> Self {
        let scale = self.scale.max(step.scale);
        let (value, step) = (self.at_scale(scale), step.at_scale(scale));
        let coefficient = -(-value).div_euclid(step) * step;
        Self { coefficient, scale }.trimmed()
    }

    /// The sum; both within the limits, so it cannot overflow.
    pub(crate) fn plus(self, other: Self) -> Self {
        let scale = self.scale.max(other.scale);
        let coefficient = self.at_scale(scale) + other.at_scale(scale);
        Self { coefficient, scale }.trimmed()
    }

    fn at_scale(self, scale: u32) -> i128 {
        self.coefficient * 10_i128.pow(scale - self.scale)
    }

    fn trimmed(mut self) -> Self {
        while self.scale > 0 && self.coefficient % 10 == 0 {
            self.coefficient /= 10;
            self.scale -= 1;
        }
        self
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let scale = self.scale.max(other.scale);
        self.at_scale(scale).cmp(&other.at_scale(scale))
    }
}

pub(crate) fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_exactly() {
        for (text, coefficient, scale) in [
            ("0", 0, 0),
            ("-0.0", 0, 0),
            ("1.50", 15, 1),
            ("-0.25", -25, 2),
            ("1e3", 1000, 0),
            ("1.25E1", 125, 1),
            ("25e-3", 25, 3),
            ("9007199254740993", 9_007_199_254_740_993, 0),
            ("120", 120, 0),
            ("0e999", 0, 0),
        ] {
            assert_eq!(
                Decimal::parse(text).map(Decimal::parts),
                Ok((coefficient, scale)),
                "{text}"
            );
        }
        assert_eq!(Decimal::parse("1e20"), Err(Outside::FarAbove));
        assert_eq!(Decimal::parse("-1.7976931348623157e+308"), Err(Outside::FarBelow));
        assert_eq!(Decimal::parse("5e-324"), Err(Outside::TooFine));
        assert_eq!(Decimal::parse("1e99999999999999999999"), Err(Outside::FarAbove));
    }

    #[test]
    fn rounding_and_multiples() {
        let decimal = |text| Decimal::parse(text).unwrap();
        assert_eq!((decimal("-1.5").floor(), decimal("-1.5").ceil()), (-2, -1));
        assert_eq!((decimal("2").floor(), decimal("2").ceil()), (2, 2));
        assert_eq!(decimal("12.0340").fraction(), "034");
        assert_eq!(decimal("2.5").common_multiple(Decimal::ONE), Some(decimal("5")));
        assert_eq!(decimal("0.25").common_multiple(decimal("0.1")), Some(decimal("0.5")));
        assert!(decimal("1.5").is_multiple_of(decimal("0.25")));
        assert!(!decimal("0.3").is_multiple_of(decimal("0.2")));
        assert_eq!(decimal("-7").next_multiple(decimal("2")), decimal("-6"));
        assert!(decimal("0.1") < decimal("0.11"));
    }
}
