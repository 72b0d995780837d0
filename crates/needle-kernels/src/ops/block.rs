//! The second half of a layer in one launch: gated residual of the attention, Hadamard MLP, lane mix.

use super::{
    EPSILON, LanesShape, SIMD, floats,
    hadamard::{hadamard_size, mix_shared, simds},
};
use crate::{
    error::Unsupported,
    launch::{Arg, Fields, Launch},
    storage::Elem,
    text::Module,
};

/// `x ← x + gate·zcrms(a; post_norm)`; `x ← x + mlp(zcrms(x; pre_norm))`;
/// `X_i ← Σ_j R_ij X_j + post_i·(x − Σ_j pre_j X_j)`, in place.
pub struct BlockBack<B> {
    /// `X: [rows, n, d]`, read and written.
    pub lanes: B,
    /// `[rows, d]`: the block's input, read.
    pub x: B,
    /// `[rows, d]`: the attention's output projection, read.
    pub a: B,
    /// `[d]` float32, read.
    pub post_norm: B,
    /// `[1]` float32, already squashed, read.
    pub gate: B,
    /// `[d]` float32, read.
    pub pre_norm: B,
    /// `[m]` float32, read.
    pub d1: B,
    /// `[m]` float32, read.
    pub d2: B,
    /// `[m]` float32, read.
    pub d3: B,
    /// `[rows, n + n + n·n]` float32: pre, post, R, read.
    pub mix: B,
}

impl<B> BlockBack<B> {
    /// The launch for activations of `elem`.
    ///
    /// # Errors
    /// [`Unsupported`] for a shape without a kernel.
    pub fn launch(self, elem: Elem, shape: LanesShape) -> Result<Launch<B>, Unsupported> {
        shape.check()?;
        let LanesShape { rows, n, d } = shape;
        let m = hadamard_size(d)?;
        Ok(Launch {
            module: Module::Block,
            kernel: format!("block_back_{m}_{}", elem.name()),
            grid: (rows, 1),
            threads: simds(m) * SIMD,
            shared_bytes: floats(2 * simds(m)) + mix_shared(m),
            args: vec![
                Arg::InOut(self.lanes),
                Arg::In(self.x),
                Arg::In(self.a),
                Arg::In(self.post_norm),
                Arg::In(self.gate),
                Arg::In(self.pre_norm),
                Arg::In(self.d1),
                Arg::In(self.d2),
                Arg::In(self.d3),
                Arg::In(self.mix),
            ],
            params: Fields::new().u32(d).u32(n).f32(EPSILON).done(),
        })
    }
}
