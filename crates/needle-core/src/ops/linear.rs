//! `y = x·Wᵀ`: a projection whose weight is stored `[out, in]`.
//!
//! The frozen weights of a fine-tuning run need no gradient of their own; candle's matrix product would compute it all the
//! same, so the gradient of `W` is formed only where `W` asks for one.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::{simd, values};

/// `y: [.., out]` = `x: [.., in]` · `w: [out, in]`ᵀ.
pub fn linear(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    if super::cpu_form_applies(&[x, w]) {
        return x.contiguous()?.apply_op2_no_bwd(w, &Linear);
    }
    linear_composed(x, w)
}

/// The definition in tensor operations.
pub fn linear_composed(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let (out, inner) = w.dims2()?;
    let mut shape = x.dims().to_vec();
    let rows = x.elem_count() / inner;
    let y = x.reshape((rows, inner))?.matmul(&w.t()?)?;
    if let Some(last) = shape.last_mut() {
        *last = out;
    }
    y.reshape(shape)
}

/// Multiply-adds below which a second thread costs more than it saves.
const PARALLEL_FROM: usize = 1 << 20;
/// Rows of `w` that one task reads; their bytes stay in the first-level cache while the rows of `x` pass.
const COLUMN_BLOCK: usize = 16;

struct Linear;

impl CustomOp2 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(&self, x: &CpuStorage, xl: &Layout, w: &CpuStorage, wl: &Layout) -> Result<(CpuStorage, Shape)> {
        let (out, inner) = wl.shape().dims2()?;
        let (x, w) = (values(x, xl, "linear")?, values(w, wl, "linear")?);
        let mut shape = xl.dims().to_vec();
        match shape.last_mut() {
            Some(last) if *last == inner => *last = out,
            _ => candle_core::bail!("linear: expected [.., {inner}], found {:?}", xl.dims()),
        }
        let rows = x.len() / inner;
        let mut y = vec![0.0f32; rows * out];
        if rows * out * inner < PARALLEL_FROM {
            block(x, w, inner, &mut y, out);
        } else if rows == 1 {
            let columns = out
                .div_ceil(rayon::current_num_threads())
                .next_multiple_of(COLUMN_BLOCK);
            let blocks = y.par_chunks_mut(columns).zip(w.par_chunks(columns * inner));
            blocks.for_each(|(y, w)| block(x, w, inner, y, y.len()));
        } else {
            let share = rows.div_ceil(rayon::current_num_threads()).next_multiple_of(4);
            let blocks = y.par_chunks_mut(share * out).zip(x.par_chunks(share * inner));
            blocks.for_each(|(y, x)| block(x, w, inner, y, out));
        }
        Ok((CpuStorage::F32(y), Shape::from(shape)))
    }
}

/// All products of the rows of `x` and of `w`, a block of `w` at a time.
fn block(x: &[f32], w: &[f32], inner: usize, y: &mut [f32], out: usize) {
    for (i, w) in w.chunks(COLUMN_BLOCK * inner).enumerate() {
        simd::products(x, w, inner, &mut y[i * COLUMN_BLOCK..], out);
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn cpu_form_equals_the_definition() -> Result<()> {
        for (rows, inner, out) in [(1, 8, 3), (5, 96, 40), (33, 100, 17), (64, 192, 192), (1, 512, 8192)] {
            let x = Tensor::randn(0f32, 1.0, (rows, inner), &Device::Cpu)?;
            let w = Tensor::randn(0f32, 1.0, (out, inner), &Device::Cpu)?;
            let difference = (linear(&x, &w)? - linear_composed(&x, &w)?)?
                .abs()?
                .max_all()?
                .to_scalar::<f32>()?;
            assert!(
                difference < 1e-4 * (inner as f32).sqrt(),
                "[{rows}, {inner}]·[{inner}, {out}]: {difference}"
            );
        }
        Ok(())
    }
}
