//! The CUDA libraries that a program of this crate needs while it runs.

#[cfg(lazy)]
unsafe extern "C" {
    fn needle_lazy_missing() -> *const std::ffi::c_char;
}

/// The version of the CUDA toolkit that this program is built with, such as `13.0`.
pub const TOOLKIT: &str = env!("NEEDLE_CUDA_VERSION");

/// The first library that is needed and cannot be opened, such as `libcuda.so.1`.
///
/// A program that is linked plainly would not have started without one, and misses none.
#[cfg(lazy)]
pub fn missing_library() -> Option<&'static str> {
    // SAFETY: it takes nothing, and returns null or a constant text that ends in zero.
    let name = unsafe {
        let name = needle_lazy_missing();
        (!name.is_null()).then(|| std::ffi::CStr::from_ptr::<'static>(name))
    };
    name?.to_str().ok()
}

/// The first library that is needed and cannot be opened, such as `libcuda.so.1`.
///
/// A program that is linked plainly would not have started without one, and misses none.
#[cfg(not(lazy))]
pub fn missing_library() -> Option<&'static str> {
    None
}
