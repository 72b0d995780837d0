//! Ids to text, one id at a time, without ever handing out half a character.

use super::{SPACE_SIGN, Tokenizer, vocabulary::Surface};

/// Decodes ids as they come. All that [`push`](Self::push) and [`finish`](Self::finish) return, put together, is what
/// [`Tokenizer::decode`] gives for the same ids.
pub struct TokenStream {
    tokenizer: Tokenizer,
    /// Byte pieces that may still become a character; at most three.
    pending: Vec<u8>,
    prefix: Prefix,
}

/// Where the space that encoding put before the text may still be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prefix {
    /// Nothing was written yet: the next piece may carry it.
    Expected,
    /// It is gone, or the vocabulary has none.
    Done,
}

impl TokenStream {
    pub(super) fn new(tokenizer: Tokenizer) -> Self {
        let prefix = if tokenizer.0.table.add_dummy_prefix {
            Prefix::Expected
        } else {
            Prefix::Done
        };
        Self {
            tokenizer,
            pending: Vec::new(),
            prefix,
        }
    }

    /// The text that became certain with this id.
    pub fn push(&mut self, id: u32) -> String {
        let mut text = String::new();
        match self.tokenizer.0.surface(id) {
            Surface::Byte(byte) => {
                self.pending.push(byte);
                drain(&mut self.pending, &mut text, Ending::Open);
                self.prefix = Prefix::Done;
            }
            Surface::Nothing => drain(&mut self.pending, &mut text, Ending::Closed),
            Surface::Text(piece) => {
                drain(&mut self.pending, &mut text, Ending::Closed);
                let rest = match self.prefix {
                    Prefix::Expected => piece.strip_prefix(SPACE_SIGN).unwrap_or(piece),
                    Prefix::Done => piece,
                };
                self.prefix = Prefix::Done;
                text.extend(rest.chars().map(|char| if char == SPACE_SIGN { ' ' } else { char }));
            }
        }
        text
    }

    /// The rest: bytes that waited for more and got none.
    pub fn finish(mut self) -> String {
        let mut text = String::new();
        drain(&mut self.pending, &mut text, Ending::Closed);
        text
    }
}

/// Whether more bytes of the same run may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Open,
    Closed,
}

/// Moves what is certain from `bytes` to `text`: whole characters as they are, a byte that belongs to none as U+FFFD.
fn drain(bytes: &mut Vec<u8>, text: &mut String, ending: Ending) {
    let mut waiting = Vec::new();
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        let broken = chunk.invalid();
        let may_grow = std::str::from_utf8(broken).is_err_and(|error| error.error_len().is_none());
        if ending == Ending::Open && may_grow && chunks.peek().is_none() {
            waiting = broken.to_vec();
        } else {
            text.extend(broken.iter().map(|_| char::REPLACEMENT_CHARACTER));
        }
    }
    *bytes = waiting;
}
