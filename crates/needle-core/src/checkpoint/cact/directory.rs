//! The directory: where every tensor lies, how it is written, and whether that can be true.

use std::{ops::Range, path::Path};

use candle_core::DType;

use super::{super::values, header::Header};
use crate::{
    checkpoint::layout,
    error::{Error, Result},
    quant::{CodeWidth, packed_sizes},
};

const RECORD_BYTES: usize = 44;
const ALIGNMENT: usize = 64;

/// How a record's values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Float(DType),
    Packed { width: CodeWidth, group: usize },
    Raw,
}

/// A record whose numbers agree with each other and with the file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) shape: Vec<usize>,
    /// Where it lies in the file.
    pub(super) range: Range<usize>,
    /// How many of the bytes are codes.
    pub(super) code_bytes: usize,
}

/// Reads all records.
pub(super) fn read(bytes: &[u8], file: &Path, header: &Header) -> Result<Vec<Entry>> {
    let count = header.record_count;
    let end = count
        .checked_mul(RECORD_BYTES)
        .and_then(|size| size.checked_add(header.directory));
    let Some((end, records)) = end.and_then(|end| Some((end, bytes.get(header.directory..end)?))) else {
        let size = bytes.len();
        return Err(Error::format(
            file,
            format!("a directory of {count} records reaches beyond the file's {size} bytes"),
        ));
    };
    let mut entries = Vec::with_capacity(count);
    for (index, record) in records.as_chunks::<RECORD_BYTES>().0.iter().enumerate() {
        let entry = parse(record, end, bytes.len());
        entries.push(entry.map_err(|reason| Error::tensor(file, name(header, index), reason))?);
    }
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by_key(|&index| (entries[index].range.start, entries[index].range.end));
    for pair in places.windows(2) {
        let [first, second] = [pair[0], pair[1]].map(|index| &entries[index].range);
        if second.start < first.end {
            let other = name(header, pair[0]);
            let reason = format!("bytes {}..{} overlap those of {other}", second.start, second.end);
            return Err(Error::tensor(file, name(header, pair[1]), reason));
        }
    }
    Ok(entries)
}

fn parse(record: &[u8; RECORD_BYTES], directory_end: usize, file_bytes: usize) -> std::result::Result<Entry, String> {
    let word = |at: usize| record[at..].first_chunk().map_or(0, |&word| u32::from_le_bytes(word)) as usize;
    let long = |at: usize| record[at..].first_chunk().map_or(0, |&word| u64::from_le_bytes(word));
    let (dtype, rank) = (record[0], usize::from(record[1]));
    if rank > 4 {
        return Err(format!("{rank} axes; a record holds at most 4"));
    }
    let shape: Vec<usize> = (0..rank).map(|axis| word(4 + 4 * axis)).collect();
    let (offset, size_bytes, group, bits) = (long(20), long(28), word(36), word(40));
    let kind = match dtype {
        1 => Kind::Float(DType::F16),
        2 => Kind::Float(DType::F32),
        3 => Kind::Packed {
            width: width(bits)?,
            group,
        },
        4 => Kind::Raw,
        other => return Err(format!("dtype {other} is not known; known are 1 to 4")),
    };
    let end = offset.checked_add(size_bytes);
    let range = usize::try_from(offset)
        .ok()
        .zip(end.and_then(|end| usize::try_from(end).ok()));
    let Some((start, end)) = range.filter(|&(_, end)| end <= file_bytes) else {
        let end = u128::from(offset) + u128::from(size_bytes);
        return Err(format!(
            "bytes {offset}..{end} reach beyond the end of the file ({file_bytes} bytes)"
        ));
    };
    if start < directory_end {
        return Err(format!(
            "byte {start} lies inside the header or directory, which end at {directory_end}"
        ));
    }
    if !start.is_multiple_of(ALIGNMENT) {
        return Err(format!("byte {start} is no multiple of {ALIGNMENT}"));
    }
    let (expected, code_bytes) = match kind {
        Kind::Raw => (Some(end - start), 0),
        Kind::Float(dtype) => (
            values::count(&shape).and_then(|count| count.checked_mul(dtype.size_in_bytes())),
            0,
        ),
        Kind::Packed { width, group } => {
            let &[rows, cols] = &shape[..] else {
                return Err(format!("packed values with {rank} axes; expected 2"));
            };
            let sizes = packed_sizes((rows, cols), group, width).map_err(|error| error.to_string())?;
            (sizes.0.checked_add(sizes.1), sizes.0)
        }
    };
    if expected != Some(end - start) {
        let found = end - start;
        let expected = expected.map_or("more than any file".into(), |expected| format!("{expected} bytes"));
        return Err(format!("shape {shape:?} takes {expected}, found {found}"));
    }
    Ok(Entry {
        kind,
        shape,
        range: start..end,
        code_bytes,
    })
}

fn width(bits: usize) -> std::result::Result<CodeWidth, String> {
    Ok(match bits {
        1 => CodeWidth::Binary,
        2 => CodeWidth::Two,
        3 => CodeWidth::Three,
        4 => CodeWidth::Four,
        5 => CodeWidth::Ternary,
        other => {
            return Err(format!(
                "code width {other} is not known; known are 1 to 4, and 5 for ternary"
            ));
        }
    })
}

/// The canonical name of a record, for an error.
fn name(header: &Header, index: usize) -> String {
    let slot = layout::archive(&header.config).nth(index);
    slot.map_or_else(|| format!("number {index}"), |slot| slot.name)
}
