//! Reading numbers, counted bytes and lines of a pickle, never beyond its end.

use super::{Data, machine::Outcome};
use crate::weights::Bytes;

/// Longest line: names are short, a far newline is a damaged file.
const MAX_LINE: usize = 256;

/// A place in the file.
pub(super) struct Cursor<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a Bytes) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn u8(&mut self) -> Outcome<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn array<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        let bytes = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        let value = *bytes.ok_or_else(|| self.ended())?;
        self.at += N;
        Ok(value)
    }

    pub(super) fn take(&mut self, length: usize) -> Outcome<Data> {
        let end = self.at.checked_add(length);
        let bytes = end.and_then(|end| self.bytes.slice(self.at..end));
        let data = Data {
            bytes: bytes.ok_or_else(|| self.ended())?,
            offset: Some(self.at),
        };
        self.at += length;
        Ok(data)
    }

    fn ended(&self) -> String {
        format!("the file ends at byte {}, inside a value", self.bytes.len())
    }

    /// A length of this many bytes, then as many bytes.
    pub(super) fn counted(&mut self, width: usize) -> Outcome<Data> {
        let length = match width {
            1 => self.u8()?.into(),
            4 => u32::from_le_bytes(self.array()?).into(),
            _ => u64::from_le_bytes(self.array()?),
        };
        let length = usize::try_from(length).map_err(|_| self.ended())?;
        self.take(length)
    }

    /// A text up to a newline, without it.
    pub(super) fn line(&mut self) -> Outcome<String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().take(MAX_LINE).position(|&byte| byte == b'\n');
        let length = length.ok_or("a name without an end")?;
        let line = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.at += length + 1;
        Ok(line)
    }
}
