//! The token sequence of a conversation: the pinned beginning with the tools, then the turns, in a session that is filled
//! lazily and thrown away when the beginning changes.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{
    error::{Error, Result},
    model::Window,
    runner::Runner,
    session::{Mark, Session},
};

/// What was said so far, as tokens.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// The tokens that are pinned: facts and tools.
    pinned: Vec<u32>,
    /// The turns after it: each a question with its completion.
    turns: VecDeque<Vec<u32>>,
    live: Option<Live>,
}

/// The session that has taken `pinned` and all turns but the last `waiting` tokens.
#[derive(Debug)]
struct Live {
    session: Session,
    after_pinned: Mark,
    /// Tokens at the end of the last turn that the session has yet to take.
    waiting: Vec<u32>,
}

/// A conversation ready for a turn.
pub(super) struct Ready<'a> {
    /// Has taken everything before the turn.
    pub(super) session: &'a mut Session,
    /// What to feed it: what was left over, then the turn.
    pub(super) feed: Vec<u32>,
    /// Tokens that may follow before the turn itself would slide out of the window.
    pub(super) room: usize,
    /// Tokens of the pinned beginning that had to be read for this turn, and the time that took.
    pub(super) read: usize,
    pub(super) reading: Duration,
}

impl Conversation {
    /// Whether a turn would be the first one.
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Forgets the turns. The session keeps what it knows of the pinned beginning where it can.
    pub(super) fn clear(&mut self) {
        self.turns.clear();
        if let Some(live) = &mut self.live {
            live.waiting.clear();
            if live.session.rewind(&live.after_pinned).is_err() {
                self.live = None;
            }
        }
    }

    /// Makes the session ready for `turn` after `pinned`.
    ///
    /// # Errors
    /// [`Error::PromptTooLong`] when both do not fit the window together.
    pub(super) fn prepare(&mut self, runner: &Runner, pinned: &[u32], turn: &[u32]) -> Result<Ready<'_>> {
        let config = runner.config();
        let capacity = config.effective_kv_window().min(config.max_seq_len);
        let tokens = pinned.len() + turn.len();
        if tokens >= capacity {
            return Err(Error::PromptTooLong {
                tokens,
                limit: capacity - 1,
            });
        }
        let span = capacity - pinned.len();
        if self.pinned != pinned {
            self.live = None;
            self.pinned = pinned.to_vec();
        }
        // Turns that the window no longer shows are dropped whole, so that memory does not grow with the conversation.
        let mut kept: usize = self.turns.iter().map(Vec::len).sum();
        while kept + turn.len() > span {
            match self.turns.pop_front() {
                Some(oldest) => kept -= oldest.len(),
                None => break,
            }
        }
        let start = Instant::now();
        let mut read = 0;
        let live = match self.live.take() {
            Some(live) => live,
            None => {
                let window = Window {
                    size: span,
                    sinks: pinned.len(),
                };
                let mut session = runner.session(window)?;
                session.absorb(pinned)?;
                read = pinned.len();
                let (after_pinned, waiting) = (session.mark(), self.turns.iter().flatten().copied().collect());
                Live {
                    session,
                    after_pinned,
                    waiting,
                }
            }
        };
        let reading = start.elapsed();
        let live = self.live.insert(live);
        let feed = live.waiting.drain(..).chain(turn.iter().copied()).collect();
        Ok(Ready {
            session: &mut live.session,
            feed,
            room: span - turn.len(),
            read,
            reading,
        })
    }

    /// Records a turn that was decoded: its tokens, and those of its completion that the session has not taken.
    pub(super) fn record(&mut self, turn: Vec<u32>, waiting: Vec<u32>) {
        self.turns.push_back(turn);
        if let Some(live) = &mut self.live {
            live.waiting = waiting;
        }
    }

    /// Throws the session away after a failure in the middle of a turn; the turns before it stay.
    pub(super) fn abandon(&mut self) {
        self.live = None;
    }
}
