//! Why an operation has no launch.

use std::fmt;

/// A size or storage that no kernel here takes. The caller composes the operation from others instead, or refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The operation.
    pub operation: &'static str,
    /// What of it does not fit.
    pub what: &'static str,
    /// What the kernels take.
    pub expected: String,
    /// What was asked for.
    pub found: u64,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operation,
            what,
            expected,
            found,
        } = self;
        write!(f, "{operation}: {what} is {found}, the kernels take {expected}")
    }
}

impl std::error::Error for Unsupported {}

/// Refuses what lies outside `least..=most`.
pub(crate) fn within(
    operation: &'static str,
    what: &'static str,
    found: u32,
    least: u32,
    most: u32,
) -> Result<(), Unsupported> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Unsupported {
        operation,
        what,
        expected: format!("{least} to {most}"),
        found: found.into(),
    })
}

/// Refuses what is no multiple of `of`.
pub(crate) fn multiple(operation: &'static str, what: &'static str, found: u32, of: u32) -> Result<(), Unsupported> {
    if found.is_multiple_of(of) {
        return Ok(());
    }
    Err(Unsupported {
        operation,
        what,
        expected: format!("multiples of {of}"),
        found: found.into(),
    })
}

/// Refuses a buffer whose elements a 32-bit index does not reach.
pub(crate) fn indexable(operation: &'static str, what: &'static str, sizes: &[u32]) -> Result<(), Unsupported> {
    let found = sizes
        .iter()
        .fold(1u64, |product, &size| product.saturating_mul(u64::from(size)));
    if found <= u64::from(u32::MAX) {
        return Ok(());
    }
    Err(Unsupported {
        operation,
        what,
        expected: format!("at most {} elements", u32::MAX),
        found,
    })
}
