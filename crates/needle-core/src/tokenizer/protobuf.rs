//! Just enough of the protobuf wire format to walk the fields of a message, and to write one.

use super::vocabulary::lie;
use crate::error::Result;

/// One value of a protobuf message.
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed32(u32),
    Fixed64,
    Bytes(&'a [u8]),
}

/// The fields of a protobuf message: number and value. After an error there is nothing more.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, Value<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Value::Fixed64
            }
            2 => {
                let len = self.varint()?;
                Value::Bytes(self.take(len)?)
            }
            5 => {
                let mut bits = [0; 4];
                bits.copy_from_slice(self.take(4)?);
                Value::Fixed32(u32::from_le_bytes(bits))
            }
            other => {
                return Err(lie(format!(
                    "not a SentencePiece model: wire type {other} in field {}",
                    key >> 3
                )));
            }
        };
        Ok((key >> 3, value))
    }

    fn varint(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(lie("not a SentencePiece model: a number longer than 64 bits"))
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let found = self.0.len();
        let split = usize::try_from(len).ok().and_then(|len| self.0.split_at_checked(len));
        let (bytes, rest) = split.ok_or_else(|| {
            lie(format!(
                "the SentencePiece model is cut short: {len} bytes expected, {found} are left"
            ))
        })?;
        self.0 = rest;
        Ok(bytes)
    }
}

/// A message being written.
#[derive(Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    pub(super) fn varint(&mut self, field: u64, value: u64) -> &mut Self {
        self.number(field << 3);
        self.number(value);
        self
    }

    pub(super) fn fixed32(&mut self, field: u64, bits: u32) -> &mut Self {
        self.number(field << 3 | 5);
        self.0.extend(bits.to_le_bytes());
        self
    }

    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.number(field << 3 | 2);
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}
