//! Sinkhorn scaling: `exp(m)` made doubly stochastic by scaling rows and columns in turn.

use candle_core::{CpuStorage, CustomOp1, D, DType, Layout, Result, Shape, Tensor};

use super::values;

/// Rounds of rows, then columns, as the reference does.
pub const SINKHORN_ROUNDS: usize = 20;

/// `[.., n, n]` → `[.., n, n]`: rows and columns sum to one, up to the rounds' accuracy.
pub fn sinkhorn(m: &Tensor) -> Result<Tensor> {
    if super::cpu_form_applies(&[m]) {
        return m.contiguous()?.apply_op1_no_bwd(&Sinkhorn);
    }
    sinkhorn_composed(m)
}

/// The definition in log space: subtract the log-sum-exp over the last axis, then over the one before; at the end `exp`.
pub fn sinkhorn_composed(m: &Tensor) -> Result<Tensor> {
    let mut log = m.to_dtype(DType::F32)?;
    for _ in 0..SINKHORN_ROUNDS {
        log = log.broadcast_sub(&log_sum_exp(&log, D::Minus1)?)?;
        log = log.broadcast_sub(&log_sum_exp(&log, D::Minus2)?)?;
    }
    log.exp()?.to_dtype(m.dtype())
}

fn log_sum_exp(x: &Tensor, axis: D) -> Result<Tensor> {
    let peak = x.detach().max_keepdim(axis)?;
    x.broadcast_sub(&peak)?
        .exp()?
        .sum_keepdim(axis)?
        .log()?
        .broadcast_add(&peak)
}

struct Sinkhorn;

impl CustomOp1 for Sinkhorn {
    fn name(&self) -> &'static str {
        "sinkhorn"
    }

    fn cpu_fwd(&self, m: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut y = values(m, layout, "sinkhorn")?.to_vec();
        let n = layout.dims().last().copied().unwrap_or(1);
        y.chunks_exact_mut(n * n).for_each(|matrix| scale(matrix, n));
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }
}

/// One matrix, by divisions instead of logarithms. In float64, whose exponents reach as far as any float32 logits differ;
/// each row's largest entry is taken out first, which the first row round would do anyhow.
fn scale(matrix: &mut [f32], n: usize) {
    let mut wide: Vec<f64> = matrix.iter().map(|&x| f64::from(x)).collect();
    for row in wide.chunks_exact_mut(n) {
        let peak = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.iter_mut()
            .for_each(|x| *x = (*x - peak).exp().max(f64::MIN_POSITIVE));
    }
    for _ in 0..SINKHORN_ROUNDS {
        for row in wide.chunks_exact_mut(n) {
            let inverse = 1.0 / row.iter().sum::<f64>();
            row.iter_mut().for_each(|x| *x *= inverse);
        }
        for column in 0..n {
            let inverse = 1.0 / (0..n).map(|row| wide[row * n + column]).sum::<f64>();
            (0..n).for_each(|row| wide[row * n + column] *= inverse);
        }
    }
    matrix.iter_mut().zip(wide).for_each(|(x, wide)| *x = wide as f32);
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn cpu_form_equals_the_definition_and_is_doubly_stochastic() -> Result<()> {
        for n in [1, 2, 3, 4] {
            let m = (Tensor::randn(0f32, 2.0, (9, n, n), &Device::Cpu)? * 2.0)?;
            let y = sinkhorn(&m)?;
            let difference = (&y - sinkhorn_composed(&m)?)?.abs()?.max_all()?.to_scalar::<f32>()?;
            assert!(difference < 1e-5, "{n} lanes: {difference}");
            let columns = y.sum(1)?.flatten_all()?.to_vec1::<f32>()?;
            assert!(columns.iter().all(|sum| (sum - 1.0).abs() < 1e-5), "{columns:?}");
        }
        Ok(())
    }
}
