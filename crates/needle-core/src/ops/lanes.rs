//! The residual lanes of hyper-connections: reading one stream out of them and mixing a block's result back.
//!
//! `u = Σ_i h_i X_i` and `X'_i = Σ_j R_ij X_j + h_i y`, for every position by itself.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor};

use super::values;

/// `u: [B, T, D]` = `Σ_i h_i X_i` for lanes `x: [B, T, N, D]` and weights `h: [B, T, N]`.
pub fn lane_read(x: &Tensor, h: &Tensor) -> Result<Tensor> {
    if super::cpu_form_applies(&[x, h]) {
        return x.apply_op2_no_bwd(&h.contiguous()?, &LaneRead);
    }
    lane_read_composed(x, h)
}

/// The definition in tensor operations.
pub fn lane_read_composed(x: &Tensor, h: &Tensor) -> Result<Tensor> {
    x.broadcast_mul(&h.unsqueeze(3)?)?.sum(2)
}

/// `X'_i = Σ_j R_ij X_j + h_i y` for lanes `x: [B, T, N, D]`, result `y: [B, T, D]`, mix `r: [B, T, N, N]`, gain
/// `h: [B, T, N]`.
pub fn lane_mix(x: &Tensor, y: &Tensor, r: &Tensor, h: &Tensor) -> Result<Tensor> {
    if super::cpu_form_applies(&[x, y, r, h]) {
        let coefficients = Tensor::cat(&[r, &h.unsqueeze(3)?], 3)?.contiguous()?;
        return x.apply_op3_no_bwd(y, &coefficients, &LaneMix);
    }
    lane_mix_composed(x, y, r, h)
}

/// The definition in tensor operations.
pub fn lane_mix_composed(x: &Tensor, y: &Tensor, r: &Tensor, h: &Tensor) -> Result<Tensor> {
    let mixed = r.contiguous()?.matmul(&x.contiguous()?)?;
    mixed + y.unsqueeze(2)?.broadcast_mul(&h.unsqueeze(3)?)?
}

struct LaneRead;

impl CustomOp2 for LaneRead {
    fn name(&self) -> &'static str {
        "lane_read"
    }

    fn cpu_fwd(&self, x: &CpuStorage, xl: &Layout, h: &CpuStorage, hl: &Layout) -> Result<(CpuStorage, Shape)> {
        let (b, t, n, d) = xl.shape().dims4()?;
        let (x, h) = (values(x, xl, "lane_read")?, values(h, hl, "lane_read")?);
        let mut u = vec![0.0f32; b * t * d];
        for ((u, x), h) in u.chunks_exact_mut(d).zip(x.chunks_exact(n * d)).zip(h.chunks_exact(n)) {
            for (lane, &h) in x.chunks_exact(d).zip(h) {
                u.iter_mut().zip(lane).for_each(|(u, x)| *u += h * x);
            }
        }
        Ok((CpuStorage::F32(u), Shape::from((b, t, d))))
    }
}

/// The coefficients come as `[R | h]: [B, T, N, N + 1]`.
struct LaneMix;

impl CustomOp3 for LaneMix {
    fn name(&self) -> &'static str {
        "lane_mix"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        xl: &Layout,
        y: &CpuStorage,
        yl: &Layout,
        c: &CpuStorage,
        cl: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (_, _, n, d) = xl.shape().dims4()?;
        let (x, y, c) = (
            values(x, xl, "lane_mix")?,
            values(y, yl, "lane_mix")?,
            values(c, cl, "lane_mix")?,
        );
        let mut mixed = vec![0.0f32; x.len()];
        let positions = mixed
            .chunks_exact_mut(n * d)
            .zip(x.chunks_exact(n * d))
            .zip(y.chunks_exact(d));
        for (((mixed, x), y), c) in positions.zip(c.chunks_exact(n * (n + 1))) {
            for (mixed, row) in mixed.chunks_exact_mut(d).zip(c.chunks_exact(n + 1)) {
                for (lane, &r) in x.chunks_exact(d).chain([y]).zip(row) {
                    mixed.iter_mut().zip(lane).for_each(|(mixed, x)| *mixed += r * x);
                }
            }
        }
        Ok((CpuStorage::F32(mixed), xl.shape().clone()))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn cpu_forms_equal_the_definitions() -> Result<()> {
        for (b, t, n, d) in [(1, 1, 1, 4), (2, 3, 4, 48), (1, 7, 3, 64)] {
            let random = |shape: &[usize]| Tensor::randn(0f32, 1.0, shape, &Device::Cpu);
            let (x, y) = (random(&[b, t, n, d])?, random(&[b, t, d])?);
            let (r, h) = (random(&[b, t, n, n])?, random(&[b, t, n])?);
            let largest = |t: Tensor| t.abs()?.max_all()?.to_scalar::<f32>();
            assert!(largest((lane_read(&x, &h)? - lane_read_composed(&x, &h)?)?)? < 1e-5);
            assert!(largest((lane_mix(&x, &y, &r, &h)? - lane_mix_composed(&x, &y, &r, &h)?)?)? < 1e-5);
        }
        Ok(())
    }
}
