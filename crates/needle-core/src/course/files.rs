//! The files of a run in progress.

use std::path::{Path, PathBuf};

use crate::{data, error::Result};

/// Where a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// From nothing; files of an earlier run are replaced.
    Anew,
    /// Where the files of an interrupted run end.
    Resumed,
}

/// Written at every look and at the end of every epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Parameters and moments.
    pub state: PathBuf,
    /// The history, a line of JSON a record.
    pub metrics: PathBuf,
    /// The state with the lowest loss of the held-out rows, where the run may stop early.
    pub best: PathBuf,
}

impl Files {
    /// The files beside what is to be written at `out`: `NAME.state`, `NAME.metrics.jsonl`, `NAME.best.state`.
    pub fn beside(out: &Path) -> Self {
        Self {
            state: out.with_extension("state"),
            metrics: out.with_extension("metrics.jsonl"),
            best: out.with_extension("best.state"),
        }
    }

    /// Removes what only an unfinished run needs; the history stays.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io).
    pub fn clear(&self) -> Result<()> {
        data::remove(&self.state)?;
        data::remove(&self.best)
    }
}
