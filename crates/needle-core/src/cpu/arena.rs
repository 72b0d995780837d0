//! One piece of memory for all matrices, in the order in which a pass reads them, on large pages where the system has them.

use std::ops::Range;

use memmap2::MmapMut;

use super::simd::{LANES, Line};

/// Zeroed lines that are handed out from the front. Those never handed out cost no memory.
#[derive(Debug)]
pub(super) struct Arena {
    map: MmapMut,
    used: usize,
}

impl Arena {
    /// Room for `lines` lines.
    pub(super) fn new(lines: usize) -> std::io::Result<Self> {
        let map = MmapMut::map_anon(lines.max(1) * size_of::<Line>())?;
        // Only advice: without large pages everything works as well, a little slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Self { map, used: 0 })
    }

    /// Hands out `count` lines.
    ///
    /// # Panics
    /// When there are fewer left.
    pub(super) fn take(&mut self, count: usize) -> Range<usize> {
        let range = self.used..self.used + count;
        assert!(
            range.end <= self.map.len() / size_of::<Line>(),
            "{count} lines asked for beyond the end"
        );
        self.used = range.end;
        range
    }

    /// All lines handed out so far.
    pub(super) fn lines(&self) -> &[Line] {
        // SAFETY: a map begins at a page, which suits a line's alignment; any bytes are a line; the length is within the map.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), self.used) }
    }

    pub(super) fn lines_mut(&mut self) -> &mut [Line] {
        // SAFETY: as above, and the map is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast(), self.used) }
    }
}

const _: () = assert!(size_of::<Line>() == LANES * size_of::<u32>());
