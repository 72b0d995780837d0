//! From a tokenizer's pieces to the grammar's tokens.

use super::{Markers, Token, TokenKind, Vocabulary};
use crate::{
    error::{Error, Result},
    prompt,
    tokenizer::{PieceKind, Tokenizer},
};

impl Vocabulary {
    /// The vocabulary of a tokenizer.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] where the tokenizer lacks a marker that calls are made of.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self> {
        let kind = |id: usize| match tokenizer.kind(id as u32) {
            Some(PieceKind::Normal) => TokenKind::Normal,
            Some(PieceKind::Byte) => TokenKind::Byte,
            Some(PieceKind::UserDefined) => TokenKind::Marker,
            Some(PieceKind::Control) => TokenKind::Control,
            Some(PieceKind::Unknown) | None => TokenKind::Unknown,
        };
        let bytes = tokenizer.token_bytes().into_iter().enumerate();
        let tokens = bytes.map(|(id, bytes)| Token { bytes, kind: kind(id) }).collect();
        let marker = |text: &str| tokenizer.id(text);
        let needed =
            |text: &str| marker(text).ok_or_else(|| Error::Tokenizer(format!("the vocabulary has no piece {text}")));
        let markers = Markers {
            think: marker(prompt::THINK_START).zip(marker(prompt::THINK_END)),
            tool_call: (needed(prompt::TOOL_CALL_START)?, needed(prompt::TOOL_CALL_END)?),
            im_end: marker(prompt::IM_END),
            eos: tokenizer.eos_id(),
        };
        Self::new(tokens, markers)
    }
}
