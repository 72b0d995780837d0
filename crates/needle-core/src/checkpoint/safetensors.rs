//! Safetensors files: named float arrays and text metadata. The `safetensors` crate judges the header as a whole; here
//! every entry is looked at first, so that an error names the tensor.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::Path,
};

use candle_core::DType;
use safetensors::{
    Dtype,
    tensor::{Metadata, TensorInfo},
};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::{tree::Array, values};
use crate::{
    error::{Error, Result},
    weights::Bytes,
};

/// Length of the length of the header.
const LENGTH_BYTES: usize = 8;

/// The contents of a file.
pub(super) struct Contents {
    /// In the file's order.
    pub(super) arrays: Vec<Array>,
    pub(super) metadata: BTreeMap<String, String>,
}

/// Whether a file begins as safetensors do: a plausible length, then JSON.
pub(super) fn is_it(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk().map(|&length| u64::from_le_bytes(length));
    length.is_some_and(|length| length < 1 << 40) && bytes.get(LENGTH_BYTES) == Some(&b'{')
}

/// Reads the header; the values stay where they are.
///
/// # Errors
/// [`Error::Format`] for a damaged header, [`Error::Tensor`] for an entry that lies about its place, size or type.
pub(super) fn read(bytes: &Bytes, file: &Path) -> Result<Contents> {
    let damaged = |reason: String| Error::format(file, format!("safetensors header: {reason}"));
    let length = bytes
        .first_chunk()
        .map_or(u64::MAX, |&length| u64::from_le_bytes(length));
    let start = usize::try_from(length)
        .ok()
        .and_then(|length| length.checked_add(LENGTH_BYTES));
    let Some((start, header)) = start.and_then(|start| Some((start, bytes.get(LENGTH_BYTES..start)?))) else {
        let size = bytes.len();
        return Err(damaged(format!("{length} bytes long, but the file has {size} bytes")));
    };
    let Header { metadata, entries } = serde_json::from_slice(header).map_err(|error| damaged(error.to_string()))?;
    let data_bytes = bytes.len() - start;
    let mut places = BTreeMap::new();
    for (name, info) in &entries {
        check(info, data_bytes).map_err(|reason| Error::tensor(file, name, reason))?;
        let (from, to) = info.data_offsets;
        if from == to {
            continue;
        }
        if let Some(other) = places.insert(from, (to, name)) {
            return Err(Error::tensor(
                file,
                name,
                format!("lies at byte {from} like {}", other.1),
            ));
        }
    }
    let neighbours = places.values().zip(places.iter().skip(1));
    for ((to, name), (from, (_, next))) in neighbours {
        if from < to {
            return Err(Error::tensor(
                file,
                *next,
                format!("bytes from {from} on overlap those of {name}"),
            ));
        }
    }
    // What is left for the crate to say: holes between the tensors, and bytes after the last one.
    let mut entries = entries;
    entries.sort_by_key(|(_, info)| info.data_offsets);
    let strings: HashMap<String, String> = metadata.clone().into_iter().collect();
    let judged = Metadata::new(Some(strings), entries.clone()).map_err(|error| damaged(error.to_string()))?;
    if judged.data_len() != data_bytes {
        let described = judged.data_len();
        return Err(damaged(format!(
            "describes {described} bytes of values, but {data_bytes} follow"
        )));
    }
    let mut arrays = Vec::with_capacity(entries.len());
    for (name, info) in entries {
        let (from, to) = info.data_offsets;
        let Some((dtype, values)) = dtype(info.dtype).zip(bytes.slice(start + from..start + to)) else {
            let reason = format!("expected float values, found {:?}", info.dtype);
            return Err(Error::tensor(file, name, reason));
        };
        arrays.push(Array {
            path: name,
            dtype,
            shape: info.shape,
            bytes: values,
            offset: Some(start + from),
        });
    }
    Ok(Contents { arrays, metadata })
}

fn check(info: &TensorInfo, data_bytes: usize) -> std::result::Result<(), String> {
    let (from, to) = info.data_offsets;
    if from > to || to > data_bytes {
        return Err(format!("values at {from}..{to} of {data_bytes} bytes"));
    }
    let bits = values::count(&info.shape).and_then(|count| count.checked_mul(info.dtype.bitsize()));
    if bits != (to - from).checked_mul(8) {
        let (shape, dtype, found) = (&info.shape, info.dtype, to - from);
        return Err(format!("{found} bytes do not hold shape {shape:?} of {dtype:?}"));
    }
    Ok(())
}

fn dtype(dtype: Dtype) -> Option<DType> {
    match dtype {
        Dtype::F16 => Some(DType::F16),
        Dtype::BF16 => Some(DType::BF16),
        Dtype::F32 => Some(DType::F32),
        Dtype::F64 => Some(DType::F64),
        _ => None,
    }
}

/// The header's JSON with its entries in order; a name that occurs twice is an error.
struct Header {
    metadata: BTreeMap<String, String>,
    entries: Vec<(String, TensorInfo)>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Header, A::Error> {
        let mut metadata = None;
        let mut entries = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            let twice = if name == "__metadata__" {
                metadata.replace(map.next_value()?).is_some()
            } else {
                let info = map
                    .next_value()
                    .map_err(|error| de::Error::custom(format!("{name}: {error}")))?;
                entries.insert(name.clone(), info).is_some()
            };
            if twice {
                return Err(de::Error::custom(format!("{name} occurs twice")));
            }
        }
        Ok(Header {
            metadata: metadata.unwrap_or_default(),
            entries: entries.into_iter().collect(),
        })
    }
}
