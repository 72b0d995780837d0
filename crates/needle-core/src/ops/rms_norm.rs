//! Root-mean-square norms: `rms_unit(x) = x / sqrt(mean(x²) + ε)` and, with a zero-centred scale, `(1 + s) ∘ rms_unit(x)`.

use candle_core::{CpuStorage, CustomOp2, D, DType, Layout, Result, Shape, Tensor};

use super::{Kernels, kernels::Choice, values};

/// Added to the mean square, as the reference does.
pub const RMS_EPSILON: f64 = 1e-6;

/// `(1 + s) ∘ x / sqrt(mean(x²) + ε)` over the last axis; `x: [.., n]`, `s: [n]`.
pub fn rms_norm(x: &Tensor, s: &Tensor) -> Result<Tensor> {
    Kernels::default().rms_norm(x, s)
}

impl Kernels {
    /// [`rms_norm`] on this device.
    pub fn rms_norm(&self, x: &Tensor, s: &Tensor) -> Result<Tensor> {
        let op = RmsNorm { kernels: self };
        match self.choose(&[x, s]) {
            Choice::Cpu => x.contiguous()?.apply_op2_no_bwd(s, &op),
            #[cfg(any(feature = "gpu", feature = "metal"))]
            Choice::Gpu => x
                .contiguous()?
                .apply_op2_no_bwd(&s.to_dtype(DType::F32)?.contiguous()?, &op),
            Choice::Composed => rms_norm_composed(x, s),
        }
    }

    /// [`rms_unit`] on this device.
    pub(super) fn rms_unit(&self, x: &Tensor) -> Result<Tensor> {
        match self.choose(&[x]) {
            Choice::Composed => rms_unit_composed(x),
            _ => self.rms_norm(x, &Tensor::zeros(x.dim(D::Minus1)?, DType::F32, x.device())?),
        }
    }
}

/// The definition in tensor operations.
pub fn rms_norm_composed(x: &Tensor, s: &Tensor) -> Result<Tensor> {
    let gain = (s.to_dtype(DType::F32)? + 1.0)?;
    rms_unit_f32(x)?.broadcast_mul(&gain)?.to_dtype(x.dtype())
}

/// `x / sqrt(mean(x²) + ε)` over the last axis.
pub fn rms_unit(x: &Tensor) -> Result<Tensor> {
    Kernels::default().rms_unit(x)
}

/// The definition in tensor operations.
pub fn rms_unit_composed(x: &Tensor) -> Result<Tensor> {
    rms_unit_f32(x)?.to_dtype(x.dtype())
}

/// In float32 whatever the dtype: a square of a half-precision activation may overflow.
fn rms_unit_f32(x: &Tensor) -> Result<Tensor> {
    let x = x.to_dtype(DType::F32)?;
    // The largest entry is taken out first, so that a row of 1e19 does not overflow either.
    let peak = x.detach().abs()?.max_keepdim(D::Minus1)?.maximum(1.0)?;
    let scaled = x.broadcast_div(&peak)?;
    let mean_square = scaled.sqr()?.mean_keepdim(D::Minus1)?;
    let epsilon = (peak.sqr()?.recip()? * RMS_EPSILON)?;
    scaled.broadcast_div(&(mean_square + epsilon)?.sqrt()?)
}

#[cfg_attr(not(feature = "metal"), allow(dead_code))]
struct RmsNorm<'a> {
    kernels: &'a Kernels,
}

impl CustomOp2 for RmsNorm<'_> {
    fn name(&self) -> &'static str {
        "rms_norm"
    }

    fn cpu_fwd(&self, x: &CpuStorage, xl: &Layout, s: &CpuStorage, sl: &Layout) -> Result<(CpuStorage, Shape)> {
        let n = sl.shape().dims1()?;
        let (x, s) = (values(x, xl, "rms_norm")?, values(s, sl, "rms_norm")?);
        if xl.dims().last() != Some(&n) {
            candle_core::bail!("rms_norm: expected [.., {n}], found {:?}", xl.dims());
        }
        let mut y = vec![0.0f32; x.len()];
        for (y, x) in y.chunks_exact_mut(n).zip(x.chunks_exact(n)) {
            // A float32 square overflows at 1e19, a float64 one does not.
            let mean_square = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / n as f64;
            let scale = 1.0 / (mean_square + RMS_EPSILON).sqrt();
            for ((y, x), s) in y.iter_mut().zip(x).zip(s) {
                *y = (1.0 + s) * (f64::from(*x) * scale) as f32;
            }
        }
        Ok((CpuStorage::F32(y), xl.shape().clone()))
    }

    #[cfg(feature = "gpu")]
    fn cuda_fwd(
        &self,
        x: &candle_core::CudaStorage,
        xl: &Layout,
        s: &candle_core::CudaStorage,
        sl: &Layout,
    ) -> Result<(candle_core::CudaStorage, Shape)> {
        needle_cuda::rms_norm((x, xl), (s, sl))
    }

    #[cfg(feature = "metal")]
    fn metal_fwd(
        &self,
        x: &candle_core::MetalStorage,
        xl: &Layout,
        s: &candle_core::MetalStorage,
        sl: &Layout,
    ) -> Result<(candle_core::MetalStorage, Shape)> {
        needle_metal::rms_norm(self.kernels.pipelines()?, (x, xl), (s, sl))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn cpu_form_equals_the_definition_even_for_huge_rows() -> Result<()> {
        for scale in [1e-4, 1.0, 1e19] {
            let x = (Tensor::randn(0f32, 1.0, (5, 48), &Device::Cpu)? * scale)?;
            let s = Tensor::randn(0f32, 0.5, 48, &Device::Cpu)?;
            let difference = (rms_norm(&x, &s)? - rms_norm_composed(&x, &s)?)?
                .abs()?
                .max_all()?
                .to_scalar::<f32>()?;
            assert!(difference < 1e-5, "scale {scale}: {difference}");
        }
        Ok(())
    }

    #[test]
    fn a_row_of_zeros_stays_zero() -> Result<()> {
        let x = Tensor::zeros((1, 8), DType::F32, &Device::Cpu)?;
        assert_eq!(rms_unit(&x)?.to_vec2::<f32>()?, vec![vec![0.0; 8]]);
        Ok(())
    }
}
