//! A training run from its first step to its last: epochs, looks at held-out rows, an early stop, files to go on from.
//!
//! [`finetune`](crate::finetune) and [`pretrain`](crate::pretrain) decide what is trained on what; this is how.

mod advice;
mod chart;
mod files;
mod history;
mod run;

pub use self::{
    advice::Advice,
    files::{Files, Start},
    history::{History, Record},
};
pub(crate) use chart::losses;

use run::Run;

use crate::{
    checkpoint::Checkpoint,
    decode::Flow,
    device::Selected,
    error::{Error, Result},
    fingerprint,
    train::{Row, TrainOptions, Trainer},
};

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Course<'a> {
    /// The model to begin with.
    pub base: &'a Checkpoint,
    /// What changes, how fast, and for how many steps.
    pub options: TrainOptions,
    /// Rows to learn from, each once an epoch.
    pub rows: &'a [Row],
    /// Rows to judge by.
    pub held_out: &'a [Row],
    /// Rows a step.
    pub batch_size: usize,
    /// Steps between two looks at the held-out rows; the end of every epoch when absent.
    pub eval_every: Option<usize>,
    /// Looks without a new best after which the run ends with its best weights; absent, it goes to the end.
    pub early_stop: Option<usize>,
}

/// What the caller hears of.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// An interrupted run goes on.
    Resumed {
        /// The steps that it had taken.
        steps: usize,
    },
    /// A step or a look.
    Record(&'a Record),
    /// The end of an epoch.
    Epoch {
        /// From 1.
        epoch: usize,
        /// Mean loss of its steps.
        loss: f64,
        /// The held-out rows' loss at its end, where there was a look.
        val_loss: Option<f64>,
    },
}

/// A run that has ended.
pub struct Finished {
    /// The weights: the last, or the best where the run might stop early.
    pub trainer: Trainer,
    /// All that happened.
    pub history: History,
    /// Whether the caller ended it before its time.
    pub interrupted: bool,
}

impl Course<'_> {
    /// Trains. `files`, where given, are kept up to date, so that the run can go on after an interruption with the same result.
    ///
    /// # Errors
    /// As [`Trainer::new`] and [`Trainer::step`]; [`Error::Io`] and [`Error::Format`] for the files; [`Error::Unsupported`] when
    /// the loss is no number any more, and for a resumption or an early stop without files.
    pub fn run(
        &self,
        device: &Selected,
        start: Start,
        files: Option<&Files>,
        mut on_event: impl FnMut(Event<'_>) -> Flow,
    ) -> Result<Finished> {
        self.expect_sensible(start, files)?;
        let mut run = Run::open(self, device, start, files)?;
        let mut flow = Flow::Continue;
        if start == Start::Resumed {
            let steps = run.steps();
            flow = on_event(Event::Resumed { steps });
        }
        while flow == Flow::Continue && run.steps() < self.options.total_steps && !run.is_stale() {
            let record = run.step()?;
            let mut tell = |event: Event<'_>| {
                if on_event(event) == Flow::Stop {
                    flow = Flow::Stop;
                }
            };
            tell(Event::Record(&record));
            let look = if run.is_look_due() { run.look()? } else { None };
            if let Some(look) = &look {
                tell(Event::Record(look));
            }
            if run.ends_epoch() {
                tell(run.epoch(look.as_ref()));
            }
            if run.is_look_due() || run.ends_epoch() || flow == Flow::Stop {
                run.save()?;
            }
        }
        run.finish(device, flow)
    }

    /// The options with a mark of the rows on both sides and of how they are taken: a run goes on with its own data only.
    fn options(&self) -> TrainOptions {
        let mut bytes = Vec::new();
        for rows in [self.rows, self.held_out] {
            for row in rows {
                let ends = [row.target_start as u32, row.ids.len() as u32];
                bytes.extend(ends.iter().chain(&row.ids).flat_map(|id| id.to_le_bytes()));
            }
            bytes.extend(u32::MAX.to_le_bytes());
        }
        let mark = fingerprint::sha256(&bytes);
        TrainOptions {
            data: format!("{} rows a step of {mark:.16}", self.batch_size),
            ..self.options.clone()
        }
    }

    /// Steps of an epoch; the last may have fewer rows.
    pub fn steps_per_epoch(&self) -> usize {
        self.rows.len().div_ceil(self.batch_size.max(1))
    }

    fn expect_sensible(&self, start: Start, files: Option<&Files>) -> Result<()> {
        let wrong = |what: &str| Err(Error::Unsupported(format!("training: {what}")));
        match () {
            () if self.rows.is_empty() => wrong("expected rows to learn from, found none"),
            () if self.batch_size == 0 => wrong("expected at least one row a step"),
            () if self.eval_every == Some(0) => wrong("expected at least one step between two looks"),
            () if self.early_stop == Some(0) => {
                wrong("expected at least one look without a new best before an early stop")
            }
            () if self.early_stop.is_some() && self.held_out.is_empty() => wrong("an early stop needs held-out rows"),
            () if self.early_stop.is_some() && files.is_none() => {
                wrong("an early stop needs files, for the best weights")
            }
            () if start == Start::Resumed && files.is_none() => wrong("a run without files cannot be resumed"),
            () => Ok(()),
        }
    }
}
