//! The learning rate: a linear warm-up over a twentieth of the steps, then half a cosine down to zero.

/// Learning rates of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    peak: f64,
    warm_up: usize,
    total: usize,
}

impl Schedule {
    /// The schedule of `total` steps that reaches `peak` at the end of its warm-up.
    pub fn new(peak: f64, total: usize) -> Self {
        Self {
            peak,
            warm_up: (total / 20).max(1).min(total.saturating_sub(1)),
            total,
        }
    }

    /// Steps before the peak.
    pub fn warm_up(&self) -> usize {
        self.warm_up
    }

    /// The rate of step `step`, the first being 0 (whose rate is 0, unless it is the only one).
    pub fn rate(&self, step: usize) -> f64 {
        let Self { peak, warm_up, total } = *self;
        if step < warm_up {
            return peak * step as f64 / warm_up as f64;
        }
        let span = (total - warm_up).max(1);
        let share = (step - warm_up).min(span) as f64 / span as f64;
        peak * 0.5 * (1.0 + (std::f64::consts::PI * share).cos())
    }
}
