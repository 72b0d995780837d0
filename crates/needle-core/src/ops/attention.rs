//! Grouped-query softmax attention under a mask: `o_t = Σ_s softmax_s(⟨q_t, k_s⟩/√K) v_s` over the keys that `t` may see.
//!
//! A query that may see nothing attends uniformly to everything, as the reference's does; such rows are padding, and nothing
//! may depend on them.

use candle_core::{CpuStorage, CustomOp3, D, DType, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::{Mask, simd, values};

/// Scores of keys out of sight. Finite, so that a row of nothing but these becomes uniform instead of NaN.
const UNSEEN: f64 = -1e30;

/// `[B, T, H, Kv]` for queries `q: [B, T, H, K]`, keys `k: [B, S, G, K]`, values `v: [B, S, G, Kv]` and a mask over `[B, T, S]`
/// (or `[1, T, S]` for all rows alike). `H` is a multiple of `G`; query head `h` reads key head `h / (H/G)`.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, mask: &Mask) -> Result<Tensor> {
    if super::cpu_form_applies(&[q, k, v]) {
        return q
            .contiguous()?
            .apply_op3_no_bwd(&k.contiguous()?, &v.contiguous()?, &Attention { mask: mask.clone() });
    }
    attention_composed(q, k, v, mask)
}

/// The definition in tensor operations; the softmax in float32 whatever the dtype.
pub fn attention_composed(q: &Tensor, k: &Tensor, v: &Tensor, mask: &Mask) -> Result<Tensor> {
    let (b, t, h, width) = q.dims4()?;
    let (_, s, g, v_width) = v.dims4()?;
    let group = h / g;
    let q = q
        .reshape((b, t, g, group, width))?
        .permute((0, 2, 3, 1, 4))?
        .reshape((b, g, group * t, width))?;
    let keys = k.permute((0, 2, 3, 1))?.contiguous()?;
    let scores = (q.contiguous()?.matmul(&keys)?.to_dtype(DType::F32)? / (width as f64).sqrt())?;
    let scores = scores.reshape((b, g, group, t, s))?;
    let seen = mask
        .to_tensor(q.device())?
        .unsqueeze(1)?
        .unsqueeze(1)?
        .broadcast_as(scores.shape())?;
    let unseen = Tensor::full(UNSEEN as f32, (), q.device())?.broadcast_as(scores.shape())?;
    let weights = candle_nn::ops::softmax(&seen.where_cond(&scores, &unseen)?, D::Minus1)?.to_dtype(v.dtype())?;
    let values = v.transpose(1, 2)?.contiguous()?;
    let out = weights.reshape((b, g, group * t, s))?.matmul(&values)?;
    out.reshape((b, h, t, v_width))?.transpose(1, 2)?.contiguous()
}

struct Attention {
    mask: Mask,
}

impl CustomOp3 for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        ql: &Layout,
        k: &CpuStorage,
        kl: &Layout,
        v: &CpuStorage,
        vl: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (b, t, h, width) = ql.shape().dims4()?;
        let (_, s, g, v_width) = vl.shape().dims4()?;
        let (q, k, v) = (
            values(q, ql, "attention")?,
            values(k, kl, "attention")?,
            values(v, vl, "attention")?,
        );
        self.mask.expect_shape(b, t, s)?;
        let mut out = vec![0.0f32; b * t * h * v_width];
        let query = |(at, out): (usize, &mut [f32])| {
            let (row, position) = (at / t, at % t);
            let seen = self.mask.row(row, position);
            let mut scores = vec![0.0f32; s];
            for head in 0..h {
                let q = &q[(at * h + head) * width..][..width];
                let key_head = head / (h / g);
                let out = &mut out[head * v_width..][..v_width];
                let keys = Heads {
                    data: &k[row * s * g * width..],
                    heads: g,
                    head: key_head,
                    width,
                };
                let values = Heads {
                    data: &v[row * s * g * v_width..],
                    heads: g,
                    head: key_head,
                    width: v_width,
                };
                attend(q, keys, values, seen, &mut scores, out);
            }
        };
        if b * t == 1 {
            query((0, &mut out));
        } else {
            out.par_chunks_exact_mut(h * v_width).enumerate().for_each(query);
        }
        Ok((CpuStorage::F32(out), Shape::from((b, t, h, v_width))))
    }
}

/// One head of a `[S, heads, width]` block.
struct Heads<'a> {
    data: &'a [f32],
    heads: usize,
    head: usize,
    width: usize,
}

impl Heads<'_> {
    fn at(&self, position: usize) -> &[f32] {
        &self.data[(position * self.heads + self.head) * self.width..][..self.width]
    }
}

/// One query of one head. Keys are taken in order, so that those out of sight leave no trace in the sums.
fn attend(q: &[f32], keys: Heads<'_>, values: Heads<'_>, seen: &[u8], scores: &mut [f32], out: &mut [f32]) {
    let blind = seen.iter().all(|&seen| seen == 0);
    let scale = (q.len() as f32).sqrt();
    let mut peak = f32::NEG_INFINITY;
    for (s, score) in scores.iter_mut().enumerate() {
        if blind {
            *score = 0.0;
        } else if seen[s] != 0 {
            simd::products(q, keys.at(s), q.len(), std::slice::from_mut(score), 1);
            *score /= scale;
        } else {
            *score = f32::NEG_INFINITY;
        }
        peak = peak.max(*score);
    }
    let mut total = 0.0f32;
    for (s, score) in scores.iter().enumerate() {
        if *score == f32::NEG_INFINITY {
            continue;
        }
        let weight = (score - peak).exp();
        total += weight;
        out.iter_mut().zip(values.at(s)).for_each(|(out, v)| *out += weight * v);
    }
    out.iter_mut().for_each(|out| *out /= total);
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn cpu_form_equals_the_definition() -> Result<()> {
        for (b, t, s, h, g, k, kv) in [(1, 1, 1, 1, 1, 2, 2), (2, 5, 5, 4, 2, 16, 8), (1, 3, 9, 6, 2, 12, 20)] {
            let random = |shape: &[usize]| Tensor::randn(0f32, 1.0, shape, &Device::Cpu);
            let (q, key, v) = (random(&[b, t, h, k])?, random(&[b, s, g, k])?, random(&[b, s, g, kv])?);
            let mask = Mask::new(b, t, s, |_, t, key| key <= t + (s - t.max(1)) && (key + t) % 4 != 1);
            let difference = (attention(&q, &key, &v, &mask)? - attention_composed(&q, &key, &v, &mask)?)?;
            assert!(difference.abs()?.max_all()?.to_scalar::<f32>()? < 1e-5);
        }
        Ok(())
    }

    #[test]
    fn a_blind_query_averages_everything() -> Result<()> {
        let v = Tensor::new(&[[[[1f32]], [[3.0]]]], &Device::Cpu)?;
        let q = Tensor::ones((1, 1, 1, 1), DType::F32, &Device::Cpu)?;
        let mask = Mask::new(1, 1, 2, |_, _, _| false);
        for y in [
            attention(&q, &q.repeat((1, 2, 1, 1))?, &v, &mask)?,
            attention_composed(&q, &q.repeat((1, 2, 1, 1))?, &v, &mask)?,
        ] {
            assert_eq!(y.flatten_all()?.to_vec1::<f32>()?, vec![2.0]);
        }
        Ok(())
    }
}
