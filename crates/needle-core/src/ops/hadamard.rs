//! Orthonormal Walsh-Hadamard transform: `y = H·x`, `H[i, j] = (−1)^popcount(i & j) / √n`, in `n·log₂ n` additions.
//!
//! `H` is symmetric and its own inverse, so the gradient is the transform again.

use candle_core::{CpuStorage, CustomOp1, D, DType, Device, Layout, Result, Shape, Tensor};

use super::values;

/// `y: [.., n]` = `H·x: [.., n]`, `n` a power of two.
pub fn hadamard(x: &Tensor) -> Result<Tensor> {
    if x.device().is_cpu() && x.dtype() == DType::F32 {
        return x.contiguous()?.apply_op1(Hadamard);
    }
    hadamard_composed(x)
}

/// The definition in tensor operations. With `n = a·b`, `H_n = H_a ⊗ H_b`: two products with small matrices.
pub fn hadamard_composed(x: &Tensor) -> Result<Tensor> {
    let n = x.dim(D::Minus1)?;
    if !n.is_power_of_two() {
        candle_core::bail!("hadamard: expected a power of two, found a width of {n}");
    }
    let a = 1 << (n.ilog2() / 2);
    let (b, rows) = (n / a, x.elem_count() / n);
    let factor = |size| matrix(size, x.device())?.to_dtype(x.dtype());
    let y = x.reshape((rows * a, b))?.matmul(&factor(b)?)?.reshape((rows, a, b))?;
    let y = y.transpose(1, 2)?.reshape((rows * b, a))?.matmul(&factor(a)?)?;
    y.reshape((rows, b, a))?.transpose(1, 2)?.reshape(x.shape())
}

/// `H: [n, n]`.
fn matrix(n: usize, device: &Device) -> Result<Tensor> {
    let scale = 1.0 / (n as f32).sqrt();
    let sign = |i: usize, j: usize| {
        if (i & j).count_ones().is_multiple_of(2) {
            scale
        } else {
            -scale
        }
    };
    let entries: Vec<f32> = (0..n * n).map(|at| sign(at / n, at % n)).collect();
    Tensor::from_vec(entries, (n, n), device)
}

/// The MLP without weight matrices: with `m` the next power of two from `D` on and the input zero-padded to `m`,
/// `z = H_m(d₁∘x)`, `z = H_m(silu(d₂∘z))`, output `(d₃∘z)[..D]`. `x: [.., D]`, the diagonals `[m]`.
pub fn hadamard_mlp(x: &Tensor, diagonals: [&Tensor; 3]) -> Result<Tensor> {
    mlp(x, diagonals, hadamard)
}

/// The definition in tensor operations.
pub fn hadamard_mlp_composed(x: &Tensor, diagonals: [&Tensor; 3]) -> Result<Tensor> {
    mlp(x, diagonals, hadamard_composed)
}

fn mlp(x: &Tensor, diagonals: [&Tensor; 3], transform: fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let (d, m) = (x.dim(D::Minus1)?, diagonals[0].dims1()?);
    let [d1, d2, d3] = diagonals.map(|diagonal| diagonal.to_dtype(x.dtype()));
    let padded = match m == d {
        true => x.clone(),
        false => x.pad_with_zeros(D::Minus1, 0, m - d)?,
    };
    let z = transform(&padded.broadcast_mul(&d1?)?)?;
    let z = transform(&z.broadcast_mul(&d2?)?.silu()?)?;
    z.broadcast_mul(&d3?)?.narrow(D::Minus1, 0, d)
}

struct Hadamard;

impl CustomOp1 for Hadamard {
    fn name(&self) -> &'static str {
        "hadamard"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut y = values(x, layout, "hadamard")?.to_vec();
        let n = layout.dims().last().copied().unwrap_or(1);
        if !n.is_power_of_two() {
            candle_core::bail!("hadamard: expected a power of two, found a width of {n}");
        }
        y.chunks_exact_mut(n).for_each(transform);
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    fn bwd(&self, _x: &Tensor, _y: &Tensor, dy: &Tensor) -> Result<Option<Tensor>> {
        hadamard(dy).map(Some)
    }
}

/// Butterflies in place, one row.
fn transform(row: &mut [f32]) {
    let n = row.len();
    let mut half = 1;
    while half < n {
        for pair in row.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (n as f32).sqrt();
    row.iter_mut().for_each(|x| *x *= scale);
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;

    #[test]
    fn two_points_by_hand() -> Result<()> {
        let half = std::f32::consts::FRAC_1_SQRT_2;
        let y = hadamard(&Tensor::new(&[[1f32, 3.0]], &Device::Cpu)?)?;
        assert_eq!(y.to_vec2::<f32>()?, vec![vec![4.0 * half, -2.0 * half]]);
        Ok(())
    }

    #[test]
    fn the_factors_make_up_the_matrix() -> Result<()> {
        for n in [1, 2, 8, 64, 512] {
            let rows = hadamard_composed(&Tensor::eye(n, DType::F32, &Device::Cpu)?)?;
            let difference = (rows - matrix(n, &Device::Cpu)?)?
                .abs()?
                .max_all()?
                .to_scalar::<f32>()?;
            assert!(difference < 1e-6, "{n}: {difference}");
        }
        Ok(())
    }

    #[test]
    fn equals_the_definition_in_value_and_gradient_and_is_its_own_inverse() -> Result<()> {
        for n in [1, 2, 8, 128, 512] {
            let x = Var::randn(0f32, 1.0, (3, n), &Device::Cpu)?;
            let weight = Tensor::randn(0f32, 1.0, (3, n), &Device::Cpu)?;
            let (fused, composed) = (hadamard(&x)?, hadamard_composed(&x)?);
            let largest = |t: Tensor| t.abs()?.max_all()?.to_scalar::<f32>();
            assert!(largest((&fused - &composed)?)? < 1e-5);
            assert!(largest((hadamard(&fused)? - x.as_tensor())?)? < 1e-5);
            let gradient = |y: Tensor| -> Result<Tensor> {
                let gradients = (y * &weight)?.sum_all()?.backward()?;
                gradients
                    .get(&x)
                    .cloned()
                    .ok_or_else(|| candle_core::Error::Msg("no gradient".into()))
            };
            assert!(largest((gradient(fused)? - gradient(composed)?)?)? < 1e-5);
        }
        Ok(())
    }
}
