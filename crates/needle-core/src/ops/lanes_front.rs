//! The front half of hyper-connections: what the lanes `X` of a position read, and what they decide.
//!
//! With `nx = rms_unit(X)` over all lanes together: `pre = σ(a₀·nx·Φ_pre + b_pre)`, `post = 2σ(a₁·nx·Φ_post + b_post)`,
//! `R = sinkhorn(a₂·nx·Φ_res + b_res)`, and `u = Σ pre_i X_i`.

use candle_core::{D, DType, Result, Tensor};
#[cfg(any(feature = "gpu", feature = "metal"))]
use candle_core::{Device, Storage};
#[cfg(any(feature = "gpu", feature = "metal"))]
use needle_kernels::ops::LanesShape;

#[cfg(any(feature = "gpu", feature = "metal"))]
use super::kernels;
use super::{
    Kernels, kernels::Choice, lane_read, lane_read_composed, linear, linear_composed, rms_unit_composed, sinkhorn,
    sinkhorn_composed,
};

/// What a layer's lanes decide with.
#[derive(Clone, Debug)]
pub struct FrontWeights {
    /// `[N + N + N·N, N·D]`: the rows of `Φ_pre`, `Φ_post`, `Φ_res`, in the model's type.
    pub phi: Tensor,
    /// `[N + N + N·N]` float32, the home lane's offsets added.
    pub bias: Tensor,
    /// `[3]` float32: `a_pre`, `a_post`, `a_res`.
    pub scale: Tensor,
}

/// What the lanes of each position decided, `[B, T, N + N + N·N]` float32: pre, post, R in a row.
#[derive(Clone, Debug)]
pub struct Mix(pub(super) Tensor);

impl Mix {
    /// As the kernels write it.
    pub fn tensor(&self) -> &Tensor {
        &self.0
    }

    /// How to read the lanes, `[B, T, N]`, how to write them, `[B, T, N]`, and how to mix them, `[B, T, N, N]`.
    pub(super) fn parts(&self, n: usize, dtype: DType) -> Result<[Tensor; 3]> {
        let (b, t, _) = self.0.dims3()?;
        let part = |first, len| self.0.narrow(2, first, len)?.to_dtype(dtype)?.contiguous();
        Ok([part(0, n)?, part(n, n)?, part(2 * n, n * n)?.reshape((b, t, n, n))?])
    }
}

impl Kernels {
    /// `u: [B, T, D]` and the mix of lanes `x: [B, T, N, D]`.
    pub fn lanes_front(&self, x: &Tensor, weights: &FrontWeights) -> Result<(Tensor, Mix)> {
        let (b, t, n, d) = x.dims4()?;
        let FrontWeights { phi, bias, scale } = weights;
        match self.choose(&[x, phi, bias, scale]) {
            #[cfg(any(feature = "gpu", feature = "metal"))]
            Choice::Gpu if shape(b * t, n, d).is_some_and(LanesShape::fits) => self.lanes_front_on_gpu(x, weights),
            Choice::Composed => lanes_front_composed(x, weights),
            _ => {
                let nx = self.rms_unit(&x.reshape((b, t, n * d))?)?;
                front(x, &linear(&nx, phi)?, weights, sinkhorn, lane_read)
            }
        }
    }

    /// One launch.
    #[cfg(any(feature = "gpu", feature = "metal"))]
    fn lanes_front_on_gpu(&self, x: &Tensor, weights: &FrontWeights) -> Result<(Tensor, Mix)> {
        let x = x.contiguous()?;
        let (b, t, n, d) = x.dims4()?;
        let FrontWeights { phi, bias, scale } = weights;
        let locked = [&x, phi, bias, scale].map(Tensor::storage_and_layout);
        let (u, mix) = match x.device() {
            #[cfg(feature = "gpu")]
            Device::Cuda(_) => {
                let [x, phi, bias, scale] = kernels::on_cuda(&locked)?;
                let (u, mix) = needle_cuda::lanes_front(x, phi, bias, scale)?;
                (Storage::Cuda(u), Storage::Cuda(mix))
            }
            #[cfg(feature = "metal")]
            Device::Metal(_) => {
                let [x, phi, bias, scale] = kernels::on_metal(&locked)?;
                let (u, mix) = needle_metal::lanes_front(self.pipelines()?, x, phi, bias, scale)?;
                (Storage::Metal(u), Storage::Metal(mix))
            }
            device => candle_core::bail!("lanes_front: no kernel on {device:?}"),
        };
        let mix = kernels::made(mix, (b, t, n * (n + 2)));
        Ok((kernels::made(u, (b, t, d)), Mix(mix)))
    }
}

/// The definition in tensor operations.
pub fn lanes_front_composed(x: &Tensor, weights: &FrontWeights) -> Result<(Tensor, Mix)> {
    let (b, t, n, d) = x.dims4()?;
    let nx = rms_unit_composed(&x.reshape((b, t, n * d))?)?;
    let z = linear_composed(&nx, &weights.phi)?;
    front(x, &z, weights, sinkhorn_composed, lane_read_composed)
}

/// From the projections `z: [B, T, N + N + N·N]` on.
fn front(
    x: &Tensor,
    z: &Tensor,
    weights: &FrontWeights,
    sinkhorn: fn(&Tensor) -> Result<Tensor>,
    lane_read: fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<(Tensor, Mix)> {
    let (b, t, n, _) = x.dims4()?;
    let z = z.to_dtype(DType::F32)?;
    let logits = |part: usize, first: usize, len: usize| -> Result<Tensor> {
        z.narrow(2, first, len)?
            .broadcast_mul(&weights.scale.narrow(0, part, 1)?)?
            .broadcast_add(&weights.bias.narrow(0, first, len)?)
    };
    let pre = candle_nn::ops::sigmoid(&logits(0, 0, n)?)?;
    let post = (candle_nn::ops::sigmoid(&logits(1, n, n)?)? * 2.0)?;
    let res = sinkhorn(&logits(2, 2 * n, n * n)?.reshape((b, t, n, n))?)?;
    let u = lane_read(x, &pre.to_dtype(x.dtype())?)?;
    Ok((
        u,
        Mix(Tensor::cat(&[pre, post, res.reshape((b, t, n * n))?], D::Minus1)?),
    ))
}

/// The shape as the kernels count, `None` beyond 32 bits.
#[cfg(any(feature = "gpu", feature = "metal"))]
pub(super) fn shape(rows: usize, n: usize, d: usize) -> Option<LanesShape> {
    let whole = |size| u32::try_from(size).ok();
    Some(LanesShape {
        rows: whole(rows)?,
        n: whole(n)?,
        d: whole(d)?,
    })
}
