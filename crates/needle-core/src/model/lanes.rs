//! Hyper-connections: `N` copies of the residual stream, read from, written to and mixed around each block.
//!
//! With `nx = rms_unit(X)` over all lanes together and `home = l mod N`:
//! `h_pre = σ(a_pre·nx·Φ_pre + b_pre + 8·onehot(home) − 4)`, `h_post = 2σ(a_post·nx·Φ_post + b_post − 4·(1 − onehot(home)))`,
//! `R = sinkhorn(a_res·nx·Φ_res + b_res)`.

use candle_core::{D, Tensor};

use super::Loader;
use crate::{config::Config, error::Result, ops::FrontWeights};

/// The weights of layer `l`.
pub(super) fn load(loader: &Loader<'_>, prefix: &str, config: &Config, l: usize) -> Result<FrontWeights> {
    let (n, d) = (config.mhc_lanes, config.d_model);
    let phi = |name: &str, out| loader.tensor(&format!("{prefix}.{name}"), &[out, n * d]);
    let full = |name: &str, shape: &[usize]| loader.float32(&format!("{prefix}.{name}"), shape);
    let scale = |name: &str| Ok(full(name, &[])?.reshape(1)?);
    let home: Vec<f32> = (0..n).map(|lane| if lane == l % n { 1.0 } else { 0.0 }).collect();
    let home = Tensor::new(home, loader.device())?;
    let b_pre = (full("b_pre", &[n])? + home.affine(8.0, -4.0)?)?;
    let b_post = (full("b_post", &[n])? + home.affine(4.0, -4.0)?)?;
    let b_res = full("b_res", &[n, n])?.reshape(n * n)?;
    let scales: [Result<Tensor>; 3] = ["a_pre", "a_post", "a_res"].map(scale);
    let [a_pre, a_post, a_res] = scales;
    Ok(FrontWeights {
        phi: Tensor::cat(&[phi("phi_pre", n)?, phi("phi_post", n)?, phi("phi_res", n * n)?], 0)?,
        bias: Tensor::cat(&[b_pre, b_post, b_res], 0)?,
        scale: Tensor::cat(&[a_pre?, a_post?, a_res?], 0)?,
    })
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
