//! Whether confidence means anything: how often the model is right where it is that sure.

use serde::Serialize;

use super::{Outcome, Share};

/// Confidence against truth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reliability {
    /// Cases with a confidence.
    pub n: usize,
    /// The expected calibration error: the mean distance, over ten bins and weighted by their cases, between the mean
    /// confidence of a bin and its share of exact calls.
    pub ece: f64,
    /// Ten bins of equal width; those without a case are left out.
    pub bins: Vec<Bin>,
    /// What is left when calls below a confidence are withheld.
    pub thresholds: Vec<Threshold>,
}

/// Cases whose confidence lies between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// At least.
    pub from: f64,
    /// Below, or at most for the last.
    pub to: f64,
    /// The mean confidence.
    pub confidence: f64,
    /// Exact calls.
    pub exact: Share,
}

/// Cases with at least a confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// The confidence.
    pub least: f64,
    /// Cases that reach it, among all with a confidence.
    pub kept: Share,
    /// Exact calls among those.
    pub exact: Share,
}

const BINS: usize = 10;
const THRESHOLDS: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

impl Reliability {
    /// Of the outcomes with a confidence; `None` where there is none.
    pub fn of(outcomes: &[Outcome]) -> Option<Self> {
        let pairs: Vec<(f64, bool)> = outcomes
            .iter()
            .filter_map(|outcome| Some((f64::from(outcome.confidence?), outcome.comparison.exact)))
            .collect();
        if pairs.is_empty() {
            return None;
        }
        let n = pairs.len();
        let bins: Vec<Bin> = (0..BINS).filter_map(|index| bin(index, &pairs)).collect();
        let distance = |bin: &Bin| {
            let share = bin.exact.value().unwrap_or_default();
            bin.exact.n as f64 * (bin.confidence - share).abs()
        };
        let threshold = |least: f64| {
            let mut exact = Share::default();
            let kept = pairs.iter().filter(|(confidence, _)| *confidence >= least);
            kept.for_each(|(_, right)| exact.count(*right));
            let kept = Share { right: exact.n, n };
            Threshold { least, kept, exact }
        };
        Some(Self {
            n,
            ece: bins.iter().map(distance).sum::<f64>() / n as f64,
            thresholds: THRESHOLDS.into_iter().map(threshold).collect(),
            bins,
        })
    }
}

fn bin(index: usize, pairs: &[(f64, bool)]) -> Option<Bin> {
    let inside = pairs
        .iter()
        .filter(|(confidence, _)| ((confidence * BINS as f64) as usize).min(BINS - 1) == index);
    let (mut exact, mut sum) = (Share::default(), 0.0);
    for (confidence, right) in inside {
        exact.count(*right);
        sum += confidence;
    }
    (exact.n > 0).then(|| Bin {
        from: index as f64 / BINS as f64,
        to: (index + 1) as f64 / BINS as f64,
        confidence: sum / exact.n as f64,
        exact,
    })
}
