//! `.cact` archives of both generations: a header with the geometry, a directory without names, then the tensors. A
//! tensor is known by its place in the directory; the geometry says which places there are and what shapes they have.

mod directory;
mod header;
mod write;

use std::path::Path;

use candle_core::DType;

use self::{
    directory::{Content, Entry},
    header::Header,
};
use super::{
    Checkpoint,
    heads::Head,
    info::{Encoding, FormatInfo, FormatKind, Record},
    layout::{self, Form, Slot},
    values,
};
use crate::{
    config::Config,
    error::{Error, Result},
    quant::{self, CodeWidth, Packed},
    weights::{Bytes, Dense, Order, Weight, Weights},
};
pub(super) use header::{is_it, near_miss};
pub(super) use write::archive;

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
    let tokenizer = rest.split_last().and_then(|(entry, before)| match &entry.content {
        Content::Raw(blob) => Some((entry, blob, before)),
        _ => None,
    });
    if let Some((_, _, before)) = tokenizer {
        rest = before;
    }
    let heads = reader.heads(rest)?;
    let tokenizer_blob = tokenizer
        .map(|(entry, blob, _)| reader.tokenizer(entry, blob))
        .transpose()?;
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
        let also = slot.form == Form::Table
            && matches!(entry.content, Content::Float { .. })
            && entry.shape == slot.tree_shape;
        if entry.shape != expected && !also {
            let found = &entry.shape;
            return Err(error(format!(
                "the geometry asks for shape {expected:?}, found {found:?}"
            )));
        }
        match &entry.content {
            Content::Raw(_) => return Err(error("expected numbers, found raw bytes".into())),
            Content::Float { dtype, values } => self.take_dense(slot, values, *dtype)?,
            Content::Packed { .. } if slot.form == Form::Small => {
                return Err(error("expected float values, found packed ones".into()));
            }
            Content::Packed {
                width,
                group,
                codes,
                norms,
            } => {
                let levels = self.levels(slot, *width, *group)?;
                let shape = (entry.shape[0], entry.shape[1]);
                let packed = Packed::new(shape, *group, *width, &levels, codes.clone(), norms.clone());
                self.take_packed(slot, packed.map_err(|fault| fault.of_tensor(self.file, &slot.name))?)?;
            }
        }
        self.records.push(entry.record(slot.name.clone()));
        Ok(())
    }

    /// The codebook of a matrix: the archive's own, which is for one size of groups, or the analytic one.
    fn levels(&mut self, slot: &Slot, width: CodeWidth, group: usize) -> Result<Vec<f32>> {
        let Some(levels) = self.header.levels(width) else {
            return Ok(quant::levels(width, group));
        };
        let (first, name) = self.group.get_or_insert_with(|| (group, slot.name.clone()));
        if *first != group {
            let reason = format!("groups of {group}, but the levels are for groups of {first} ({name})");
            return Err(Error::tensor(self.file, &slot.name, reason));
        }
        Ok(levels.to_vec())
    }

    fn take_packed(&mut self, slot: &Slot, packed: Packed) -> Result<()> {
        let rows = slot.shape[0];
        for (layer, name) in slot.names().enumerate() {
            let part = packed.slice_rows(layer * rows..(layer + 1) * rows);
            let ends = || Error::tensor(self.file, &slot.name, format!("ends before layer {layer}"));
            self.weights.insert(name, Weight::Packed(part.ok_or_else(ends)?));
        }
        Ok(())
    }

    fn take_dense(&mut self, slot: &Slot, values: &Bytes, dtype: DType) -> Result<()> {
        let error = |reason: String| Error::tensor(self.file, &slot.name, reason);
        if let Some((at, value)) = values::first_not_finite(values, dtype) {
            return Err(error(format!("value {at} is {value}")));
        }
        if slot.name.starts_with("hadamard_mlp.") {
            check_permutation(&floats(values, dtype)).map_err(error)?;
        }
        let each = values.len() / slot.layers.unwrap_or(1);
        for (layer, name) in slot.names().enumerate() {
            let part = values.slice(layer * each..(layer + 1) * each);
            let dense = Dense {
                bytes: part.ok_or_else(|| error(format!("ends before layer {layer}")))?,
                dtype,
                shape: slot.shape.clone(),
                order: Order::RowMajor,
            };
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
        let (values, dtype) = match &entry.content {
            Content::Float { dtype, values } if entry.shape.len() == 1 && entry.shape[0] <= known.len() => {
                (values, *dtype)
            }
            _ => return Err(self.surplus(entry, 1)),
        };
        let mut heads = vec![];
        for code in floats(values, dtype) {
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
        let float32 = matches!(entry.content, Content::Float { dtype: DType::F32, .. });
        if float32 && entry.shape == SPEECH_MANIFEST {
            return Error::format(
                self.file,
                "the archive carries a speech encoder, which this version does not read",
            );
        }
        let (place, shape) = (self.records.len(), &entry.shape);
        let reason = format!("record {place} of shape {shape:?} is no part of the model ({count} such records)");
        Error::format(self.file, reason)
    }

    fn tokenizer(&mut self, entry: &Entry, blob: &Bytes) -> Result<Bytes> {
        if blob.len() < TOKENIZER_HEADER_BYTES {
            let found = blob.len();
            let reason = format!("{found} bytes; its header alone takes {TOKENIZER_HEADER_BYTES}");
            return Err(Error::tensor(self.file, "tokenizer", reason));
        }
        self.records.push(entry.record("tokenizer".into()));
        Ok(blob.clone())
    }
}

impl Entry {
    fn record(&self, name: String) -> Record {
        Record {
            name,
            encoding: match self.content {
                Content::Float { dtype, .. } => Encoding::Float(dtype),
                Content::Packed { width, group, .. } => Encoding::Packed { width, group },
                Content::Raw(_) => Encoding::Raw,
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
fn check_permutation(values: &[f32]) -> std::result::Result<(), String> {
    let mut seen = vec![false; values.len()];
    for &value in values {
        let place = Some(value as usize).filter(|&place| place as f32 == value);
        match place.and_then(|place| seen.get_mut(place)) {
            Some(seen) if !*seen => *seen = true,
            Some(_) => return Err(format!("not a permutation: {value} occurs twice")),
            None => return Err(format!("not a permutation: {value} is no place")),
        }
    }
    Ok(())
}
