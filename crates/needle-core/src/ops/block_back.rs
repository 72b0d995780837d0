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

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;
    use crate::ops::{FrontWeights, OpForm};

    /// Both halves around nothing, so that each weight of both is felt: `x` is what the lanes read, `a` a function of it.
    fn layer(kernels: &Kernels, lanes: &Tensor, front: &FrontWeights, back: &BackWeights) -> Result<Tensor> {
        let (u, mix) = kernels.lanes_front(lanes, front)?;
        kernels.block_back(lanes, &u, &(&u * 0.5)?.sin()?, &mix, back)
    }

    fn random(shape: &[usize]) -> Result<Tensor> {
        Tensor::randn(0f32, 0.5, shape, &Device::Cpu)
    }

    fn weights(n: usize, d: usize) -> Result<(FrontWeights, BackWeights)> {
        let (outs, m) = (n * (n + 2), d.next_power_of_two());
        let front = FrontWeights {
            phi: (random(&[outs, n * d])? * 0.1)?,
            bias: random(&[outs])?,
            scale: random(&[3])?,
        };
        let back = BackWeights {
            post_norm: random(&[d])?,
            gate: Tensor::new(0.3f32, &Device::Cpu)?,
            pre_norm: random(&[d])?,
            diagonals: [random(&[m])?, random(&[m])?, random(&[m])?],
        };
        Ok((front, back))
    }

    #[test]
    fn cpu_forms_equal_the_definitions() -> Result<()> {
        for (b, t, n, d) in [(1, 1, 1, 4), (2, 3, 4, 48), (1, 7, 3, 64)] {
            let (lanes, (front, back)) = (random(&[b, t, n, d])?, weights(n, d)?);
            let fused = layer(&Kernels::default(), &lanes, &front, &back)?;
            let composed = layer(&Kernels::of(&Device::Cpu, OpForm::Composed), &lanes, &front, &back)?;
            let difference = (fused - composed)?.abs()?.max_all()?.to_scalar::<f32>()?;
            assert!(difference < 2e-5, "{b} {t} {n} {d}: {difference}");
        }
        Ok(())
    }

    #[test]
    fn every_weight_has_a_gradient_where_it_asks_for_one() -> Result<()> {
        let (n, d) = (3, 48);
        let (lanes, (mut front, mut back)) = (random(&[1, 2, n, d])?, weights(n, d)?);
        let mut vars = Vec::new();
        let [d1, d2, d3] = &mut back.diagonals;
        for weight in [
            &mut front.phi,
            &mut front.bias,
            &mut front.scale,
            &mut back.post_norm,
            &mut back.gate,
            &mut back.pre_norm,
            d1,
            d2,
            d3,
        ] {
            let var = Var::from_tensor(weight)?;
            *weight = var.as_tensor().clone();
            vars.push(var);
        }
        let target = random(&[1, 2, n, d])?;
        let loss = |front: &FrontWeights, back: &BackWeights| -> Result<Tensor> {
            (layer(&Kernels::default(), &lanes, front, back)? * &target)?.sum_all()
        };
        let gradients = loss(&front, &back)?.backward()?;
        for (i, var) in vars.iter().enumerate() {
            let Some(gradient) = gradients.get(var) else {
                candle_core::bail!("weight {i} has no gradient")
            };
            // Along the gradient the loss grows by the gradient's square.
            let square = gradient.sqr()?.sum_all()?.to_scalar::<f32>()?;
            let step = 0.02 / square.sqrt().max(1e-3);
            let before = var.as_tensor().copy()?;
            let at = |sign: f64| -> Result<f32> {
                var.set(&(&before + (gradient * (sign * f64::from(step)))?)?)?;
                loss(&front, &back)?.to_scalar::<f32>()
            };
            let slope = (at(1.0)? - at(-1.0)?) / (2.0 * step);
            var.set(&before)?;
            assert!(
                (slope - square).abs() < 0.05 * square.max(0.05),
                "weight {i}: {slope} and {square}"
            );
        }
        Ok(())
    }
}
