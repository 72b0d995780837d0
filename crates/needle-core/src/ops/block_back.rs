//! The second half of a layer: the attention's gated residual, the Hadamard MLP, and the lanes' mix.
//!
//! `x ← x + g·zcrms(a; post_norm)`; `x ← x + mlp(zcrms(x; pre_norm))`; `X'_i = Σ_j R_ij X_j + post_i·(x − Σ_j pre_j X_j)`.

use candle_core::{Result, Tensor};

use super::{
    Kernels, Mix, hadamard_mlp, hadamard_mlp_composed, kernels::Choice, lane_mix, lane_mix_composed, lane_read,
    lane_read_composed, rms_norm, rms_norm_composed,
};

/// What the second half of a layer learnt; float32.
#[derive(Clone, Debug)]
pub struct BackWeights {
    /// `[D]`.
    pub post_norm: Tensor,
    /// `g`, a scalar, already squashed.
    pub gate: Tensor,
    /// `[D]`.
    pub pre_norm: Tensor,
    /// `[m]` each.
    pub diagonals: [Tensor; 3],
}

impl Kernels {
    /// `X': [B, T, N, D]` of lanes `lanes: [B, T, N, D]`, the block's input `x: [B, T, D]` and the attention's output
    /// `a: [B, T, D]`.
    pub fn block_back(
        &self,
        lanes: &Tensor,
        x: &Tensor,
        a: &Tensor,
        mix: &Mix,
        weights: &BackWeights,
    ) -> Result<Tensor> {
        let BackWeights {
            post_norm,
            gate,
            pre_norm,
            diagonals: [d1, d2, d3],
        } = weights;
        match self.choose(&[lanes, x, a, &mix.0, post_norm, gate, pre_norm, d1, d2, d3]) {
            #[cfg(any(feature = "gpu", feature = "metal"))]
            Choice::Gpu if fits(lanes)? => {
                // The kernel mixes in place, and the caller keeps its lanes.
                let mixed = lanes.contiguous()?.copy()?;
                mixed.inplace_op1(&on_gpu::BlockBack {
                    kernels: self,
                    x: &x.contiguous()?,
                    a: &a.contiguous()?,
                    mix,
                    weights,
                })?;
                Ok(mixed)
            }
            Choice::Composed => block_back_composed(lanes, x, a, mix, weights),
            _ => back(lanes, x, a, mix, weights, &CPU_FORMS),
        }
    }
}

/// The definition in tensor operations.
pub fn block_back_composed(lanes: &Tensor, x: &Tensor, a: &Tensor, mix: &Mix, weights: &BackWeights) -> Result<Tensor> {
    back(lanes, x, a, mix, weights, &DEFINITIONS)
}

#[cfg(any(feature = "gpu", feature = "metal"))]
fn fits(lanes: &Tensor) -> Result<bool> {
    let (b, t, n, d) = lanes.dims4()?;
    let has_size = u32::try_from(d).is_ok_and(|d| needle_kernels::ops::hadamard_size(d).is_ok());
    Ok(has_size && super::lanes_front::shape(b * t, n, d).is_some_and(needle_kernels::ops::LanesShape::fits))
}

/// The operations that it is made of.
struct Parts {
    norm: fn(&Tensor, &Tensor) -> Result<Tensor>,
    mlp: fn(&Tensor, [&Tensor; 3]) -> Result<Tensor>,
    read: fn(&Tensor, &Tensor) -> Result<Tensor>,
    mix: fn(&Tensor, &Tensor, &Tensor, &Tensor) -> Result<Tensor>,
}

const CPU_FORMS: Parts = Parts {
    norm: rms_norm,
    mlp: hadamard_mlp,
    read: lane_read,
    mix: lane_mix,
};

const DEFINITIONS: Parts = Parts {
    norm: rms_norm_composed,
    mlp: hadamard_mlp_composed,
    read: lane_read_composed,
    mix: lane_mix_composed,
};

fn back(lanes: &Tensor, x: &Tensor, a: &Tensor, mix: &Mix, weights: &BackWeights, parts: &Parts) -> Result<Tensor> {
    let (_, _, n, _) = lanes.dims4()?;
    let [pre, post, res] = mix.parts(n, lanes.dtype())?;
    let attended = (parts.norm)(a, &weights.post_norm)?.broadcast_mul(&weights.gate.to_dtype(x.dtype())?)?;
    let x = (x + attended)?;
    let [d1, d2, d3] = &weights.diagonals;
    let mixed = (parts.mlp)(&(parts.norm)(&x, &weights.pre_norm)?, [d1, d2, d3])?;
    let y = ((x + mixed)? - (parts.read)(lanes, &pre)?)?;
    (parts.mix)(lanes, &y, &res, &post)
}

/// One launch, in place.
#[cfg(any(feature = "gpu", feature = "metal"))]
mod on_gpu {
    use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Tensor};

    use super::{super::kernels, BackWeights, Kernels, Mix};

    pub(super) struct BlockBack<'a> {
        #[cfg_attr(not(feature = "metal"), allow(dead_code))]
        pub(super) kernels: &'a Kernels,
        pub(super) x: &'a Tensor,
        pub(super) a: &'a Tensor,
        pub(super) mix: &'a Mix,
        pub(super) weights: &'a BackWeights,
    }

    impl BlockBack<'_> {
        fn locked(&self) -> [kernels::Locked<'_>; 9] {
            let BackWeights {
                post_norm,
                gate,
                pre_norm,
                diagonals: [d1, d2, d3],
            } = self.weights;
            [self.x, self.a, post_norm, gate, pre_norm, d1, d2, d3, &self.mix.0].map(Tensor::storage_and_layout)
        }
    }

    impl InplaceOp1 for BlockBack<'_> {
        fn name(&self) -> &'static str {
            "block_back"
        }

        fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
            candle_core::bail!("block_back: the CPU takes its operations one by one")
        }

        #[cfg(feature = "gpu")]
        fn cuda_fwd(&self, lanes: &mut candle_core::CudaStorage, layout: &Layout) -> Result<()> {
            let locked = self.locked();
            let [x, a, post_norm, gate, pre_norm, d1, d2, d3, mix] = kernels::on_cuda(&locked)?;
            let inputs = needle_cuda::BlockInputs {
                x,
                a,
                post_norm,
                gate,
                pre_norm,
                diagonals: [d1, d2, d3],
                mix,
            };
            needle_cuda::block_back(lanes, layout, inputs)
        }

        #[cfg(feature = "metal")]
        fn metal_fwd(&self, lanes: &mut candle_core::MetalStorage, layout: &Layout) -> Result<()> {
            let locked = self.locked();
            let [x, a, post_norm, gate, pre_norm, d1, d2, d3, mix] = kernels::on_metal(&locked)?;
            let inputs = needle_metal::BlockInputs {
                x,
                a,
                post_norm,
                gate,
                pre_norm,
                diagonals: [d1, d2, d3],
                mix,
            };
            needle_metal::block_back(self.kernels.pipelines()?, lanes, layout, inputs)
        }
    }
}
