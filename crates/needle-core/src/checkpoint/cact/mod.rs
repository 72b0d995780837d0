//! `.cact` archives of both generations: a header with the geometry, a directory without names, then the tensors. A
//! tensor is known by its place in the directory; the geometry says which places there are and what shapes they have.

mod directory;
mod header;

use std::path::Path;

use candle_core::DType;

use self::{
    directory::{Entry, Kind},
    header::Header,
};
use super::{
    Checkpoint,
    info::{Encoding, FormatInfo, FormatKind, Record},
    layout::{self, Form, Head, Slot},
    values,
};
use crate::{
    config::Config,
    error::{Error, Result},
    quant::Packed,
    weights::{Bytes, Dense, Order, Weight, Weights},
};
pub(super) use header::{is_it, near_miss};

/// Bytes of a tokenizer before its pieces: their number, four special ids, two flags.
const TOKENIZER_HEADER_BYTES: usize = 24;

/// The shape of the first record of a speech encoder, which some generation-3 archives carry.
const SPEECH_MANIFEST: [usize; 1] = [13];

/// Reads an archive. Tensors stay where they are; only what their sizes and numbers say is checked.
///
/// # Errors
/// [`Error::Format`] and [`Error::Tensor`] name what contradicts what.
pub(super) fn read(bytes: Bytes, file: &Path) -> Result<Checkpoint> {
    let header = Header::read(&bytes, file)?;
    let entries = directory::read(&bytes, file, &header)?;
    let mut reader = Reader {
        file,
        bytes: &bytes,
        header: &header,
        group: None,
        weights: Weights::new(),
        records: Vec::with_capacity(entries.len()),
    };
    let mut rest = entries.as_slice();
    for slot in layout::archive(&header.config) {
        let Some((entry, after)) = rest.split_first() else {
            return Err(Error::tensor(file, slot.name, "missing: the directory ends before it"));
        };
        reader.take(&slot, entry)?;
        rest = after;
    }
    let tokenizer = rest.last().filter(|entry| entry.kind == Kind::Raw);
    if tokenizer.is_some() {
        rest = &rest[..rest.len() - 1];
    }
    let heads = reader.heads(rest)?;
    let tokenizer_blob = tokenizer.map(|entry| reader.tokenizer(entry)).transpose()?;
    let (weights, records) = (reader.weights, reader.records);
    let mut config = header.config;
    if let Some(blob) = &tokenizer_blob {
        config.pad_token_id = pad_token(blob, &config, file)?;
    }
    Ok(Checkpoint {
        format: FormatInfo {
            kind: FormatKind::Cact,
            generation: config.generation,
            version: config.generation.number(),
            size_bytes: bytes.len(),
            records,
            heads,
            step: None,
            run: serde_json::Map::new(),
        },
        config,
        weights,
        tokenizer_blob,
        metadata: Default::default(),
        path: file.into(),
    })
}

struct Reader<'a> {
    file: &'a Path,
    bytes: &'a Bytes,
    header: &'a Header,
    /// The group that all tensors with the header's levels share, and the first tensor that has it.
    group: Option<(usize, String)>,
    weights: Weights,
    records: Vec<Record>,
}

impl Reader<'_> {
    /// Checks an entry against its place and adds its tensors.
    fn take(&mut self, slot: &Slot, entry: &Entry) -> Result<()> {
        let error = |reason: String| Error::tensor(self.file, &slot.name, reason);
        let expected = slot.stored_in_archive();
        let also = slot.form == Form::Table && matches!(entry.kind, Kind::Float(_)) && entry.shape == slot.tree_shape;
        if entry.shape != expected && !also {
            let found = &entry.shape;
            return Err(error(format!(
                "the geometry asks for shape {expected:?}, found {found:?}"
            )));
        }
        let data = self.bytes.slice(entry.range.clone());
        let data = data.ok_or_else(|| error("reaches beyond the end of the file".into()))?;
        match entry.kind {
            Kind::Raw => return Err(error("expected numbers, found raw bytes".into())),
            Kind::Packed { .. } if slot.form == Form::Small => {
                return Err(error("expected float values, found packed ones".into()));
            }
            Kind::Packed { width, group } => {
                if let Some(levels) = self.header.levels(width) {
                    let (first, name) = self.group.get_or_insert_with(|| (group, slot.name.clone()));
                    if *first != group {
                        let reason = format!("groups of {group}, but the levels are for groups of {first} ({name})");
                        return Err(Error::tensor(self.file, &slot.name, reason));
                    }
                    self.take_packed(slot, entry, data, levels)?;
                } else {
                    self.take_packed(slot, entry, data, &crate::quant::levels(width, group))?;
                }
            }
            Kind::Float(dtype) => self.take_dense(slot, data, dtype)?,
        }
        self.records.push(entry.record(slot.name.clone()));
        Ok(())
    }

    fn take_packed(&mut self, slot: &Slot, entry: &Entry, data: Bytes, levels: &[f32]) -> Result<()> {
        let error = |reason: String| Error::tensor(self.file, &slot.name, reason);
        let Kind::Packed { width, group } = entry.kind else {
            return Err(error("expected packed values".into()));
        };
        let shape = (entry.shape[0], entry.shape[1]);
        let ends = "reaches beyond the end of the file";
        let codes = data.slice(0..entry.code_bytes).ok_or_else(|| error(ends.into()))?;
        let norms = data
            .slice(entry.code_bytes..data.len())
            .ok_or_else(|| error(ends.into()))?;
        let packed = Packed::new(shape, group, width, levels, codes, norms).map_err(|fault| match fault {
            Error::Packed(reason) => error(reason),
            other => other,
        })?;
        let rows = slot.shape[0];
        for (layer, name) in slot.names().enumerate() {
            let part = packed.slice_rows(layer * rows..(layer + 1) * rows);
            let part = part.ok_or_else(|| error(format!("ends before layer {layer}")))?;
            self.weights.insert(name, Weight::Packed(part));
        }
        Ok(())
    }

    fn take_dense(&mut self, slot: &Slot, data: Bytes, dtype: DType) -> Result<()> {
        let error = |reason: String| Error::tensor(self.file, &slot.name, reason);
        if let Some((at, value)) = values::first_not_finite(&data, dtype) {
            return Err(error(format!("value {at} is {value}")));
        }
        let each = data.len() / slot.layers.unwrap_or(1);
        for (layer, name) in slot.names().enumerate() {
            let bytes = data.slice(layer * each..(layer + 1) * each);
            let dense = Dense {
                bytes: bytes.ok_or_else(|| error(format!("ends before layer {layer}")))?,
                dtype,
                shape: slot.shape.clone(),
                order: Order::RowMajor,
            };
            if slot.name.starts_with("hadamard_mlp.") {
                check_permutation(&dense).map_err(&error)?;
            }
            self.weights.insert(name, Weight::Dense(dense));
        }
        Ok(())
    }

    /// The heads behind the model: a manifest of their codes, then the tensors of each.
    fn heads(&mut self, entries: &[Entry]) -> Result<Vec<&'static str>> {
        let Some((manifest, mut rest)) = entries.split_first() else {
            return Ok(vec![]);
        };
        let config = &self.header.config;
        let generation = config.generation;
        let mut names = vec![];
        for head in self.manifest(manifest)? {
            let sizes = head.sizes(generation, |leaf, place, axis| {
                let size = rest.get(place).and_then(|entry| entry.shape.get(axis));
                let name = format!("heads.{}.{leaf}", head.name());
                size.copied()
                    .ok_or_else(|| Error::tensor(self.file, name, "missing, or without its axes"))
            });
            for slot in head.slots(config, sizes.map_err(|error| error.in_file(self.file))?) {
                let Some((entry, after)) = rest.split_first() else {
                    return Err(Error::tensor(
                        self.file,
                        slot.name,
                        "missing: the directory ends before it",
                    ));
                };
                self.take(&slot, entry)?;
                rest = after;
            }
            names.push(head.name());
        }
        match rest {
            [] => Ok(names),
            [first, ..] => Err(self.surplus(first, rest.len())),
        }
    }

    fn manifest(&mut self, entry: &Entry) -> Result<Vec<Head>> {
        let error = |reason: String| Error::tensor(self.file, "heads.manifest", reason);
        let known = Head::all(self.header.config.generation);
        let dtype = match entry.kind {
            Kind::Float(dtype) if entry.shape.len() == 1 && entry.shape[0] <= known.len() => dtype,
            _ => return Err(self.surplus(entry, 1)),
        };
        let data = self.bytes.slice(entry.range.clone());
        let data = data.ok_or_else(|| error("reaches beyond the end of the file".into()))?;
        let mut heads = vec![];
        for code in floats(&data, dtype) {
            let place = (1..=known.len()).find(|&place| place as f32 == code);
            let Some(&head) = place.and_then(|place| known.get(place - 1)) else {
                return Err(error(format!(
                    "no head has the code {code}; known are 1 to {}",
                    known.len()
                )));
            };
            if heads.contains(&head) {
                return Err(error(format!("names the {} head twice", head.name())));
            }
            heads.push(head);
        }
        self.records.push(entry.record("heads.manifest".into()));
        Ok(heads)
    }

    fn surplus(&self, entry: &Entry, count: usize) -> Error {
        if entry.kind == Kind::Float(DType::F32) && entry.shape == SPEECH_MANIFEST {
            return Error::format(
                self.file,
                "the archive carries a speech encoder, which this version does not read",
            );
        }
        let (place, shape) = (self.records.len(), &entry.shape);
        let reason = format!("record {place} of shape {shape:?} is no part of the model ({count} such records)");
        Error::format(self.file, reason)
    }

    fn tokenizer(&mut self, entry: &Entry) -> Result<Bytes> {
        let blob = self.bytes.slice(entry.range.clone());
        let blob = blob.filter(|blob| blob.len() >= TOKENIZER_HEADER_BYTES);
        let blob = blob.ok_or_else(|| {
            let found = entry.range.len();
            let reason = format!("{found} bytes; its header alone takes {TOKENIZER_HEADER_BYTES}");
            Error::tensor(self.file, "tokenizer", reason)
        })?;
        self.records.push(entry.record("tokenizer".into()));
        Ok(blob)
    }
}

impl Entry {
    fn record(&self, name: String) -> Record {
        Record {
            name,
            encoding: match self.kind {
                Kind::Float(dtype) => Encoding::Float(dtype),
                Kind::Packed { width, group } => Encoding::Packed { width, group },
                Kind::Raw => Encoding::Raw,
            },
            shape: self.shape.clone(),
            offset: Some(self.range.start),
            size_bytes: self.range.len(),
        }
    }
}

/// The archive's header has no pad id; its tokenizer has.
fn pad_token(blob: &Bytes, config: &Config, file: &Path) -> Result<u32> {
    let pad = blob
        .get(4..)
        .and_then(<[u8]>::first_chunk)
        .map(|&pad| u32::from_le_bytes(pad));
    pad.filter(|&pad| (pad as usize) < config.vocab_size).ok_or_else(|| {
        let reason = format!("pad id {} of {} tokens", pad.unwrap_or_default(), config.vocab_size);
        Error::tensor(file, "tokenizer", reason)
    })
}

/// Small float values, widened.
fn floats(bytes: &[u8], dtype: DType) -> Vec<f32> {
    match dtype {
        DType::F16 => {
            let values = bytes.as_chunks::<2>().0.iter();
            values.map(|&value| half::f16::from_le_bytes(value).to_f32()).collect()
        }
        _ => bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&value| f32::from_le_bytes(value))
            .collect(),
    }
}

/// Every place from 0 on occurs once.
fn check_permutation(dense: &Dense) -> std::result::Result<(), String> {
    let values = floats(&dense.bytes, dense.dtype);
    let mut seen = vec![false; values.len()];
    for value in values {
        let place = (0.0..seen.len() as f32).contains(&value).then_some(value as usize);
        match place
            .filter(|&place| place as f32 == value)
            .and_then(|place| seen.get_mut(place))
        {
            Some(seen) if !*seen => *seen = true,
            Some(_) => return Err(format!("not a permutation: {value} occurs twice")),
            None => return Err(format!("not a permutation: {value} is no place")),
        }
    }
    Ok(())
}
