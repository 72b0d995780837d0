//! Wall-clock timing and its table: median of several runs, spread, ratio to the first row.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use anyhow::Result;

/// Nanoseconds that all threads of this process have had a processor.
#[cfg(unix)]
pub(crate) fn processor_ns() -> u128 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place for the answer is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u128 * 1_000_000_000 + time.tv_nsec as u128
}

/// This system does not say.
#[cfg(not(unix))]
pub(crate) fn processor_ns() -> u128 {
    0
}

/// What one subject took.
#[derive(Debug)]
pub(crate) struct Timing {
    name: String,
    // Ascending, never empty.
    runs: Vec<Duration>,
}

impl Timing {
    /// Calls `subject` once to warm up and then `runs` times (at least once) against the clock.
    pub(crate) fn of(name: impl Into<String>, runs: usize, mut subject: impl FnMut() -> Result<()>) -> Result<Self> {
        subject()?;
        let mut measured = Vec::with_capacity(runs);
        for _ in 0..runs.max(1) {
            let start = Instant::now();
            subject()?;
            measured.push(start.elapsed());
        }
        measured.sort_unstable();
        Ok(Self {
            name: name.into(),
            runs: measured,
        })
    }

    /// The middle run; the mean of the middle two of an even number.
    pub(crate) fn median(&self) -> Duration {
        let middle = self.runs.len() / 2;
        if self.runs.len().is_multiple_of(2) {
            (self.runs[middle - 1] + self.runs[middle]) / 2
        } else {
            self.runs[middle]
        }
    }
}

/// One line a subject; `ratio` compares its median with the first one's.
pub(crate) fn table(timings: &[Timing]) -> String {
    let width = timings
        .iter()
        .map(|timing| timing.name.chars().count())
        .max()
        .unwrap_or(0)
        .max("subject".len());
    let mut table = format!(
        "{:<width$} {:>5} {:>11} {:>11} {:>11} {:>7}",
        "subject", "runs", "median ms", "min ms", "max ms", "ratio"
    );
    for timing in timings {
        let (Some(min), Some(max), Some(first)) = (timing.runs.first(), timing.runs.last(), timings.first()) else {
            continue;
        };
        let ratio = timing.median().as_secs_f64() / first.median().as_secs_f64();
        let _ = write!(
            table,
            "\n{:<width$} {:>5} {:>11.3} {:>11.3} {:>11.3} {ratio:>7.3}",
            timing.name,
            timing.runs.len(),
            millis(timing.median()),
            millis(*min),
            millis(*max),
        );
    }
    table
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(name: &str, millis: &[u64]) -> Timing {
        Timing {
            name: name.into(),
            runs: millis.iter().copied().map(Duration::from_millis).collect(),
        }
    }

    #[test]
    fn medians() {
        assert_eq!(timing("", &[3]).median(), Duration::from_millis(3));
        assert_eq!(timing("", &[1, 2, 90]).median(), Duration::from_millis(2));
        assert_eq!(timing("", &[1, 2, 4, 90]).median(), Duration::from_millis(3));
    }

    #[test]
    fn one_run_warms_up_and_errors_pass_through() {
        let mut calls = 0;
        let timing = Timing::of("count", 4, || {
            calls += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!((calls, timing.runs.len()), (5, 4));
        assert!(timing.runs.is_sorted());
        assert!(Timing::of("fails", 4, || anyhow::bail!("no")).is_err());
    }

    #[test]
    fn the_table_compares_with_the_first() {
        let text = table(&[timing("ours", &[10, 20, 30]), timing("theirs", &[50])]);
        let expected = "\
subject  runs   median ms      min ms      max ms   ratio
ours        3      20.000      10.000      30.000   1.000
theirs      1      50.000      50.000      50.000   2.500";
        assert_eq!(text, expected);
    }
}
