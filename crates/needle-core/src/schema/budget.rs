//! How large one tool's schema may grow: references, unions and merges all draw on the same account.

use super::fault::Fault;

/// How many parts a tool's schema may have, counted once references are followed, unions flattened and `allOf` merged.
pub const SIZE_LIMIT: usize = 20_000;

/// How many schemas may lie inside each other, references followed.
pub(crate) const NESTING_LIMIT: usize = 128;

/// The account of one tool.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    spent: usize,
}

impl Budget {
    /// Takes `parts` off what is left.
    pub(crate) fn spend(&mut self, parts: usize, at: &str, keyword: &str) -> Result<(), Fault> {
        self.spent = self.spent.saturating_add(parts);
        if self.spent > SIZE_LIMIT {
            let reason =
                format!("the schema grows beyond {SIZE_LIMIT} parts once references are followed and branches merged");
            return Err(Fault::new(at, keyword, reason));
        }
        Ok(())
    }
}
