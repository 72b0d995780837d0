//! The tokenizer tensor of a `.cact` archive, both generations.
//!
//! Little-endian: u32 pieces, pad, eos, bos, unk; u8 dummy prefix, u8 byte fallback, u16 zero; then for every piece f32 score,
//! u8 kind, u16 length and that many bytes of UTF-8.

use super::vocabulary::{Piece, PieceKind, Special, Table, Vocabulary, lie};
use crate::error::Result;

const RECORD_MIN_BYTES: usize = 7;

pub(super) fn read(blob: &[u8]) -> Result<Vocabulary> {
    let mut cursor = Cursor { blob, at: 0 };
    let count = cursor.u32("the number of pieces")? as usize;
    let special = Special {
        pad: cursor.u32("the pad id")?,
        eos: cursor.u32("the eos id")?,
        bos: cursor.u32("the bos id")?,
        unk: cursor.u32("the unk id")?,
    };
    let add_dummy_prefix = cursor.flag("add_dummy_prefix")?;
    let byte_fallback = cursor.flag("byte_fallback")?;
    let reserved = u16::from_le_bytes(cursor.take("the reserved field")?);
    if reserved != 0 {
        return Err(lie(format!("the reserved field should be 0, found {reserved}")));
    }
    let fits = (blob.len() - cursor.at) / RECORD_MIN_BYTES;
    if count > fits {
        return Err(lie(format!(
            "{count} pieces are announced, at most {fits} fit the table"
        )));
    }
    let mut pieces = Vec::with_capacity(count);
    for id in 0..count {
        pieces.push(cursor.piece(id)?);
    }
    if cursor.at != blob.len() {
        let extra = blob.len() - cursor.at;
        return Err(lie(format!("{extra} bytes follow the last of {count} pieces")));
    }
    Vocabulary::new(Table {
        pieces,
        special,
        add_dummy_prefix,
        byte_fallback,
    })
}

pub(super) fn write(vocabulary: &Vocabulary) -> Vec<u8> {
    let Table {
        pieces,
        special: Special { pad, eos, bos, unk },
        add_dummy_prefix,
        byte_fallback,
    } = &vocabulary.table;
    let mut blob = Vec::new();
    for number in [pieces.len() as u32, *pad, *eos, *bos, *unk] {
        blob.extend(number.to_le_bytes());
    }
    blob.extend([*add_dummy_prefix as u8, *byte_fallback as u8, 0, 0]);
    for piece in pieces {
        blob.extend(piece.score.to_le_bytes());
        blob.push(piece.kind as u8);
        blob.extend((piece.text.len() as u16).to_le_bytes());
        blob.extend(piece.text.as_bytes());
    }
    blob
}

struct Cursor<'a> {
    blob: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn bytes(&mut self, len: usize, what: impl std::fmt::Display) -> Result<&'a [u8]> {
        let rest = &self.blob[self.at..];
        let bytes = rest.get(..len).ok_or_else(|| {
            let (at, found) = (self.at, rest.len());
            lie(format!(
                "cut short at byte {at}: {what} needs {len} bytes, {found} are left"
            ))
        })?;
        self.at += len;
        Ok(bytes)
    }

    fn take<const N: usize>(&mut self, what: impl std::fmt::Display) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N, what)?);
        Ok(array)
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(what)?))
    }

    fn flag(&mut self, name: &str) -> Result<bool> {
        match self.take(name)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(lie(format!("{name} should be 0 or 1, found {other}"))),
        }
    }

    fn piece(&mut self, id: usize) -> Result<Piece> {
        let score = f32::from_le_bytes(self.take(format_args!("the score of piece {id}"))?);
        let [kind] = self.take(format_args!("the kind of piece {id}"))?;
        let kind = match kind {
            0 => PieceKind::Normal,
            1 => PieceKind::Unknown,
            2 => PieceKind::Control,
            3 => PieceKind::UserDefined,
            4 => PieceKind::Byte,
            other => return Err(lie(format!("piece {id} is of kind {other}, expected 0 to 4"))),
        };
        let len = u16::from_le_bytes(self.take(format_args!("the length of piece {id}"))?) as usize;
        let bytes = self.bytes(len, format_args!("the text of piece {id}"))?;
        let text = std::str::from_utf8(bytes).map_err(|error| lie(format!("piece {id} is not UTF-8: {error}")))?;
        Ok(Piece {
            text: text.into(),
            score,
            kind,
        })
    }
}
