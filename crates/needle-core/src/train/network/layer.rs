//! One layer in differentiable tensor operations: the definition of `model/`, with weights that may be parameters.

use candle_core::{D, DType, Tensor};

use super::{scene::Scene, view::View};
use crate::{
    config::{Config, ENGRAM_TAPS},
    error::Result,
    ops,
};

/// Layer `l` of the lanes `x: [1, T, N, D]`.
pub(super) fn layer(view: &View<'_>, config: &Config, l: usize, x: &Tensor, scene: &Scene) -> Result<Tensor> {
    let mix = decide(view, l, x)?;
    let u = ops::lane_read_composed(x, &mix.pre)?;
    let y = (block(view, config, l, &u, scene)? - &u)?;
    Ok(ops::lane_mix_composed(x, &y, &mix.res, &mix.post)?)
}

struct Mix {
    /// `[1, T, N]` each.
    pre: Tensor,
    post: Tensor,
    /// `[1, T, N, N]`
    res: Tensor,
}

fn decide(view: &View<'_>, l: usize, x: &Tensor) -> Result<Mix> {
    let (b, t, n, d) = x.dims4()?;
    let nx = ops::rms_unit_composed(&x.reshape((b, t, n * d))?)?;
    let logits = |part: &str| -> Result<Tensor> {
        let name = |kind: &str| format!("layers.{l}.mhc.{kind}_{part}");
        let bias = view.float32(&name("b"))?.flatten_all()?;
        let raw = view.project(&nx, &name("phi"))?.to_dtype(DType::F32)?;
        Ok(raw.broadcast_mul(&view.float32(&name("a"))?)?.broadcast_add(&bias)?)
    };
    let home: Vec<f32> = (0..n).map(|lane| if lane == l % n { 1.0 } else { 0.0 }).collect();
    let home = Tensor::new(home, x.device())?;
    let pre = logits("pre")?.broadcast_add(&home.affine(8.0, -4.0)?)?;
    let post = logits("post")?.broadcast_add(&home.affine(4.0, -4.0)?)?;
    let res = logits("res")?.reshape((b, t, n, n))?;
    let dtype = x.dtype();
    Ok(Mix {
        pre: candle_nn::ops::sigmoid(&pre)?.to_dtype(dtype)?,
        post: (candle_nn::ops::sigmoid(&post)? * 2.0)?.to_dtype(dtype)?,
        res: ops::sinkhorn_composed(&res)?.to_dtype(dtype)?,
    })
}

/// `x: [1, T, D]` → `[1, T, D]`.
fn block(view: &View<'_>, config: &Config, l: usize, x: &Tensor, scene: &Scene) -> Result<Tensor> {
    let name = |leaf: &str| format!("layers.{l}.{leaf}");
    let norm =
        |x: &Tensor, leaf: &str| -> Result<Tensor> { Ok(ops::rms_norm_composed(x, &view.tensor(&name(leaf))?)?) };
    let x = match config.engram.layers.iter().position(|&at| at == l) {
        Some(site) => recall(view, config, site, x, scene)?,
        None => x.clone(),
    };
    let attended = norm(
        &attention(view, config, l, &norm(&x, "norm_in")?, scene)?,
        "post_attn_norm",
    )?;
    let gate = candle_nn::ops::sigmoid(&view.tensor(&name("attn_gate"))?)?;
    let x = (x + attended.broadcast_mul(&gate)?)?;
    let mixed = hadamard_mlp(view, l, &norm(&x, "pre_hada_norm")?)?;
    Ok((x + mixed)?)
}

fn attention(view: &View<'_>, config: &Config, l: usize, h: &Tensor, scene: &Scene) -> Result<Tensor> {
    let (b, t, _) = h.dims3()?;
    let name = |leaf: &str| format!("layers.{l}.self_attn.{leaf}");
    let heads =
        |leaf: &str, count: usize| -> Result<Tensor> { Ok(view.project(h, &name(leaf))?.reshape((b, t, count, ()))?) };
    let turned = |x: Tensor, norm: &str| -> Result<Tensor> {
        let x = ops::rms_norm_composed(&x, &view.tensor(&name(norm))?)?;
        Ok(ops::rope_composed(&x, &scene.cos, &scene.sin)?)
    };
    let q = turned(heads("q_proj", config.num_heads)?, "q_norm")?;
    let k = turned(heads("k_proj", config.num_kv_heads)?, "k_norm")?;
    let v = heads("v_proj", config.num_kv_heads)?;
    let o = ops::attention_composed(&q, &k, &v, &scene.mask)?.reshape((b, t, ()))?;
    let gate = candle_nn::ops::sigmoid(&view.project(h, &name("gate_proj"))?)?;
    view.project(&(o * gate)?, &name("out_proj"))
}

fn hadamard_mlp(view: &View<'_>, l: usize, x: &Tensor) -> Result<Tensor> {
    let (_, _, d) = x.dims3()?;
    let diagonal = |leaf: &str| view.tensor(&format!("layers.{l}.hadamard_mlp.{leaf}"));
    let d1 = diagonal("d1")?;
    let m = d1.dims1()?;
    let x = if m == d {
        x.clone()
    } else {
        x.pad_with_zeros(D::Minus1, 0, m - d)?
    };
    let z = ops::hadamard(&x.broadcast_mul(&d1)?)?;
    let z = ops::hadamard(&z.broadcast_mul(&diagonal("d2")?)?.silu()?)?;
    Ok(z.broadcast_mul(&diagonal("d3")?)?.narrow(D::Minus1, 0, d)?)
}

/// `x + σ(⟨rms_unit(x), rms_unit(k)⟩/√D)·v` with what engram site `s` recalls.
fn recall(view: &View<'_>, config: &Config, s: usize, x: &Tensor, scene: &Scene) -> Result<Tensor> {
    let (b, t, d) = x.dims3()?;
    let name = |leaf: &str| format!("engrams.{s}.{leaf}");
    let tables = view.tensor(&name("tables"))?;
    let (_, width) = tables.dims2()?;
    let fetched = tables.index_select(&scene.engram_rows, 0)?.reshape((b, t, (), width))?;
    let e = fetched.broadcast_mul(&scene.engram_seen)?.reshape((b, t, d))?;
    let key = ops::rms_unit_composed(&view.project(&e, &name("key_proj"))?)?;
    let value = view.project(&e, &name("value_proj"))?;
    let taps = view.tensor(&name("taps"))?;
    let reach = (ENGRAM_TAPS - 1) * config.engram_dilation();
    let earlier = value.pad_with_zeros(1, reach, 0)?;
    let mut filtered: Option<Tensor> = None;
    for (j, seen) in scene.taps_seen.iter().enumerate() {
        let delayed = earlier.narrow(1, reach - j * config.engram_dilation(), t)?;
        let tap = delayed.broadcast_mul(&taps.narrow(0, j, 1)?)?.broadcast_mul(seen)?;
        filtered = Some(match filtered {
            Some(sum) => (sum + tap)?,
            None => tap,
        });
    }
    let agreement = (ops::rms_unit_composed(x)? * key)?
        .to_dtype(DType::F32)?
        .sum_keepdim(D::Minus1)?;
    let alpha = candle_nn::ops::sigmoid(&(agreement / (d as f64).sqrt())?)?.to_dtype(x.dtype())?;
    Ok((x + filtered.unwrap_or(value).broadcast_mul(&alpha)?)?)
}
