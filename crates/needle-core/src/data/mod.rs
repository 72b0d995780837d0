//! Training and evaluation data: a file of JSON lines → rows that can be used, and a reason for every line that cannot.
//!
//! A line is an object with `query`, and `tools`, `answers` (or `function_calls`), `reasoning`, `system`, `category` where there
//! are any; or a chat line with `messages` of one user and one assistant turn and `tools`, as OpenAI has it. `tools` and
//! `answers` may be JSON in a text. Files may be packed with gzip, which their first bytes tell.
//!
//! Rows are kept as the model will meet them when it serves: tools without their wrapper, calls as `{"name", "arguments"}`,
//! all in compact spelling, so that a text and a list that say the same become the same tokens.
//!
//! ```
//! use needle_core::data::Dataset;
//! let lines = r#"{"query": "ping the hub", "tools": [{"name": "ping"}], "answers": [{"name": "ping", "arguments": {}}]}
//! {"query": "ping the hub", "tools": "[broken"}"#;
//! let data = Dataset::read(lines.as_bytes(), "lines")?;
//! assert_eq!((data.rows.len(), data.rejected[0].line), (1, 2));
//! # Ok::<(), needle_core::Error>(())
//! ```

mod calls;
mod chance;
mod duplicates;
mod encoded;
mod file;
mod finding;
mod row;
mod split;
mod statistics;

pub use duplicates::Duplicate;
pub use encoded::{EncodedRow, Overlong};
pub use file::{append_lines, write_lines};
pub(crate) use file::{read, read_text, remove};
pub use finding::{Caution, Rejected, Warning};
pub use row::Row;
pub use split::Split;
pub use statistics::{Spread, Statistics, TokenStatistics, ToolCount};

pub(crate) use calls::calls;
pub(crate) use chance::Chance;
pub(crate) use duplicates::folded;
#[cfg(feature = "hub")]
pub(crate) use row::faults;

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
};

use flate2::read::MultiGzDecoder;

use self::row::Reader;
use crate::error::{Error, Result};

/// What a file of data holds.
#[derive(Clone, Debug, Default)]
pub struct Dataset {
    /// Where it came from, for messages.
    pub source: String,
    /// The lines that can be used, in order; equal ones too.
    pub rows: Vec<Row>,
    /// The lines that cannot, in order.
    pub rejected: Vec<Rejected>,
    /// Rows that can be used and may not be what their author meant.
    pub warnings: Vec<Warning>,
    /// Rows that say the same as an earlier one.
    pub duplicates: Vec<Duplicate>,
    /// Lines without anything on them.
    pub blank: usize,
}

const GZIP: [u8; 2] = [0x1f, 0x8b];

impl Dataset {
    /// Reads a file, packed or not.
    ///
    /// # Errors
    /// [`Error::Io`] for a file that cannot be read or unpacked. A bad line is no error: see [`Dataset::rejected`].
    pub fn open(path: &Path) -> Result<Self> {
        Self::read(file::open(path)?, &path.display().to_string())
    }

    /// Reads lines from anywhere, packed or not; `source` is what messages call it.
    ///
    /// # Errors
    /// As [`Dataset::open`].
    pub fn read(input: impl Read, source: &str) -> Result<Self> {
        let failed = |error| Error::io(Path::new(source), error);
        let mut input = BufReader::new(input);
        let packed = input.fill_buf().map_err(failed)?.starts_with(&GZIP);
        let mut lines: Box<dyn BufRead + '_> = match packed {
            true => Box::new(BufReader::new(MultiGzDecoder::new(input))),
            false => Box::new(input),
        };
        let mut data = Self {
            source: source.into(),
            ..Self::default()
        };
        let mut reader = Reader::default();
        let mut bytes = Vec::new();
        for line in 1.. {
            bytes.clear();
            if lines.read_until(b'\n', &mut bytes).map_err(failed)? == 0 {
                break;
            }
            // Windows' editors put a byte order mark in front.
            let text = bytes
                .strip_prefix(b"\xef\xbb\xbf")
                .filter(|_| line == 1)
                .unwrap_or(&bytes);
            match reader.row(line, text) {
                Ok(None) => data.blank += 1,
                Ok(Some((row, cautions))) => {
                    data.rows.push(row);
                    data.warnings
                        .extend(cautions.into_iter().map(|caution| Warning { line, caution }));
                }
                Err(reason) => data.rejected.push(Rejected { line, reason }),
            }
        }
        data.duplicates = duplicates::find(&data.rows, &mut data.warnings);
        Ok(data)
    }

    /// Refuses data without a single row; the error gives the first line's reason.
    ///
    /// # Errors
    /// [`Error::Example`].
    pub fn expect_rows(&self) -> Result<()> {
        if !self.rows.is_empty() {
            return Ok(());
        }
        let why = match self.rejected.as_slice() {
            [] => "it is empty".to_owned(),
            [first, ..] => {
                let (rejected, lines) = (self.rejected.len(), self.lines());
                format!("{rejected} of {lines} lines rejected; {first}")
            }
        };
        Err(Error::Example(format!("no usable examples in {}: {why}", self.source)))
    }

    /// Lines in the file, blank ones too.
    pub fn lines(&self) -> usize {
        self.rows.len() + self.rejected.len() + self.blank
    }
}
