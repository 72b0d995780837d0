//! A run in progress.

use std::time::Instant;

use super::{Course, Event, Files, Finished, History, Record, Start};
use crate::{
    decode::Flow,
    device::Selected,
    error::{Error, Result},
    train::{Row, Trainer, epoch_order},
};

pub(super) struct Run<'a> {
    course: &'a Course<'a>,
    files: Option<&'a Files>,
    trainer: Trainer,
    history: History,
}

impl<'a> Run<'a> {
    pub(super) fn open(
        course: &'a Course<'a>,
        device: &Selected,
        start: Start,
        files: Option<&'a Files>,
    ) -> Result<Self> {
        let (base, options) = (course.base, course.options());
        let (trainer, history) = match (start, files) {
            (Start::Resumed, Some(files)) => {
                let trainer = Trainer::resume(base, device, options, &files.state)?;
                let history = History::open(&files.metrics, trainer.steps_taken())?;
                (trainer, history)
            }
            _ => (Trainer::new(base, device, options)?, History::default()),
        };
        Ok(Self {
            course,
            files,
            trainer,
            history,
        })
    }

    pub(super) fn steps(&self) -> usize {
        self.trainer.steps_taken()
    }

    /// Whether the held-out rows have not got better for as long as the course allows.
    pub(super) fn is_stale(&self) -> bool {
        let patience = self.course.early_stop;
        patience.is_some_and(|patience| self.history.looks_since_best() >= patience)
    }

    pub(super) fn ends_epoch(&self) -> bool {
        self.steps().is_multiple_of(self.course.steps_per_epoch())
    }

    pub(super) fn is_look_due(&self) -> bool {
        let every = self.course.eval_every.unwrap_or(self.course.steps_per_epoch());
        self.steps().is_multiple_of(every) || self.steps() == self.course.options.total_steps
    }

    pub(super) fn step(&mut self) -> Result<Record> {
        let Course {
            rows,
            batch_size,
            options,
            ..
        } = self.course;
        let taken = self.steps();
        let (epoch, at) = (
            taken / self.course.steps_per_epoch(),
            taken % self.course.steps_per_epoch(),
        );
        let order = epoch_order(options.seed, epoch as u64, rows.len());
        let batch = order.chunks(*batch_size).nth(at).unwrap_or_default();
        let batch: Vec<&Row> = batch.iter().map(|&row| &rows[row]).collect();
        let start = Instant::now();
        let report = self.trainer.step(&batch)?;
        if !report.loss.is_finite() || !report.grad_norm.is_finite() {
            let found = format!("loss {}, gradient norm {}", report.loss, report.grad_norm);
            return Err(diverged(taken + 1, &found));
        }
        let record = Record::Step {
            step: taken + 1,
            epoch: epoch + 1,
            loss: report.loss,
            lr: report.lr,
            grad_norm: report.grad_norm,
            tokens: report.tokens,
            elapsed_ms: start.elapsed().as_secs_f64() * 1e3,
        };
        self.history.records.push(record.clone());
        Ok(record)
    }

    /// The held-out rows' loss; `None` where none are held out.
    pub(super) fn look(&mut self) -> Result<Option<Record>> {
        if self.course.held_out.is_empty() {
            return Ok(None);
        }
        let step = self.steps();
        let val_loss = self.trainer.evaluate(self.course.held_out)?;
        if !val_loss.is_finite() {
            return Err(diverged(step, &format!("loss of the held-out rows {val_loss}")));
        }
        let record = Record::Look {
            step,
            epoch: (step - 1) / self.course.steps_per_epoch() + 1,
            val_loss,
        };
        self.history.records.push(record.clone());
        if let (Some(_), Some(files), 0) = (self.course.early_stop, self.files, self.history.looks_since_best()) {
            self.trainer.save_state(&files.best)?;
        }
        Ok(Some(record))
    }

    /// What there is to say at the end of an epoch.
    pub(super) fn epoch(&self, look: Option<&Record>) -> Event<'static> {
        let wanted = self.steps() / self.course.steps_per_epoch();
        let loss = |record: &Record| match record {
            Record::Step { epoch, loss, .. } if *epoch == wanted => Some(*loss),
            _ => None,
        };
        let losses: Vec<f64> = self.history.records.iter().filter_map(loss).collect();
        Event::Epoch {
            epoch: wanted,
            loss: losses.iter().sum::<f64>() / losses.len() as f64,
            val_loss: look.and_then(|look| match look {
                Record::Look { val_loss, .. } => Some(*val_loss),
                Record::Step { .. } => None,
            }),
        }
    }

    /// The history first: a state with a longer history can be resumed, one with a shorter cannot.
    pub(super) fn save(&self) -> Result<()> {
        let Some(files) = self.files else { return Ok(()) };
        self.history.save(&files.metrics)?;
        self.trainer.save_state(&files.state)
    }

    /// The weights after the last step are seen by no later loss: a last loss that is no number is an error too.
    fn expect_finite(&self) -> Result<()> {
        let rows = &self.course.rows[..self.course.rows.len().min(4)];
        let loss = self.trainer.evaluate(rows)?;
        if loss.is_finite() {
            return Ok(());
        }
        Err(diverged(self.steps(), &format!("loss {loss}")))
    }

    pub(super) fn finish(self, device: &Selected, flow: Flow) -> Result<Finished> {
        self.expect_finite()?;
        let Self {
            course,
            files,
            mut trainer,
            history,
        } = self;
        if let (Some(_), Some(files), Some((best, _))) = (course.early_stop, files, history.best())
            && best != trainer.steps_taken()
        {
            trainer = Trainer::resume(course.base, device, course.options(), &files.best)?;
        }
        Ok(Finished {
            trainer,
            history,
            interrupted: flow == Flow::Stop,
        })
    }
}

fn diverged(step: usize, found: &str) -> Error {
    Error::Unsupported(format!(
        "training: no number at step {step} ({found}): a lower learning rate"
    ))
}
