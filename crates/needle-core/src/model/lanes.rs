//! Hyper-connections: `N` copies of the residual stream, read from, written to and mixed around each block.
//!
//! With `nx = rms_unit(X)` over all lanes together and `home = l mod N`:
//! `h_pre = σ(a_pre·nx·Φ_pre + b_pre + 8·onehot(home) − 4)`, `h_post = 2σ(a_post·nx·Φ_post + b_post − 4·(1 − onehot(home)))`,
//! `R = sinkhorn(a_res·nx·Φ_res + b_res)`.

use candle_core::{D, DType, Tensor};

use super::{Loader, linear::Linear};
use crate::{config::Config, error::Result, ops};

#[derive(Clone, Debug)]
pub(super) struct Lanes {
    phi_pre: Linear,
    phi_post: Linear,
    phi_res: Linear,
    /// Scalars.
    a_pre: Tensor,
    a_post: Tensor,
    a_res: Tensor,
    /// `[N]`, `[N]` and `[N·N]`, in float32, the offsets of the home lane added.
    b_pre: Tensor,
    b_post: Tensor,
    b_res: Tensor,
}

/// What one position's lanes decided: how to read, how to write, how to mix.
pub(super) struct Mix {
    /// `[B, T, N]`
    pub(super) pre: Tensor,
    /// `[B, T, N]`
    pub(super) post: Tensor,
    /// `[B, T, N, N]`
    pub(super) res: Tensor,
}

impl Lanes {
    pub(super) fn load(loader: &Loader<'_>, prefix: &str, config: &Config, l: usize) -> Result<Self> {
        let (n, d) = (config.mhc_lanes, config.d_model);
        let phi = |name: &str, out| Linear::load(loader, &format!("{prefix}.{name}"), out, n * d);
        let full = |name: &str, shape: &[usize]| loader.float32(&format!("{prefix}.{name}"), shape);
        let home: Vec<f32> = (0..n).map(|lane| if lane == l % n { 1.0 } else { 0.0 }).collect();
        let home = Tensor::new(home, loader.device())?;
        Ok(Self {
            phi_pre: phi("phi_pre", n)?,
            phi_post: phi("phi_post", n)?,
            phi_res: phi("phi_res", n * n)?,
            a_pre: full("a_pre", &[])?,
            a_post: full("a_post", &[])?,
            a_res: full("a_res", &[])?,
            b_pre: (full("b_pre", &[n])? + home.affine(8.0, -4.0)?)?,
            b_post: (full("b_post", &[n])? + home.affine(4.0, -4.0)?)?,
            b_res: full("b_res", &[n, n])?.reshape(n * n)?,
        })
    }

    /// The decisions for lanes `x: [B, T, N, D]`.
    pub(super) fn decide(&self, x: &Tensor) -> Result<Mix> {
        let (b, t, n, d) = x.dims4()?;
        let nx = ops::rms_unit(&x.reshape((b, t, n * d))?)?;
        let logits = |phi: &Linear, a: &Tensor, bias: &Tensor| -> Result<Tensor> {
            Ok(phi
                .forward(&nx)?
                .to_dtype(DType::F32)?
                .broadcast_mul(a)?
                .broadcast_add(bias)?)
        };
        let pre = candle_nn::ops::sigmoid(&logits(&self.phi_pre, &self.a_pre, &self.b_pre)?)?;
        let post = (candle_nn::ops::sigmoid(&logits(&self.phi_post, &self.a_post, &self.b_post)?)? * 2.0)?;
        let res = ops::sinkhorn(&logits(&self.phi_res, &self.a_res, &self.b_res)?.reshape((b, t, n, n))?)?;
        let dtype = x.dtype();
        Ok(Mix {
            pre: pre.to_dtype(dtype)?,
            post: post.to_dtype(dtype)?,
            res: res.to_dtype(dtype)?,
        })
    }
}

impl Mix {
    /// `u = Σ pre_i X_i`: `[B, T, N, D]` → `[B, T, D]`.
    pub(super) fn read(&self, x: &Tensor) -> Result<Tensor> {
        Ok(ops::lane_read(x, &self.pre)?)
    }

    /// `X'_i = Σ_j res_ij X_j + post_i y`.
    pub(super) fn write(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        Ok(ops::lane_mix(x, y, &self.res, &self.post)?)
    }
}

/// The stream as it starts: `x: [B, T, D]` copied to `n` lanes.
pub(super) fn spread(x: &Tensor, n: usize) -> Result<Tensor> {
    let (b, t, d) = x.dims3()?;
    Ok(x.unsqueeze(2)?.broadcast_as((b, t, n, d))?.contiguous()?)
}

/// The stream as it ends: the mean of the lanes, `[B, T, N, D]` → `[B, T, D]`.
pub(super) fn gather(x: &Tensor) -> Result<Tensor> {
    Ok(x.mean(D::Minus2)?)
}
