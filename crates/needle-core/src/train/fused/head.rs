//! From the last lanes to the loss: mean of the lanes, final norm, logits of scored positions, cross-entropy; and back.

use super::{
    norm,
    product::{Crew, Matrix, Out, product},
    vector::{exp, peak, sum, vectorised},
};

/// Scored positions whose logits exist at a time.
const AT_ONCE: usize = 256;

/// The weights of the output.
#[derive(Clone, Copy)]
pub(super) struct Output<'a> {
    /// `[V, D]`
    pub(super) embedding: &'a [f32],
    pub(super) final_norm: &'a [f32],
    pub(super) lanes: usize,
}

/// What the way back gives.
pub(super) struct OutputSlopes<'a> {
    /// Of the lanes, `[T, N·D]`, filled with zeros where nothing is scored.
    pub(super) x: &'a mut [f32],
    /// Of the embedding and the final norm, where they are wanted.
    pub(super) weights: Option<(&'a mut [f32], &'a mut [f32])>,
    /// What the loss is multiplied by.
    pub(super) factor: f32,
}

impl Output<'_> {
    /// `Σ −log p(target)` over the scored positions of the lanes `x`.
    pub(super) fn loss(&self, x: &[f32], scored: &[u32], targets: &[u32], slopes: Option<OutputSlopes<'_>>) -> f64 {
        let d = self.final_norm.len();
        let (n, v) = (self.lanes, self.embedding.len() / d);
        let embedding = Matrix::new(self.embedding, d);
        let mut slopes = slopes;
        let mut loss = 0.0;
        for (scored, targets) in scored.chunks(AT_ONCE).zip(targets.chunks(AT_ONCE)) {
            let s = scored.len();
            let (mut mean, mut normed) = (vec![0.0; s * d], vec![0.0; s * d]);
            for ((mean, normed), &t) in mean.chunks_exact_mut(d).zip(normed.chunks_exact_mut(d)).zip(scored) {
                for lane in x[t as usize * n * d..][..n * d].chunks_exact(d) {
                    mean.iter_mut().zip(lane).for_each(|(mean, x)| *mean += x / n as f32);
                }
                norm::scaled(normed, mean, self.final_norm, norm::inverse(mean));
            }
            let mut logits = vec![0.0; s * v];
            product(
                Out::over(&mut logits, v),
                1.0,
                Matrix::new(&normed, d),
                embedding.t(),
                Crew::All,
            );
            let factor = slopes.as_ref().map_or(0.0, |slopes| slopes.factor);
            for (logits, &target) in logits.chunks_exact_mut(v).zip(targets) {
                loss += f64::from(cross_entropy(logits, target as usize, factor));
            }
            let Some(slopes) = &mut slopes else { continue };
            let d_logits = Matrix::new(&logits, v);
            let mut d_normed = vec![0.0; s * d];
            product(Out::over(&mut d_normed, d), 1.0, d_logits, embedding, Crew::All);
            if let Some((d_embedding, d_norm)) = &mut slopes.weights {
                product(
                    Out::onto(d_embedding, d),
                    1.0,
                    d_logits.t(),
                    Matrix::new(&normed, d),
                    Crew::All,
                );
                for (mean, slope) in mean.chunks_exact(d).zip(d_normed.chunks_exact(d)) {
                    norm::add_scale_gradient(d_norm, mean, norm::inverse(mean), slope);
                }
            }
            let mut d_mean = vec![0.0; d];
            for ((mean, slope), &t) in mean.chunks_exact(d).zip(d_normed.chunks_exact(d)).zip(scored) {
                d_mean.fill(0.0);
                norm::add_gradient(&mut d_mean, mean, self.final_norm, norm::inverse(mean), slope);
                for lane in slopes.x[t as usize * n * d..][..n * d].chunks_exact_mut(d) {
                    lane.iter_mut()
                        .zip(&d_mean)
                        .for_each(|(x, slope)| *x += slope / n as f32);
                }
            }
        }
        loss
    }
}

vectorised! {
    /// `−log p(target)` of a row of logits, which becomes `factor·(p − onehot(target))`.
    fn cross_entropy(logits: &mut [f32], target: usize, factor: f32) -> f32 {
        let highest = peak(logits);
        let wanted = logits[target] - highest;
        logits.iter_mut().for_each(|x| *x = exp(*x - highest));
        let total = sum(logits);
        let share = factor / total;
        logits.iter_mut().for_each(|x| *x *= share);
        logits[target] -= factor;
        total.ln() - wanted
    }
}
