//! Zero-centred RMS norm, alone and with the gated residual around it.

use super::{EPSILON, SIMD, floats};
use crate::{
    error::{Unsupported, indexable, within},
    launch::{Arg, Fields, Launch, Params},
    storage::Elem,
    text::Module,
};

const OPERATION: &str = "rms_norm";
const THREADS: u32 = 128;
/// Wider rows are no model's.
const WIDTH_MAX: u32 = 1 << 20;

/// `y = (1 + s) ∘ x / sqrt(mean(x²) + ε)`, row by row.
pub struct RmsNorm<B> {
    /// `[rows, d]`, read.
    pub x: B,
    /// `[d]` float32, read.
    pub s: B,
    /// `[rows, d]`, written.
    pub y: B,
}

impl<B> RmsNorm<B> {
    /// The launch for activations of `elem`.
    ///
    /// # Errors
    /// [`Unsupported`] when a size is zero or too large.
    pub fn launch(self, elem: Elem, rows: u32, d: u32) -> Result<Launch<B>, Unsupported> {
        let args = vec![Arg::In(self.x), Arg::In(self.s), Arg::Out(self.y)];
        launch("rms_norm", elem, rows, d, args)
    }
}

/// `y = skip + gate·(1 + s) ∘ x / sqrt(mean(x²) + ε)`, row by row.
pub struct RmsNormAdd<B> {
    /// `[rows, d]`, read.
    pub x: B,
    /// `[d]` float32, read.
    pub s: B,
    /// `[1]` float32, already squashed, read.
    pub gate: B,
    /// `[rows, d]`, read.
    pub skip: B,
    /// `[rows, d]`, written.
    pub y: B,
}

impl<B> RmsNormAdd<B> {
    /// The launch for activations of `elem`.
    ///
    /// # Errors
    /// [`Unsupported`] when a size is zero or too large.
    pub fn launch(self, elem: Elem, rows: u32, d: u32) -> Result<Launch<B>, Unsupported> {
        let args = vec![
            Arg::In(self.x),
            Arg::In(self.s),
            Arg::In(self.gate),
            Arg::In(self.skip),
            Arg::Out(self.y),
        ];
        launch("rms_norm_add", elem, rows, d, args)
    }
}

fn launch<B>(name: &str, elem: Elem, rows: u32, d: u32, args: Vec<Arg<B>>) -> Result<Launch<B>, Unsupported> {
    within(OPERATION, "rows", rows, 1, i32::MAX as u32)?;
    within(OPERATION, "the width", d, 1, WIDTH_MAX)?;
    indexable(OPERATION, "the input", &[rows, d])?;
    Ok(Launch {
        module: Module::RmsNorm,
        kernel: format!("{name}_{}", elem.name()),
        grid: (rows, 1),
        threads: THREADS,
        shared_bytes: floats(THREADS / SIMD),
        args,
        params: params(d),
    })
}

fn params(d: u32) -> Params {
    Fields::new().u32(d).f32(EPSILON).done()
}
