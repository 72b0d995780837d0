//! The contrastive and the confidence head on padded batches, with and without a window and pinned positions.

use candle_core::Tensor;
use needle_core::ops::Mask;

use super::{expect_close, keep, model, rows};
use crate::golden;

const WINDOW: usize = 8;

#[test]
fn both_heads_under_every_mask() {
    for name in ["a64", "b96", "c48"] {
        let model = model(&format!("gen2/checkpoints/{name}.safetensors"));
        let golden = golden::tensors(&format!("gen2/heads/{name}.safetensors"));
        for side in ["right", "left"] {
            let tokens = rows(&golden[&format!("{side}.tokens")]);
            let kept: Vec<Vec<bool>> = tokens
                .iter()
                .map(|row| row.iter().map(|&id| id != 0).collect())
                .collect();
            let pinned = keep(&golden[&format!("{side}.sink")]);
            let (b, t) = (tokens.len(), tokens[0].len());
            for case in ["plain", "window8", "window8_sink"] {
                let mask = Mask::new(b, t, t, |b, t, s| {
                    let near = t < s + WINDOW || (case == "window8_sink" && pinned[b][s]);
                    s <= t && kept[b][s] && (case == "plain" || near)
                });
                let found = model.contrastive(&tokens, &kept, &mask).unwrap().unwrap();
                let what = |head: &str| format!("{side}.{case}.{head}");
                expect_close(
                    &format!("{name} {}", what("contrastive")),
                    &found,
                    &golden[&what("contrastive")],
                    1e-4,
                );
                let found: Tensor = model.confidence(&tokens, &kept, &mask).unwrap().unwrap();
                expect_close(
                    &format!("{name} {}", what("confidence")),
                    &found,
                    &golden[&what("confidence")],
                    1e-4,
                );
            }
        }
    }
}
