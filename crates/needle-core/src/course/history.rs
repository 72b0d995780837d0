//! What a run did, step by step: a line of JSON each, read back when it is resumed.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{
    data::{read_text, write_lines},
    error::{Error, Result},
};

/// One line of the history: `{"step": {…}}` or `{"look": {…}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// An optimiser step.
    Step {
        /// From 1.
        step: usize,
        /// From 1.
        epoch: usize,
        /// Mean cross-entropy of the batch's scored ids, before the step.
        loss: f64,
        /// Learning rate.
        lr: f64,
        /// The gradients' global norm, before clipping.
        grad_norm: f64,
        /// Ids of the batch.
        tokens: usize,
        /// How long it took.
        elapsed_ms: f64,
    },
    /// A look at the held-out rows.
    Look {
        /// Steps taken.
        step: usize,
        /// From 1.
        epoch: usize,
        /// Mean cross-entropy of the held-out rows' scored ids.
        val_loss: f64,
    },
}

impl Record {
    fn step(&self) -> usize {
        match self {
            Self::Step { step, .. } | Self::Look { step, .. } => *step,
        }
    }
}

/// All lines of a run, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Steps and looks.
    pub records: Vec<Record>,
}

impl History {
    /// Step and loss of every step.
    pub fn losses(&self) -> Vec<(usize, f64)> {
        let step = |record: &Record| match record {
            Record::Step { step, loss, .. } => Some((*step, *loss)),
            Record::Look { .. } => None,
        };
        self.records.iter().filter_map(step).collect()
    }

    /// Step and validation loss of every look.
    pub fn looks(&self) -> Vec<(usize, f64)> {
        let look = |record: &Record| match record {
            Record::Look { step, val_loss, .. } => Some((*step, *val_loss)),
            Record::Step { .. } => None,
        };
        self.records.iter().filter_map(look).collect()
    }

    /// The look with the lowest loss, the earliest of equals.
    pub fn best(&self) -> Option<(usize, f64)> {
        self.looks().into_iter().min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// Looks after the best one.
    pub fn looks_since_best(&self) -> usize {
        let looks = self.looks();
        let Some((best, _)) = self.best() else { return 0 };
        looks.iter().filter(|(step, _)| *step > best).count()
    }

    /// Writes the lines; the file is replaced as a whole.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn save(&self, path: &Path) -> Result<()> {
        let line = |record| serde_json::to_string(record).map_err(|error| Error::format(path, error.to_string()));
        let lines = self.records.iter().map(line).collect::<Result<Vec<_>>>()?;
        write_lines(path, lines.iter().map(String::as_str))
    }

    /// Reads the lines of the first `steps` steps.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Format`] for a line that is no record.
    pub fn open(path: &Path, steps: usize) -> Result<Self> {
        let text = read_text(path)?;
        let mut records = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let record: Record = serde_json::from_str(line)
                .map_err(|error| Error::format(path, format!("line {number} is no record of a run: {error}")))?;
            if record.step() <= steps {
                records.push(record);
            }
        }
        Ok(Self { records })
    }
}
