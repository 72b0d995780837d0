//! A vocabulary learnt from texts: byte-pair encoding with SentencePiece's rules, for models that are trained from nothing.
//!
//! Text is cut into words as `words` says; the most frequent neighbours are joined again and again (Sennrich et al. 2016,
//! <https://arxiv.org/abs/1508.07909>). Every digit stays alone, so that a model can copy numbers, and text without a piece
//! falls back to its bytes. The same texts give the same table on every machine.

mod merges;
mod words;

use std::collections::HashSet;

use serde::Deserialize;

use super::{
    Tokenizer,
    vocabulary::{Piece, PieceKind, Special, Table, Vocabulary, lie},
};
use crate::error::Result;
use merges::Merges;
use words::Words;

const PAD: u32 = 0;
const EOS: u32 = 1;
const BOS: u32 = 2;
const UNK: u32 = 3;

/// What a vocabulary should be like.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizerOptions {
    /// Number of pieces, everything counted.
    pub vocab_size: usize,
    /// Pieces that are never split, merged or learnt, ids from 4 on.
    pub markers: Vec<String>,
    /// Share of all characters that get a piece of their own; the rest is spelt in bytes.
    pub coverage: f64,
    /// Characters in the longest piece.
    pub longest: usize,
}

impl Default for TokenizerOptions {
    /// 8,192 pieces, the markers of [`prompt`](crate::prompt), 99.95 % of the characters, pieces of at most 16.
    fn default() -> Self {
        Self {
            vocab_size: 8192,
            markers: crate::prompt::MARKERS.map(str::to_owned).to_vec(),
            coverage: 0.9995,
            longest: 16,
        }
    }
}

impl TokenizerOptions {
    /// Learns a vocabulary from texts. Pieces: pad, eos, bos, unk, the markers, 256 bytes, then what merging found, then
    /// single characters.
    ///
    /// # Errors
    /// [`Error::Tokenizer`](crate::Error::Tokenizer) when a marker is empty or given twice, when the size has no room for
    /// what every vocabulary holds, or when the texts cannot fill it (the message says how far they go).
    pub fn train<T: AsRef<str>>(&self, texts: impl IntoIterator<Item = T>) -> Result<Tokenizer> {
        self.check()?;
        let mut words = Words::new(&self.markers);
        for text in texts {
            words.add(text.as_ref());
        }
        let alphabet = words.alphabet(self.coverage);
        let fixed = 4 + self.markers.len() + 256;
        let room = self.vocab_size.checked_sub(fixed + alphabet.len()).ok_or_else(|| {
            let (size, need) = (self.vocab_size, fixed + alphabet.len());
            lie(format!(
                "a vocabulary of {size} pieces has no room for the {need} that these texts need at least"
            ))
        })?;
        let pieces = Merges::new(&words, &alphabet, self.longest).take(room);
        if pieces.len() < room {
            let (size, reached) = (self.vocab_size, fixed + alphabet.len() + pieces.len());
            return Err(lie(format!(
                "the texts give {reached} pieces, too few for a vocabulary of {size}: more text or a smaller size"
            )));
        }
        let learnt = pieces.into_iter().chain(alphabet.iter().map(char::to_string));
        Ok(Tokenizer(Vocabulary::new(self.table(learnt))?.into()))
    }

    fn check(&self) -> Result<()> {
        let mut seen = HashSet::new();
        if let Some(marker) = self
            .markers
            .iter()
            .find(|marker| marker.is_empty() || !seen.insert(*marker))
        {
            return Err(lie(format!("the marker {marker:?} is empty or given twice")));
        }
        if !(self.coverage > 0.0 && self.coverage <= 1.0) {
            let found = self.coverage;
            return Err(lie(format!("coverage should be above 0 and at most 1, found {found}")));
        }
        Ok(())
    }

    /// Learnt pieces in the order of their merging: an earlier one scores higher.
    fn table(&self, learnt: impl Iterator<Item = String>) -> Table {
        let piece = |text: &str, score, kind| Piece {
            text: text.into(),
            score,
            kind,
        };
        let roles = [
            ("<pad>", PieceKind::Control),
            ("<eos>", PieceKind::Control),
            ("<bos>", PieceKind::Control),
        ];
        let mut pieces: Vec<_> = roles.into_iter().map(|(text, kind)| piece(text, 0.0, kind)).collect();
        pieces.push(piece("<unk>", 0.0, PieceKind::Unknown));
        pieces.extend(
            self.markers
                .iter()
                .map(|marker| piece(marker, 0.0, PieceKind::UserDefined)),
        );
        pieces.extend((0..=255u8).map(|byte| piece(&format!("<0x{byte:02X}>"), 0.0, PieceKind::Byte)));
        pieces.extend(
            (0..)
                .zip(learnt)
                .map(|(rank, text)| piece(&text, -(rank as f32), PieceKind::Normal)),
        );
        Table {
            pieces,
            special: Special {
                pad: PAD,
                eos: EOS,
                bos: BOS,
                unk: UNK,
            },
            add_dummy_prefix: true,
            byte_fallback: true,
        }
    }
}
