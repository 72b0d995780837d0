//! Rotary position angles, half-split: `x = [x₁, x₂]`, `angle(p, i) = p·θ^(−2i/K)`,
//! `y = [x₁ cos − x₂ sin, x₂ cos + x₁ sin]`.

use candle_core::{DType, Device, Result, Tensor};

/// Cosines and sines of consecutive positions.
#[derive(Clone, Debug)]
pub struct Rope {
    cos: Tensor,
    sin: Tensor,
}

impl Rope {
    /// Angles of positions `first..first + count` for heads of width `k`: two tables `[count, k/2]`.
    ///
    /// Computed in float32 as the reference computes them: at position 4,000 a float64 angle differs by 10⁻³.
    pub fn at(first: usize, count: usize, k: usize, theta: f64, dtype: DType, device: &Device) -> Result<Self> {
        let frequency: Vec<f32> = (0..k / 2)
            .map(|i| 1.0 / (theta as f32).powf(2.0 * i as f32 / k as f32))
            .collect();
        let angles =
            || (first..first + count).flat_map(|p| frequency.iter().map(move |frequency| p as f32 * frequency));
        let table = |values: Vec<f32>| Tensor::from_vec(values, (count, k / 2), device)?.to_dtype(dtype);
        Ok(Self {
            cos: table(angles().map(f32::cos).collect())?,
            sin: table(angles().map(f32::sin).collect())?,
        })
    }

    /// Turns `x: [B, T, H, K]` by the angles of its `T` positions.
    pub fn apply(&self, x: &Tensor) -> Result<Tensor> {
        rope_composed(x, &self.cos, &self.sin)
    }

    /// The cosines, `[T, K/2]`.
    pub fn cos(&self) -> &Tensor {
        &self.cos
    }

    /// The sines, `[T, K/2]`.
    pub fn sin(&self) -> &Tensor {
        &self.sin
    }
}

/// The definition in tensor operations: `x: [B, T, H, K]`, `cos` and `sin: [T, K/2]`.
pub fn rope_composed(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    let (_, _, _, k) = x.dims4()?;
    let (cos, sin) = (cos.unsqueeze(1)?, sin.unsqueeze(1)?);
    let (x1, x2) = (x.narrow(3, 0, k / 2)?, x.narrow(3, k / 2, k / 2)?);
    let y1 = (x1.broadcast_mul(&cos)? - x2.broadcast_mul(&sin)?)?;
    let y2 = (x2.broadcast_mul(&cos)? + x1.broadcast_mul(&sin)?)?;
    Tensor::cat(&[y1, y2], 3)
}
