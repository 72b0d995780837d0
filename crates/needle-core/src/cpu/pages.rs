//! Zeroed memory straight from the system: pages that are never touched cost nothing.
//!
//! The allocator would clear what it has handed out before, and touch every page of it.

use std::marker::PhantomData;

use memmap2::MmapMut;

use super::simd::Line;

/// Numbers of which any bytes are a valid one, zero bytes a zero.
///
/// # Safety
/// That must hold, and a page must suit the type's alignment.
pub(super) unsafe trait Plain: Copy + Send + Sync {}
// SAFETY: plain numbers.
unsafe impl Plain for f32 {}
// SAFETY: plain numbers.
unsafe impl Plain for u16 {}
// SAFETY: plain numbers.
unsafe impl Plain for i8 {}
// SAFETY: sixteen plain numbers, aligned to 64 bytes.
unsafe impl Plain for Line {}

/// `len` numbers, zero at first.
#[derive(Debug)]
pub(super) struct Pages<T> {
    map: MmapMut,
    len: usize,
    kind: PhantomData<T>,
}

impl<T: Plain> Pages<T> {
    /// # Errors
    /// When the system has no room for so much.
    pub(super) fn new(len: usize) -> std::io::Result<Self> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            map: MmapMut::map_anon(bytes.max(1))?,
            len,
            kind: PhantomData,
        })
    }

    /// Asks for large pages, for memory that will be used whole.
    pub(super) fn prefer_large(self) -> Self {
        // Only advice: without it everything works as well, a little slower.
        #[cfg(target_os = "linux")]
        let _ = self.map.advise(memmap2::Advice::HugePage);
        self
    }
}

impl<T: Plain> std::ops::Deref for Pages<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: a map begins at a page, which suits the type; any bytes are valid; it has room for `len` of them.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), self.len) }
    }
}

impl<T: Plain> std::ops::DerefMut for Pages<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the map is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast(), self.len) }
    }
}
