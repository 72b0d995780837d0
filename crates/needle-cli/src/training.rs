//! Progress of a training run on standard error: a bar on a terminal, a line an epoch everywhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use needle_core::{
    course::{Event, Record},
    pretrain::HeadProgress,
};

use crate::notice;

/// Shows what a run reports.
pub(crate) struct Bar {
    bar: ProgressBar,
    quiet: bool,
}

impl Bar {
    /// A bar of so many steps; `quiet` shows nothing.
    pub(crate) fn new(quiet: bool, total: usize) -> Self {
        let target = match quiet {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len}, {msg}, {eta} left") {
            bar.set_style(style);
        }
        Self { bar, quiet }
    }

    /// Takes one report.
    pub(crate) fn show(&self, event: &Event<'_>, epochs: usize) {
        match event {
            Event::Resumed { steps } => {
                self.bar.set_position(*steps as u64);
                self.bar.reset_eta();
                self.say(&format!("resumed after step {steps}"));
            }
            Event::Record(Record::Step {
                step,
                loss,
                tokens,
                elapsed_ms,
                ..
            }) => {
                let rate = 1e3 * *tokens as f64 / elapsed_ms;
                self.at(*step, format!("loss {loss:.3}, {rate:.0} tokens/s"));
            }
            Event::Record(Record::Look { .. }) => {}
            Event::Epoch { epoch, loss, val_loss } => {
                let held_out = val_loss.map_or(String::new(), |loss| format!(", held out {loss:.4}"));
                self.say(&format!("epoch {epoch} of {epochs}: loss {loss:.4}{held_out}"));
            }
        }
    }

    /// Takes a report of a head's training.
    pub(crate) fn head(&self, name: &str, progress: &HeadProgress) {
        self.at(progress.step, format!("{name}: loss {:.3}", progress.loss));
        if progress.step == progress.steps {
            self.bar.finish_and_clear();
        }
    }

    /// So much is done.
    pub(crate) fn at(&self, done: usize, message: String) {
        self.bar.set_message(message);
        self.bar.set_position(done as u64);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn say(&self, line: &str) {
        if !self.quiet {
            self.bar.suspend(|| notice::say(line));
        }
    }
}
