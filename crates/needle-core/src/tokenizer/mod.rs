//! SentencePiece BPE: text to ids and back, from an archive's own table or from a `.model` file.
//!
//! The merge loop is our own rather than the `tokenizers` crate's. SentencePiece looks a merge up by its text and breaks
//! ties of the score by position; the crate ranks pairs, and gives other ids as soon as two pieces share a score. Building
//! its tables for 8,192 pieces takes longer than a whole model may take to load, and a long text ten times as long.

mod blob;
mod merge;
mod protobuf;
mod sentencepiece;
mod stream;
mod train;
mod vocabulary;

use std::{fmt, sync::Arc};

use crate::error::Result;

use merge::Start;
use vocabulary::{Surface, Vocabulary};

pub use stream::TokenStream;
pub use train::TokenizerOptions;
pub use vocabulary::PieceKind;

/// The sign that stands for a space inside pieces, U+2581.
const SPACE_SIGN: char = '▁';

/// A vocabulary and the rules that go with it. Cloning shares the tables.
#[derive(Clone)]
pub struct Tokenizer(Arc<Vocabulary>);

impl Tokenizer {
    /// Reads the tokenizer tensor of a `.cact` archive.
    ///
    /// # Errors
    /// [`Error::Tokenizer`](crate::Error::Tokenizer) when the table is cut short, goes on after its end, or contradicts
    /// itself.
    pub fn from_archive_blob(blob: &[u8]) -> Result<Self> {
        Ok(Self(Arc::new(blob::read(blob)?)))
    }

    /// Reads a SentencePiece `.model` file.
    ///
    /// # Errors
    /// [`Error::Tokenizer`](crate::Error::Tokenizer) when the file is damaged, or asks for something that is not done
    /// here exactly: another model type than BPE, a normaliser other than identity, unused pieces.
    pub fn from_sentencepiece(model: &[u8]) -> Result<Self> {
        Ok(Self(Arc::new(sentencepiece::read(model)?)))
    }

    /// The tokenizer tensor of a `.cact` archive; the inverse of [`from_archive_blob`](Self::from_archive_blob).
    pub fn to_archive_blob(&self) -> Vec<u8> {
        blob::write(&self.0)
    }

    /// A SentencePiece `.model` file; the inverse of [`from_sentencepiece`](Self::from_sentencepiece).
    pub fn to_sentencepiece(&self) -> Vec<u8> {
        sentencepiece::write(&self.0.table)
    }

    /// The ids of a text, as SentencePiece gives them: markers are recognised, nothing is put before or after, an empty
    /// text has no ids.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        merge::encode(&self.0, text, Start::OfText)
    }

    /// The ids of a text that continues another one: as [`encode`](Self::encode), but without the space that some
    /// vocabularies put before every text.
    pub fn encode_continuation(&self, text: &str) -> Vec<u32> {
        merge::encode(&self.0, text, Start::Inside)
    }

    /// The text of ids, as SentencePiece gives it: control pieces are silent, an unknown id reads ` ⁇ `, every byte that
    /// is not part of a UTF-8 character becomes one U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut stream = self.stream();
        let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
        text.push_str(&stream.finish());
        text
    }

    /// A decoder that is fed one id at a time.
    pub fn stream(&self) -> TokenStream {
        TokenStream::new(self.clone())
    }

    /// Number of pieces; ids run from 0 to one below it.
    pub fn vocab_size(&self) -> usize {
        self.0.table.pieces.len()
    }

    /// The id that fills a row of a batch.
    pub fn pad_id(&self) -> u32 {
        self.0.table.special.pad
    }

    /// The id that ends a sequence.
    pub fn eos_id(&self) -> u32 {
        self.0.table.special.eos
    }

    /// The id that begins a sequence.
    pub fn bos_id(&self) -> u32 {
        self.0.table.special.bos
    }

    /// The id of text that no piece covers.
    pub fn unk_id(&self) -> u32 {
        self.0.table.special.unk
    }

    /// The piece's spelling, spaces as `▁`; `None` beyond the vocabulary.
    pub fn piece(&self, id: u32) -> Option<&str> {
        self.0.piece(id).map(|piece| &*piece.text)
    }

    /// The piece's kind; `None` beyond the vocabulary.
    pub fn kind(&self, id: u32) -> Option<PieceKind> {
        self.0.piece(id).map(|piece| piece.kind)
    }

    /// The id of the piece that is spelt exactly so.
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.0.find(piece)
    }

    /// For every id the bytes it stands for inside running text: `▁` as a space, a byte piece as its byte, a marker as its
    /// spelling, a control piece as nothing, the unknown piece as ` ⁇ `.
    pub fn token_bytes(&self) -> Vec<Vec<u8>> {
        (0..self.vocab_size() as u32)
            .map(|id| match self.0.surface(id) {
                Surface::Nothing => Vec::new(),
                Surface::Byte(byte) => vec![byte],
                Surface::Text(text) => text.replace(SPACE_SIGN, " ").into_bytes(),
            })
            .collect()
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("pieces", &self.vocab_size())
            .field("add_dummy_prefix", &self.0.table.add_dummy_prefix)
            .field("byte_fallback", &self.0.table.byte_fallback)
            .finish()
    }
}
