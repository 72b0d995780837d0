//! One piece of memory for all matrices, in the order in which a pass reads them.

use std::ops::Range;

use super::{pages::Pages, simd::Line};

/// Lines that are handed out from the front.
#[derive(Debug)]
pub(super) struct Arena {
    lines: Pages<Line>,
    used: usize,
}

impl Arena {
    /// Room for `lines` lines.
    ///
    /// # Errors
    /// When the system has no room for so many.
    pub(super) fn new(lines: usize) -> std::io::Result<Self> {
        let lines = Pages::new(lines)?.prefer_large();
        Ok(Self { lines, used: 0 })
    }

    /// Hands out `count` lines.
    ///
    /// # Panics
    /// When there are fewer left.
    pub(super) fn take(&mut self, count: usize) -> Range<usize> {
        let range = self.used..self.used + count;
        assert!(range.end <= self.lines.len(), "{count} lines asked for beyond the end");
        self.used = range.end;
        range
    }

    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    pub(super) fn lines_mut(&mut self) -> &mut [Line] {
        &mut self.lines
    }
}
