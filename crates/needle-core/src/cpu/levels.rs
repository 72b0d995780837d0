//! Codebook levels in 16 bits.
//!
//! A group's product is a sum of `group` terms `level·x` in 32-bit integers. With `‖x‖ ≤ 2¹⁵` it is at most
//! `2¹⁵·√group·largest level` by Cauchy and Schwarz, whatever the codes are, so the largest level may be `2¹⁶/√group`. Within
//! that, the scale is the one that rounds the levels least.

/// Largest norm of a group's activations in 16 bits, rounding included.
pub(super) const NORM_LIMIT: f32 = 32_700.0;

/// Levels as integers: `level ≈ integer·step`.
#[derive(Clone, Debug)]
pub(super) struct Levels16 {
    pub(super) levels: [i16; 16],
    pub(super) step: f32,
}

impl Levels16 {
    pub(super) fn new(levels: &[f32; 16], group: usize) -> Self {
        let largest = levels.iter().fold(0.0f32, |most, level| most.max(level.abs()));
        if largest == 0.0 {
            return Self {
                levels: [0; 16],
                step: 0.0,
            };
        }
        // √group/2 is the most that rounding adds to the activations' norm.
        let norm = f64::from(NORM_LIMIT) + (group as f64).sqrt() / 2.0;
        let limit = (f64::from(i32::MAX) / (norm * (group as f64).sqrt()) - 1.0).min(f64::from(i16::MAX) - 1.0);
        let error = |top: f64| -> f64 {
            let scale = top / f64::from(largest);
            let off = |level: &f32| {
                let exact = f64::from(*level) * scale;
                ((exact.round() - exact) / scale).powi(2)
            };
            levels.iter().map(off).sum()
        };
        let candidates = (0..CANDIDATES).map(|i| limit * (1.0 - 0.25 * f64::from(i) / f64::from(CANDIDATES)));
        let best = candidates
            .min_by(|a, b| error(*a).total_cmp(&error(*b)))
            .unwrap_or(limit);
        let scale = best / f64::from(largest);
        Self {
            levels: levels.map(|level| (f64::from(level) * scale).round() as i16),
            step: (1.0 / scale) as f32,
        }
    }
}

/// Scales that are tried.
const CANDIDATES: u32 = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::{CodeWidth, levels};

    #[test]
    fn sums_fit_and_levels_are_close() {
        for width in [CodeWidth::Two, CodeWidth::Four] {
            for group in [32, 64, 128, 4096] {
                let standard = levels(width, group);
                let table: [f32; 16] = std::array::from_fn(|i| standard[i % standard.len()]);
                let sixteen = Levels16::new(&table, group);
                let largest = sixteen
                    .levels
                    .iter()
                    .map(|level| f64::from(*level).abs())
                    .fold(0.0, f64::max);
                let root = (group as f64).sqrt();
                assert!(largest * root * (f64::from(NORM_LIMIT) + root / 2.0) < f64::from(i32::MAX));
                let unit = f64::from(standard.iter().fold(0.0f32, |most, level| most.max(level.abs())));
                for (integer, level) in sixteen.levels.iter().zip(table) {
                    let off = f64::from(*integer) * f64::from(sixteen.step) - f64::from(level);
                    assert!(off.abs() < 0.6 * unit / largest, "{width:?} {group}: {off}");
                }
            }
        }
    }
}
