//! What a run's curves say to somebody who has not looked at many.

use std::fmt;

use super::History;

/// Something worth saying about a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Advice {
    /// The training loss is where it began.
    NotMoved {
        /// Mean of the first steps.
        from: f64,
        /// Mean of the last.
        to: f64,
    },
    /// The held-out rows got worse while the training rows got better.
    Overfit {
        /// The step with the lowest validation loss.
        best_step: usize,
        /// That loss.
        best: f64,
        /// The last one.
        last: f64,
    },
}

/// Steps below which a curve says nothing.
const FEW_STEPS: usize = 8;
/// A loss that keeps this share of its first value has not moved.
const STILL: f64 = 0.97;
/// A validation loss this far above its best one has risen.
const RISEN: f64 = 1.03;

impl Advice {
    /// What the history says, if it says anything.
    pub fn of(history: &History) -> Option<Self> {
        let losses = history.losses();
        let mean = |losses: &[(usize, f64)]| losses.iter().map(|(_, loss)| loss).sum::<f64>() / losses.len() as f64;
        let quarter = losses.len() / 4;
        let falls =
            (losses.len() >= FEW_STEPS).then(|| (mean(&losses[..quarter]), mean(&losses[losses.len() - quarter..])));
        if let (Some((best_step, best)), Some((_, last))) = (history.best(), history.looks().last().copied())
            && history.looks_since_best() >= 2
            && last > best * RISEN
            && falls.is_none_or(|(from, to)| to < from)
        {
            return Some(Self::Overfit { best_step, best, last });
        }
        falls
            .filter(|(from, to)| *to > from * STILL)
            .map(|(from, to)| Self::NotMoved { from, to })
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMoved { from, to } => write!(
                f,
                "the training loss has not moved ({from:.3} at the start, {to:.3} now): a higher learning rate, more epochs, or \
                 rows that the model knows already"
            ),
            Self::Overfit { best_step, best, last } => write!(
                f,
                "the held-out rows were best at step {best_step} ({best:.3}, now {last:.3}): fewer epochs, an early stop, or \
                 more rows"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Record, *};

    fn history(losses: &[f64], looks: &[f64]) -> History {
        let step = |(at, &loss): (usize, &f64)| Record::Step {
            step: at + 1,
            epoch: 1,
            loss,
            lr: 0.0,
            grad_norm: 0.0,
            tokens: 1,
            elapsed_ms: 1.0,
        };
        let look = |(at, &val_loss): (usize, &f64)| Record::Look {
            step: at + 1,
            epoch: 1,
            val_loss,
        };
        let mut records: Vec<_> = losses.iter().enumerate().map(step).collect();
        records.extend(looks.iter().enumerate().map(look));
        History { records }
    }

    #[test]
    fn curves_are_read_as_a_person_would() {
        let falling: Vec<f64> = (0..16).map(|at| 3.0 - 0.1 * f64::from(at)).collect();
        assert_eq!(Advice::of(&history(&falling, &[3.0, 2.5, 2.0])), None);
        let overfit = Advice::of(&history(&falling, &[3.0, 2.0, 2.1, 2.2]));
        assert_eq!(
            overfit,
            Some(Advice::Overfit {
                best_step: 2,
                best: 2.0,
                last: 2.2
            })
        );
        assert_eq!(
            Advice::of(&history(&falling, &[3.0, 2.0, 2.2])),
            None,
            "one worse look is chance"
        );
        assert!(matches!(
            Advice::of(&history(&[2.0; 16], &[])),
            Some(Advice::NotMoved { .. })
        ));
        assert_eq!(Advice::of(&history(&[2.0; 4], &[])), None, "too few steps to say");
    }
}
