//! How many threads a pass gets: as many as prove fastest.
//!
//! Members of a pass wait for each other some hundred times a token, so more of them help where cores are free and cost where
//! another program holds one. Both can change at any time. So the first passes try every count, the best one is kept, and
//! now and then another is tried again, the more rarely the longer nothing changes. Results do not depend on the count.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

/// Passes that try each count at first.
const TRIES: usize = 2;
/// Passes between two trials, at first and at most.
const OFTEN: usize = 32;
const RARELY: usize = 2048;

/// What passes of one kind took with each count. Several passes at once may blur a number, no more.
#[derive(Debug)]
pub(super) struct Tuner {
    trials: Vec<Trial>,
    passes: AtomicUsize,
    /// The pass that tries another count next.
    next: AtomicUsize,
    /// Passes from that one to the one after.
    pause: AtomicUsize,
}

#[derive(Debug)]
struct Trial {
    threads: usize,
    /// Smoothed nanoseconds a position; 0 where nothing is known.
    nanos: AtomicU64,
}

/// The count for one pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    trial: usize,
    pub(super) threads: usize,
}

impl Tuner {
    /// Chooses among 1, 2, 4, … and `most` threads.
    pub(super) fn measuring(most: usize) -> Self {
        let doubled = std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|count| *count < most);
        Self::among(doubled.chain([most]))
    }

    /// Always `threads`.
    pub(super) fn fixed(threads: usize) -> Self {
        Self::among([threads].into_iter())
    }

    fn among(counts: impl Iterator<Item = usize>) -> Self {
        let trial = |threads| Trial {
            threads,
            nanos: AtomicU64::new(0),
        };
        let trials: Vec<Trial> = counts.map(trial).collect();
        Self {
            next: AtomicUsize::new(trials.len() * TRIES + OFTEN),
            trials,
            passes: AtomicUsize::new(0),
            pause: AtomicUsize::new(OFTEN),
        }
    }

    /// The count for the next pass.
    pub(super) fn choose(&self) -> Choice {
        let pass = self.passes.fetch_add(1, Ordering::Relaxed);
        let count = self.trials.len();
        let trial = if pass < count * TRIES {
            pass % count
        } else {
            let best = self.best();
            if count > 1 && pass >= self.next.load(Ordering::Relaxed) {
                let pause = self.pause.load(Ordering::Relaxed);
                self.next.store(pass + pause, Ordering::Relaxed);
                self.pause.store((2 * pause).min(RARELY), Ordering::Relaxed);
                // Every other count has its turn.
                (best + 1 + pass / OFTEN % (count - 1)) % count
            } else {
                best
            }
        };
        Choice {
            trial,
            threads: self.trials[trial].threads,
        }
    }

    /// Notes what a pass over some positions took.
    pub(super) fn note(&self, choice: Choice, positions: usize, time: Duration) {
        let best = self.best();
        let nanos = (time.as_nanos() as u64 / positions.max(1) as u64).max(1);
        let known = &self.trials[choice.trial].nanos;
        let smooth = match known.load(Ordering::Relaxed) {
            0 => nanos,
            before => (3 * before + nanos) / 4,
        };
        known.store(smooth, Ordering::Relaxed);
        if self.best() != best {
            self.pause.store(OFTEN, Ordering::Relaxed);
        }
    }

    fn best(&self) -> usize {
        let nanos = |trial: &Trial| match trial.nanos.load(Ordering::Relaxed) {
            0 => u64::MAX,
            nanos => nanos,
        };
        let trials = self.trials.iter().enumerate();
        trials.min_by_key(|(_, trial)| nanos(trial)).map_or(0, |(i, _)| i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(tuner: &Tuner, passes: usize, nanos: impl Fn(usize) -> u64) -> Vec<usize> {
        let pass = |_| {
            let choice = tuner.choose();
            tuner.note(choice, 1, Duration::from_nanos(nanos(choice.threads)));
            choice.threads
        };
        (0..passes).map(pass).collect()
    }

    #[test]
    fn the_fastest_count_is_found_kept_and_left_when_things_change() {
        let tuner = Tuner::measuring(6);
        let counts = |chosen: &[usize], threads| chosen.iter().filter(|count| **count == threads).count();
        let first = run(&tuner, 200, |threads| 1000 / threads as u64);
        assert_eq!(first[..8], [1, 2, 4, 6, 1, 2, 4, 6]);
        assert!(counts(&first, 6) > 180, "{first:?}");
        let later = run(&tuner, 4000, |threads| 1000 * threads as u64);
        assert!(counts(&later[2500..], 1) > 1400, "{later:?}");
        assert!(run(&Tuner::fixed(3), 10, |_| 5).iter().all(|count| *count == 3));
    }
}
