//! The few fields of a SentencePiece `.model` file that encoding and decoding depend on.
//!
//! The file is a protobuf message; the reader walks its fields and skips the ones it does not know. Whatever would change
//! the ids and is not done here is refused by its name. The writer puts down the same fields, and what SentencePiece itself
//! asks of a file.

use std::collections::HashMap;

use super::{
    protobuf::{Fields, Message, Value},
    vocabulary::{Piece, PieceKind, Special, Table, UNKNOWN_SURFACE, Vocabulary, lie},
};
use crate::error::Result;

const MODEL_TYPE_BPE: u64 = 2;

pub(super) fn read(model: &[u8]) -> Result<Vocabulary> {
    let mut pieces = Vec::new();
    let mut trainer = Trainer::default();
    let mut normalizer = Normalizer::default();
    for field in Fields(model) {
        match field? {
            (1, Value::Bytes(bytes)) => pieces.push(piece(bytes, pieces.len())?),
            (2, Value::Bytes(bytes)) => trainer.read(bytes)?,
            (3, Value::Bytes(bytes)) => normalizer.read(bytes)?,
            (5, Value::Bytes(bytes)) => no_charsmap(bytes, "denormalizer")?,
            _ => {}
        }
    }
    if pieces.is_empty() {
        return Err(lie("not a SentencePiece model: it has no pieces"));
    }
    trainer.check()?;
    normalizer.check()?;
    let ids: HashMap<&str, u32> = pieces.iter().map(|piece: &Piece| &*piece.text).zip(0..).collect();
    let id = |role: &str, text: &str| {
        let id = ids.get(text).copied();
        id.ok_or_else(|| lie(format!("the model has no {role} piece {text:?}")))
    };
    let special = Special {
        pad: id("pad", trainer.pad)?,
        eos: id("eos", trainer.eos)?,
        bos: id("bos", trainer.bos)?,
        unk: id("unk", trainer.unk)?,
    };
    Vocabulary::new(Table {
        pieces,
        special,
        add_dummy_prefix: normalizer.add_dummy_prefix,
        byte_fallback: trainer.byte_fallback,
    })
}

pub(super) fn write(table: &Table) -> Vec<u8> {
    let Special { pad, eos, bos, unk } = table.special;
    let text = |id: u32| &*table.pieces[id as usize].text;
    let mut trainer = Message::default();
    trainer.varint(3, MODEL_TYPE_BPE).varint(4, table.pieces.len() as u64);
    trainer.varint(35, table.byte_fallback.into());
    for (field, id) in [(40, unk), (41, bos), (42, eos), (43, pad)] {
        trainer.varint(field, id.into()).bytes(field + 5, text(id).as_bytes());
    }
    let mut normalizer = Message::default();
    normalizer
        .bytes(1, b"identity")
        .varint(3, table.add_dummy_prefix.into())
        .varint(4, 0)
        .varint(5, 1);
    let mut model = Message::default();
    for piece in &table.pieces {
        let kind = match piece.kind {
            PieceKind::Normal => 1,
            PieceKind::Unknown => 2,
            PieceKind::Control => 3,
            PieceKind::UserDefined => 4,
            PieceKind::Byte => 6,
        };
        let mut message = Message::default();
        message
            .bytes(1, piece.text.as_bytes())
            .fixed32(2, piece.score.to_bits())
            .varint(3, kind);
        model.bytes(1, &message.0);
    }
    model.bytes(2, &trainer.0).bytes(3, &normalizer.0);
    model.0
}

fn piece(message: &[u8], id: usize) -> Result<Piece> {
    let (mut text, mut score, mut kind) = ("", 0.0, 1);
    for field in Fields(message) {
        match field? {
            (1, Value::Bytes(bytes)) => text = utf8(bytes, format_args!("piece {id}"))?,
            (2, Value::Fixed32(bits)) => score = f32::from_bits(bits),
            (3, Value::Varint(number)) => kind = number,
            _ => {}
        }
    }
    let kind = match kind {
        1 => PieceKind::Normal,
        2 => PieceKind::Unknown,
        3 => PieceKind::Control,
        4 => PieceKind::UserDefined,
        5 => {
            return Err(lie(format!(
                "piece {id} ({text:?}) is an unused piece, which is not supported"
            )));
        }
        6 => PieceKind::Byte,
        other => return Err(lie(format!("piece {id} ({text:?}) is of the unknown kind {other}"))),
    };
    Ok(Piece {
        text: text.into(),
        score,
        kind,
    })
}

/// Fields of `TrainerSpec`, with the format's defaults.
struct Trainer<'a> {
    model_type: u64,
    byte_fallback: bool,
    treat_whitespace_as_suffix: bool,
    unknown_surface: &'a str,
    unk: &'a str,
    bos: &'a str,
    eos: &'a str,
    pad: &'a str,
}

impl Default for Trainer<'_> {
    fn default() -> Self {
        Self {
            model_type: 1,
            byte_fallback: false,
            treat_whitespace_as_suffix: false,
            unknown_surface: UNKNOWN_SURFACE,
            unk: "<unk>",
            bos: "<s>",
            eos: "</s>",
            pad: "<pad>",
        }
    }
}

impl<'a> Trainer<'a> {
    fn read(&mut self, message: &'a [u8]) -> Result<()> {
        for field in Fields(message) {
            match field? {
                (3, Value::Varint(number)) => self.model_type = number,
                (24, Value::Varint(flag)) => self.treat_whitespace_as_suffix = flag != 0,
                (35, Value::Varint(flag)) => self.byte_fallback = flag != 0,
                (44, Value::Bytes(bytes)) => self.unknown_surface = utf8(bytes, "unk_surface")?,
                (45, Value::Bytes(bytes)) => self.unk = utf8(bytes, "unk_piece")?,
                (46, Value::Bytes(bytes)) => self.bos = utf8(bytes, "bos_piece")?,
                (47, Value::Bytes(bytes)) => self.eos = utf8(bytes, "eos_piece")?,
                (48, Value::Bytes(bytes)) => self.pad = utf8(bytes, "pad_piece")?,
                _ => {}
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.model_type != MODEL_TYPE_BPE {
            let found = match self.model_type {
                1 => "unigram",
                3 => "word",
                4 => "char",
                _ => "an unknown type",
            };
            return Err(lie(format!("the model should be BPE, found {found}")));
        }
        if self.treat_whitespace_as_suffix {
            return Err(lie("treat_whitespace_as_suffix is not supported"));
        }
        if self.unknown_surface != UNKNOWN_SURFACE {
            let found = self.unknown_surface;
            return Err(lie(format!(
                "unk_surface should be {UNKNOWN_SURFACE:?}, found {found:?}"
            )));
        }
        Ok(())
    }
}

/// Fields of `NormalizerSpec`, with the format's defaults.
struct Normalizer {
    add_dummy_prefix: bool,
    remove_extra_whitespaces: bool,
    escape_whitespaces: bool,
}

impl Default for Normalizer {
    fn default() -> Self {
        Self {
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
            escape_whitespaces: true,
        }
    }
}

impl Normalizer {
    fn read(&mut self, message: &[u8]) -> Result<()> {
        no_charsmap(message, "normalizer")?;
        for field in Fields(message) {
            match field? {
                (3, Value::Varint(flag)) => self.add_dummy_prefix = flag != 0,
                (4, Value::Varint(flag)) => self.remove_extra_whitespaces = flag != 0,
                (5, Value::Varint(flag)) => self.escape_whitespaces = flag != 0,
                _ => {}
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.remove_extra_whitespaces {
            return Err(lie("remove_extra_whitespaces is not supported"));
        }
        if !self.escape_whitespaces {
            return Err(lie("escape_whitespaces = false is not supported"));
        }
        Ok(())
    }
}

/// Refuses a table of character rewrites.
fn no_charsmap(message: &[u8], which: &str) -> Result<()> {
    let mut name = "";
    let mut rewrites = false;
    for field in Fields(message) {
        match field? {
            (1, Value::Bytes(bytes)) => name = utf8(bytes, "the normaliser's name")?,
            (2, Value::Bytes(bytes)) => rewrites = !bytes.is_empty(),
            _ => {}
        }
    }
    if rewrites {
        return Err(lie(format!("the {which} {name:?} is not supported, only identity is")));
    }
    Ok(())
}

fn utf8(bytes: &[u8], what: impl std::fmt::Display) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| lie(format!("{what} is not UTF-8: {error}")))
}
