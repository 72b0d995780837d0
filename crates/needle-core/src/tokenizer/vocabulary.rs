//! The table of pieces: how each id is spelt, how it scores, and what it stands for in running text.

use std::collections::HashMap;

use crate::error::{Error, Result};

/// What a piece is for. The numbers are those of the archive's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PieceKind {
    /// Text, reached by merging.
    Normal = 0,
    /// Stands for text that no piece covers.
    Unknown = 1,
    /// Begin, end, padding: never found in text, decodes to nothing.
    Control = 2,
    /// A marker: found in text before any merging, never split or merged.
    UserDefined = 3,
    /// One byte, spelt `<0xNN>`.
    Byte = 4,
}

/// One row of the table.
pub(super) struct Piece {
    pub(super) text: Box<str>,
    pub(super) score: f32,
    pub(super) kind: PieceKind,
}

/// The ids with a role.
#[derive(Clone, Copy)]
pub(super) struct Special {
    pub(super) pad: u32,
    pub(super) eos: u32,
    pub(super) bos: u32,
    pub(super) unk: u32,
}

/// What an id contributes to running text.
pub(super) enum Surface<'a> {
    Nothing,
    Byte(u8),
    /// Spaces are still spelt `▁`.
    Text(&'a str),
}

/// What a file says of a tokenizer.
pub(super) struct Table {
    pub(super) pieces: Vec<Piece>,
    pub(super) special: Special,
    /// Whether a space is put before every text.
    pub(super) add_dummy_prefix: bool,
    /// Whether text without a piece is spelt in byte pieces; otherwise it is the unknown piece.
    pub(super) byte_fallback: bool,
}

/// A checked table with its lookups.
pub(super) struct Vocabulary {
    pub(super) table: Table,
    by_text: HashMap<Box<str>, u32>,
    /// The id of every byte; empty without byte fallback.
    byte_ids: Vec<u32>,
    /// Markers by their first byte, the longest first.
    markers: Vec<Vec<u32>>,
    /// Bytes of the longest piece that merging can reach.
    longest: usize,
    joints: Joints,
}

/// How SentencePiece spells an id that it does not know.
pub(super) const UNKNOWN_SURFACE: &str = " ⁇ ";

impl Vocabulary {
    /// Checks a table and builds its lookups.
    pub(super) fn new(table: Table) -> Result<Self> {
        let Table { pieces, special, .. } = &table;
        u32::try_from(pieces.len()).map_err(|_| lie(format!("{} pieces are more than ids can count", pieces.len())))?;
        let mut by_text = HashMap::with_capacity(pieces.len());
        let mut bytes = [None; 256];
        let mut markers = vec![Vec::new(); 256];
        let mut longest = 0;
        let mut joints = Joints::default();
        for (id, piece) in (0..).zip(pieces) {
            let first = check(id, piece)?;
            match piece.kind {
                PieceKind::Normal => {
                    longest = longest.max(piece.text.len());
                    joints.add(&piece.text);
                }
                PieceKind::UserDefined => markers[first as usize].push(id),
                PieceKind::Byte => {
                    let spelt = || lie(format!("byte piece {id} is spelt {:?}", piece.text));
                    bytes[byte_value(&piece.text).ok_or_else(spelt)? as usize] = Some(id);
                }
                PieceKind::Unknown | PieceKind::Control => {}
            }
            if let Some(other) = by_text.insert(piece.text.clone(), id) {
                return Err(lie(format!("pieces {other} and {id} are both spelt {:?}", piece.text)));
            }
        }
        for markers in &mut markers {
            markers.sort_by_key(|&id| std::cmp::Reverse(pieces[id as usize].text.len()));
        }
        check_roles(pieces, special)?;
        let byte_ids = if table.byte_fallback {
            byte_ids(&bytes)?
        } else {
            Vec::new()
        };
        Ok(Self {
            table,
            by_text,
            byte_ids,
            markers,
            longest,
            joints,
        })
    }

    pub(super) fn piece(&self, id: u32) -> Option<&Piece> {
        self.table.pieces.get(id as usize)
    }

    /// The id of the piece of any kind that is spelt so.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        self.by_text.get(text).copied()
    }

    /// The score of the piece that merging can make of this text.
    pub(super) fn score(&self, text: &str) -> Option<f32> {
        if text.len() > self.longest {
            return None;
        }
        let piece = self.piece(self.find(text)?)?;
        (piece.kind == PieceKind::Normal).then_some(piece.score)
    }

    /// Whether some piece may hold these characters side by side; a `false` is certain.
    pub(super) fn may_join(&self, left: char, right: char) -> bool {
        self.joints.contains(left, right)
    }

    /// The longest marker that the text starts with: id and length in bytes.
    pub(super) fn marker(&self, text: &str) -> Option<(u32, usize)> {
        let first = *text.as_bytes().first()?;
        let mut candidates = self.markers[first as usize].iter();
        let id = *candidates.find(|&&id| text.starts_with(&*self.table.pieces[id as usize].text))?;
        Some((id, self.table.pieces[id as usize].text.len()))
    }

    /// The byte pieces of a text without a piece of its own; `None` where the vocabulary has no byte fallback.
    pub(super) fn fallback(&self, text: &str) -> Option<impl Iterator<Item = u32>> {
        (self.table.byte_fallback).then(|| text.bytes().map(|byte| self.byte_ids[byte as usize]))
    }

    /// What an id contributes to running text; an id beyond the table counts as unknown.
    pub(super) fn surface(&self, id: u32) -> Surface<'_> {
        let Some(piece) = self.piece(id) else {
            return Surface::Text(UNKNOWN_SURFACE);
        };
        match piece.kind {
            PieceKind::Control => Surface::Nothing,
            PieceKind::Unknown => Surface::Text(UNKNOWN_SURFACE),
            PieceKind::Byte => byte_value(&piece.text).map_or(Surface::Nothing, Surface::Byte),
            PieceKind::Normal | PieceKind::UserDefined => Surface::Text(&piece.text),
        }
    }
}

/// The neighbours inside pieces, by the low bytes of both characters: one bit a pair, a few pairs too many.
struct Joints(Box<[u64; 1024]>);

impl Default for Joints {
    fn default() -> Self {
        Self(Box::new([0; 1024]))
    }
}

impl Joints {
    fn add(&mut self, text: &str) {
        for (left, right) in text.chars().zip(text.chars().skip(1)) {
            let (word, bit) = Self::place(left, right);
            self.0[word] |= bit;
        }
    }

    fn contains(&self, left: char, right: char) -> bool {
        let (word, bit) = Self::place(left, right);
        self.0[word] & bit != 0
    }

    fn place(left: char, right: char) -> (usize, u64) {
        let index = (left as usize & 0xFF) << 8 | (right as usize & 0xFF);
        (index / 64, 1 << (index % 64))
    }
}

/// Checks a piece by itself and gives its first byte.
fn check(id: u32, piece: &Piece) -> Result<u8> {
    let Piece { text, score, .. } = piece;
    if !score.is_finite() {
        return Err(lie(format!("piece {id} ({text:?}) has the score {score}")));
    }
    if text.len() > u16::MAX as usize {
        return Err(lie(format!(
            "piece {id} has {} bytes, at most {} can be stored",
            text.len(),
            u16::MAX
        )));
    }
    text.bytes().next().ok_or_else(|| lie(format!("piece {id} is empty")))
}

fn check_roles(pieces: &[Piece], special: &Special) -> Result<()> {
    let roles = [
        ("pad", special.pad, PieceKind::Control),
        ("eos", special.eos, PieceKind::Control),
        ("bos", special.bos, PieceKind::Control),
        ("unk", special.unk, PieceKind::Unknown),
    ];
    for (role, id, kind) in roles {
        match pieces.get(id as usize) {
            Some(piece) if piece.kind == kind => {}
            Some(piece) => {
                let (text, found) = (&piece.text, piece.kind);
                return Err(lie(format!(
                    "the {role} piece {id} ({text:?}) should be {kind:?}, found {found:?}"
                )));
            }
            None => return Err(lie(format!("the {role} id {id} is beyond the {} pieces", pieces.len()))),
        }
    }
    let unknown = pieces.iter().filter(|piece| piece.kind == PieceKind::Unknown).count();
    if unknown != 1 {
        return Err(lie(format!("{unknown} pieces are the unknown piece, expected 1")));
    }
    Ok(())
}

fn byte_ids(found: &[Option<u32>; 256]) -> Result<Vec<u32>> {
    let id = |(byte, id): (usize, &Option<u32>)| {
        id.ok_or_else(|| lie(format!("byte fallback is on, but the piece <0x{byte:02X}> is missing")))
    };
    found.iter().enumerate().map(id).collect()
}

/// The value of a byte piece, from its one spelling: `<0x`, two capital hexadecimal digits, `>`.
fn byte_value(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let byte = u8::from_str_radix(digits, 16).ok()?;
    (format!("{byte:02X}") == digits).then_some(byte)
}

/// A table that contradicts itself.
pub(super) fn lie(reason: impl Into<String>) -> Error {
    Error::Tokenizer(reason.into())
}
