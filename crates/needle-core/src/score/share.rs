//! A share of a count, and how sure it is.

use serde::{Serialize, Serializer, ser::SerializeStruct};

/// `right` of `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Those that are right.
    pub right: usize,
    /// All.
    pub n: usize,
}

/// The normal distribution's 97.5 % point.
const Z: f64 = 1.959_963_984_540_054;

impl Share {
    /// One more, right or not.
    pub(super) fn count(&mut self, right: impl Into<usize>) {
        self.right += right.into();
        self.n += 1;
    }

    /// From 0 to 1; `None` of nothing.
    pub fn value(&self) -> Option<f64> {
        (self.n > 0).then(|| self.right as f64 / self.n as f64)
    }

    /// Wilson's 95 % interval, within 0 to 1; `None` of nothing.
    ///
    /// `(p + z²/2n ± z·sqrt(p(1 − p)/n + z²/4n²)) / (1 + z²/n)`
    pub fn interval(&self) -> Option<(f64, f64)> {
        let p = self.value()?;
        let n = self.n as f64;
        let scale = 1.0 + Z * Z / n;
        let centre = (p + Z * Z / (2.0 * n)) / scale;
        let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt() / scale;
        // At the ends the formula gives 0 and 1 but for rounding.
        let low = if self.right == 0 { 0.0 } else { centre - half };
        let high = if self.right == self.n { 1.0 } else { centre + half };
        Some((low, high))
    }

    /// As `46 of 80, 57.5 % (46.6 to 67.7)`.
    pub fn words(&self) -> String {
        match (self.value(), self.interval()) {
            (Some(value), Some((low, high))) => format!(
                "{} of {}, {:.1} % ({:.1} to {:.1})",
                self.right,
                self.n,
                100.0 * value,
                100.0 * low,
                100.0 * high
            ),
            _ => "none".into(),
        }
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Share", 5)?;
        fields.serialize_field("right", &self.right)?;
        fields.serialize_field("n", &self.n)?;
        fields.serialize_field("share", &self.value())?;
        fields.serialize_field("low", &self.interval().map(|(low, _)| low))?;
        fields.serialize_field("high", &self.interval().map(|(_, high)| high))?;
        fields.end()
    }
}
