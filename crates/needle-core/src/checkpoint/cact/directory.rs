//! The directory: where every tensor lies, how it is written, and whether that can be true.

use std::{ops::Range, path::Path};

use candle_core::DType;

use super::{super::values, header::Header};
use crate::{
    checkpoint::layout,
    error::{Error, Result},
    quant::{CodeWidth, packed_sizes},
    weights::Bytes,
};

pub(super) const RECORD_BYTES: usize = 44;
pub(super) const ALIGNMENT: usize = 64;

/// A reason, without the file and the tensor.
type Read<T> = std::result::Result<T, String>;

/// A record's values.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Float {
        dtype: DType,
        values: Bytes,
    },
    Packed {
        width: CodeWidth,
        group: usize,
        codes: Bytes,
        norms: Bytes,
    },
    Raw(Bytes),
}

/// A record whose numbers agree with each other and with the file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) content: Content,
    pub(super) shape: Vec<usize>,
    /// Where it lies in the file.
    pub(super) range: Range<usize>,
}

/// Reads all records.
pub(super) fn read(bytes: &Bytes, file: &Path, header: &Header) -> Result<Vec<Entry>> {
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
        let entry = parse(record, end, bytes);
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

fn parse(record: &[u8; RECORD_BYTES], directory_end: usize, bytes: &Bytes) -> Read<Entry> {
    let word = |at: usize| record[at..].first_chunk().map_or(0, |&word| u32::from_le_bytes(word)) as usize;
    let long = |at: usize| record[at..].first_chunk().map_or(0, |&word| u64::from_le_bytes(word));
    let (dtype, rank) = (record[0], usize::from(record[1]));
    if rank > 4 {
        return Err(format!("{rank} axes; a record holds at most 4"));
    }
    let shape: Vec<usize> = (0..rank).map(|axis| word(4 + 4 * axis)).collect();
    let (range, data) = place(bytes, directory_end, long(20), long(28))?;
    let wrong_size = |expected: Option<usize>| {
        let expected = expected.map_or("more than any file".into(), |size| format!("{size} bytes"));
        format!("shape {shape:?} takes {expected}, found {}", data.len())
    };
    let float = |dtype: DType| match values::count(&shape).and_then(|count| count.checked_mul(dtype.size_in_bytes())) {
        Some(size) if size == data.len() => Ok(Content::Float {
            dtype,
            values: data.clone(),
        }),
        other => Err(wrong_size(other)),
    };
    let content = match dtype {
        1 => float(DType::F16)?,
        2 => float(DType::F32)?,
        3 => {
            let (group, width) = (word(36), width(word(40))?);
            let &[rows, cols] = &shape[..] else {
                return Err(format!("packed values with {rank} axes; expected 2"));
            };
            let (codes, norms) = packed_sizes((rows, cols), group, width).map_err(|error| error.to_string())?;
            let size = codes.checked_add(norms);
            match data.slice(0..codes).zip(data.slice(codes..data.len())) {
                Some((codes, norms)) if size == Some(data.len()) => Content::Packed {
                    width,
                    group,
                    codes,
                    norms,
                },
                _ => return Err(wrong_size(size)),
            }
        }
        4 => Content::Raw(data),
        other => return Err(format!("dtype {other} is not known; known are 1 to 4")),
    };
    Ok(Entry { content, shape, range })
}

/// The bytes that a record claims.
fn place(bytes: &Bytes, directory_end: usize, offset: u64, size_bytes: u64) -> Read<(Range<usize>, Bytes)> {
    let end = offset.checked_add(size_bytes).and_then(|end| usize::try_from(end).ok());
    let range = usize::try_from(offset).ok().zip(end).map(|(start, end)| start..end);
    let Some((range, data)) = range.and_then(|range| Some((range.clone(), bytes.slice(range)?))) else {
        let (end, size) = (u128::from(offset) + u128::from(size_bytes), bytes.len());
        return Err(format!(
            "bytes {offset}..{end} reach beyond the end of the file ({size} bytes)"
        ));
    };
    if range.start < directory_end {
        return Err(format!(
            "byte {offset} lies inside the header or directory, which end at {directory_end}"
        ));
    }
    if !range.start.is_multiple_of(ALIGNMENT) {
        return Err(format!("byte {offset} is no multiple of {ALIGNMENT}"));
    }
    Ok((range, data))
}

fn width(bits: usize) -> Read<CodeWidth> {
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
