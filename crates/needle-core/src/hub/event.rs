//! What a transfer reports while it runs.

use std::time::Duration;

/// What happens during a download or an upload, for a progress bar.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Bytes begin to arrive; again after each interruption.
    Started {
        /// `org/repo/file`.
        name: &'a str,
        /// Bytes that an earlier try has brought.
        done_bytes: u64,
        /// Size of the file, where the hub states it.
        total_bytes: Option<u64>,
    },
    /// Bytes of a file begin to go out; again after each failed try.
    Sending {
        /// `org/repo/file`.
        name: &'a str,
        /// Size of the file.
        total_bytes: u64,
    },
    /// More bytes are on the disk, or have gone out.
    Advanced {
        /// Bytes so far, from the start of the file.
        done_bytes: u64,
    },
    /// Nothing happens for a while.
    Waiting {
        /// Why.
        reason: &'a str,
        /// For how long.
        wait: Duration,
    },
}
