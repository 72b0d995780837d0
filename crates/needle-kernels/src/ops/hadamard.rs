//! Walsh-Hadamard MLP of generation 2.

use super::{EPSILON, SIMD, floats};
use crate::{
    error::{Unsupported, indexable, within},
    launch::{Arg, Fields, Launch},
    storage::Elem,
    text::Module,
};

const OPERATION: &str = "hadamard";
/// Sizes that have a kernel.
const SIZES: (u32, u32) = (64, 1024);

/// Width of the diagonals for rows of `d`: the next power of two, of which the kernels know 64 to 1024.
///
/// # Errors
/// [`Unsupported`] for other widths.
pub fn hadamard_size(d: u32) -> Result<u32, Unsupported> {
    // A width of 32 or less would need kernels of its own, and no model is that narrow.
    within(OPERATION, "the width", d, SIZES.0 / 2 + 1, SIZES.1)?;
    Ok(d.next_power_of_two())
}

/// SIMD groups that share a row of `m`, as the kernel texts have it.
pub(super) fn simds(m: u32) -> u32 {
    match m {
        512 | 1024 => 4,
        256 => 2,
        _ => 1,
    }
}

/// Shared memory of the two changes of layout, padded against bank conflicts.
pub(super) fn mix_shared(m: u32) -> u32 {
    let one = if simds(m) == 1 { 1 } else { m + m / SIMD };
    floats(2 * one)
}

/// `y = (d₃ ∘ H_m·silu(d₂ ∘ H_m·(d₁ ∘ x)))[..d]`, row by row, `m` the next power of two from `d` on.
pub struct Hadamard<B> {
    /// `[rows, d]`, read.
    pub x: B,
    /// `[m]` float32, read.
    pub d1: B,
    /// `[m]` float32, read.
    pub d2: B,
    /// `[m]` float32, read.
    pub d3: B,
    /// `[rows, d]`, written.
    pub y: B,
}

impl<B: Clone> Hadamard<B> {
    /// The launch for activations of `elem`.
    ///
    /// # Errors
    /// [`Unsupported`] for a width without a kernel.
    pub fn launch(self, elem: Elem, rows: u32, d: u32) -> Result<Launch<B>, Unsupported> {
        // Without the norm its scale is not read: any buffer holds its place.
        let buffers = [self.x, self.d1.clone(), self.d1, self.d2, self.d3];
        launch(elem, rows, d, 0, buffers, self.y)
    }
}

/// `y = x + mlp(zcrms(x; s))`, row by row, the MLP as in [`Hadamard`].
pub struct HadamardResidual<B> {
    /// `[rows, d]`, read.
    pub x: B,
    /// `[d]` float32, read.
    pub s: B,
    /// `[m]` float32, read.
    pub d1: B,
    /// `[m]` float32, read.
    pub d2: B,
    /// `[m]` float32, read.
    pub d3: B,
    /// `[rows, d]`, written.
    pub y: B,
}

impl<B> HadamardResidual<B> {
    /// The launch for activations of `elem`.
    ///
    /// # Errors
    /// [`Unsupported`] for a width without a kernel.
    pub fn launch(self, elem: Elem, rows: u32, d: u32) -> Result<Launch<B>, Unsupported> {
        launch(elem, rows, d, 1, [self.x, self.s, self.d1, self.d2, self.d3], self.y)
    }
}

fn launch<B>(
    elem: Elem,
    rows: u32,
    d: u32,
    residual: u32,
    inputs: [B; 5],
    output: B,
) -> Result<Launch<B>, Unsupported> {
    let m = hadamard_size(d)?;
    within(OPERATION, "rows", rows, 1, i32::MAX as u32)?;
    indexable(OPERATION, "the input", &[rows, d])?;
    let mut args: Vec<Arg<B>> = inputs.into_iter().map(Arg::In).collect();
    args.push(Arg::Out(output));
    Ok(Launch {
        module: Module::Hadamard,
        kernel: format!("hadamard_{m}_{}", elem.name()),
        grid: (rows, 1),
        threads: simds(m) * SIMD,
        shared_bytes: floats(simds(m)) + mix_shared(m),
        args,
        params: Fields::new().u32(d).f32(EPSILON).u32(residual).done(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_padded_to_the_next_power_of_two() {
        assert_eq!(hadamard_size(48), Ok(64));
        assert_eq!(hadamard_size(512), Ok(512));
        assert_eq!(hadamard_size(768), Ok(1024));
        assert!(hadamard_size(32).is_err() && hadamard_size(1025).is_err());
    }
}
