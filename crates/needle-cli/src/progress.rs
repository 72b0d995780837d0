//! Progress on standard error. A download: a bar on a terminal, one line for its start and each pause otherwise. Lines of a
//! file: a bar on a terminal, nothing otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use needle_core::hub::Event;

use crate::notice;

/// A bar for bytes of a file, a spinner where nobody knows how many come; hidden where standard error is no terminal.
pub(crate) fn of_bytes(total: Option<u64>) -> ProgressBar {
    total.map_or_else(ProgressBar::new_spinner, ProgressBar::new)
}

/// A bar for cases that are answered; hidden where standard error is no terminal.
pub(crate) fn of_cases(total: usize) -> ProgressBar {
    let bar = ProgressBar::new(total as u64);
    match ProgressStyle::with_template("{bar:30} {pos} of {len}, {msg}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

const TEMPLATE: &str = "{msg} {bar:30} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";

/// Shows what a download reports; nothing as long as there is nothing to report.
pub(crate) struct Progress {
    bar: ProgressBar,
    speech: Speech,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Speech {
    Lines,
    Nothing,
}

impl Progress {
    /// On standard error.
    pub(crate) fn stderr() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        let speech = Speech::Lines;
        Self { bar, speech }
    }

    /// Shows nothing: for `--quiet`.
    pub(crate) fn quiet() -> Self {
        let (bar, speech) = (ProgressBar::hidden(), Speech::Nothing);
        Self { bar, speech }
    }

    /// A bar for values that are packed; hidden where standard error is no terminal.
    pub(crate) fn of_values(&self) -> ProgressBar {
        let bar = match self.speech {
            Speech::Lines => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
            Speech::Nothing => ProgressBar::hidden(),
        };
        if let Ok(style) = ProgressStyle::with_template("packing {bar:30} {percent} %, {eta} left") {
            bar.set_style(style);
        }
        bar
    }

    /// Takes one report.
    pub(crate) fn show(&self, event: Event<'_>) {
        match event {
            Event::Started {
                name,
                done_bytes,
                total_bytes,
            } => {
                self.bar.set_message(name.to_owned());
                total_bytes.inspect(|&total| self.bar.set_length(total));
                self.bar.set_position(done_bytes);
                self.bar.reset_eta();
                if self.bar.is_hidden() {
                    let size = total_bytes.map_or(String::new(), |total| format!(", {:.1} MB", total as f64 / 1e6));
                    let from = if done_bytes > 0 {
                        format!(" from byte {done_bytes}")
                    } else {
                        String::new()
                    };
                    self.say(&format!("downloading {name}{size}{from}"));
                }
            }
            Event::Sending { name, total_bytes } => {
                self.bar.set_message(name.to_owned());
                self.bar.set_length(total_bytes);
                self.bar.set_position(0);
                self.bar.reset_eta();
                if self.bar.is_hidden() {
                    self.say(&format!("uploading {name}, {:.1} MB", total_bytes as f64 / 1e6));
                }
            }
            Event::Advanced { done_bytes } => self.bar.set_position(done_bytes),
            Event::Waiting { reason, wait } if wait.as_secs() > 0 => {
                self.say(&format!("{reason}; waiting {} s", wait.as_secs()));
            }
            Event::Waiting { reason, .. } => self.say(reason),
            _ => {}
        }
    }

    /// A line above the bar.
    fn say(&self, line: &str) {
        if self.speech == Speech::Nothing {
            return;
        }
        self.bar.suspend(|| notice::say(line));
    }
}
