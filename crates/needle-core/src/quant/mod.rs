//! Cactus Quants (CQ): numbers only. Rows of a matrix `[out, in]`, cut into groups along `in`, rotated by a
//! Walsh-Hadamard matrix and rounded to a small codebook.
//!
//! With `H` the orthonormal Walsh-Hadamard matrix of a group's size, a group `g` of a row is stored as
//!
//! ```text
//! r = g·H,   norm = ‖r‖ (float16),   code_i = the level nearest to r_i / norm
//! g ≈ (norm · level[code])·H          and so   w·x = norm · Σ_i level[code_i] · (x·H)_i
//! ```

mod codebook;
mod hadamard;
mod pack;
mod packed;

pub use codebook::{CodeWidth, levels};
pub use hadamard::walsh_hadamard;
pub use pack::pack;
pub use packed::Packed;
pub(crate) use packed::sizes as packed_sizes;
