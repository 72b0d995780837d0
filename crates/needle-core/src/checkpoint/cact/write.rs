//! Writing generation-2 archives, byte for byte as the published exporter writes them.

use std::{
    collections::BTreeSet,
    num::NonZero,
    path::Path,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use candle_core::{DType, Device, Tensor};
use half::f16;

use super::{
    super::{
        Checkpoint,
        bit_map::BitMap,
        heads,
        info::FormatKind,
        layout::{self, Form, Presence, Slot},
    },
    directory::{ALIGNMENT, RECORD_BYTES},
    header,
};
use crate::{
    error::{Error, Result},
    quant::{CodeWidth, Packed, levels, pack, packed_sizes},
    weights::{Weight, Weights},
};

/// An archive in memory, and what it is made of.
pub(in super::super) struct Archive {
    pub(in super::super) bytes: Vec<u8>,
    /// Records of the directory.
    pub(in super::super) tensors: usize,
    /// Values of all packed matrices.
    pub(in super::super) packed_values: usize,
    /// Bytes of all packed matrices.
    pub(in super::super) packed_bytes: usize,
}

/// One record: what it says and what its blob is made of.
struct Item<'a> {
    name: String,
    dtype: u8,
    shape: Vec<usize>,
    group: usize,
    bits: u32,
    size_bytes: usize,
    source: Source<'a>,
}

enum Source<'a> {
    /// Layers of a matrix, one above the other.
    Packed { parts: Vec<&'a Weight>, width: CodeWidth },
    /// Layers of a small tensor.
    Float(Vec<&'a Weight>),
    /// Bytes that are there already.
    Bytes(Vec<u8>),
}

const FLOAT16: u8 = 1;
const PACKED: u8 = 3;
const RAW: u8 = 4;

/// Makes the archive. `progress` hears of values that are done, of how many, on the calling thread.
pub(in super::super) fn archive(
    checkpoint: &Checkpoint,
    map: &BitMap,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Archive> {
    let items = items(checkpoint, map)?;
    let blobs = blobs(&checkpoint.path, &items, map.group(), progress)?;
    let mut bytes = {
        let window = kv_window(checkpoint);
        let header = header::two(&checkpoint.config, window, items.len(), &books(map.group()));
        header.map_err(|error| error.in_file(&checkpoint.path))?
    };
    let mut at = bytes.len() + items.len() * RECORD_BYTES;
    let mut offsets = Vec::with_capacity(items.len());
    for item in &items {
        at = at.next_multiple_of(ALIGNMENT);
        offsets.push(at);
        bytes.extend(item.record(at));
        at += item.size_bytes;
    }
    bytes.reserve_exact(at - bytes.len());
    for (blob, offset) in blobs.iter().zip(offsets) {
        bytes.resize(offset, 0);
        bytes.extend(blob);
    }
    let packed = || items.iter().filter(|item| item.dtype == PACKED);
    Ok(Archive {
        bytes,
        tensors: items.len(),
        packed_values: packed().map(Item::values).sum(),
        packed_bytes: packed().map(|item| item.size_bytes).sum(),
    })
}

/// An archive's own word is kept; a checkpoint's becomes what its memory budget allows.
fn kv_window(checkpoint: &Checkpoint) -> usize {
    match checkpoint.format.kind {
        FormatKind::Cact => checkpoint.config.kv_window,
        FormatKind::Safetensors | FormatKind::Pickle => checkpoint.config.effective_kv_window(),
    }
}

/// The stored codebooks.
fn books(group: usize) -> Vec<f32> {
    let widths = [CodeWidth::Two, CodeWidth::Three, CodeWidth::Four];
    widths.iter().flat_map(|&width| levels(width, group)).collect()
}

impl Item<'_> {
    fn values(&self) -> usize {
        self.shape.iter().product()
    }

    /// The record, with the blob at `offset`.
    fn record(&self, offset: usize) -> Vec<u8> {
        let mut record = vec![self.dtype, self.shape.len() as u8, 0, 0];
        let axes = self.shape.iter().chain(std::iter::repeat(&0)).take(4);
        axes.for_each(|&size| record.extend((size as u32).to_le_bytes()));
        [offset, self.size_bytes]
            .iter()
            .for_each(|&place| record.extend((place as u64).to_le_bytes()));
        record.extend((self.group as u32).to_le_bytes());
        record.extend(self.bits.to_le_bytes());
        record
    }
}

/// Everything that goes into the archive, in its order. Only what training alone uses may be left over.
fn items<'a>(checkpoint: &'a Checkpoint, map: &BitMap) -> Result<Vec<Item<'a>>> {
    let Checkpoint {
        config, weights, path, ..
    } = checkpoint;
    let mut plan = Plan {
        weights,
        path,
        items: vec![],
        placed: BTreeSet::new(),
    };
    for slot in layout::archive(config) {
        match slot.form {
            Form::Small => plan.float(&slot)?,
            Form::Kernel | Form::Table => plan.packed(&slot, map)?,
        }
    }
    let heads = heads::present(config, weights).map_err(|error| error.in_file(path))?;
    if !heads.is_empty() {
        let codes = heads
            .iter()
            .map(|(head, _)| f16::from_f32(head.code(config.generation)));
        let codes: Vec<u8> = codes.flat_map(f16::to_le_bytes).collect();
        plan.bytes("heads.manifest", FLOAT16, vec![heads.len()], codes);
    }
    for &(head, sizes) in &heads {
        for slot in head.slots(config, sizes) {
            plan.float(&slot)?;
        }
        plan.placed
            .extend(head.training_slots().iter().map(|slot| slot.layer_name(0)));
    }
    let mut names = weights.iter().map(|(name, _)| name);
    if let Some(name) = names.find(|name| !name.starts_with(TRAINING_ONLY) && !plan.placed.contains(*name)) {
        return Err(Error::tensor(
            path,
            name,
            "has no place in an archive of this configuration",
        ));
    }
    if let Some(blob) = &checkpoint.tokenizer_blob {
        let pieces = checkpoint.tokenizer()?.vocab_size();
        if pieces != config.vocab_size {
            let rows = config.vocab_size;
            return Err(Error::Tokenizer(format!(
                "{pieces} pieces, but the model has {rows} rows"
            )));
        }
        plan.bytes("tokenizer", RAW, vec![], blob.to_vec());
    }
    Ok(plan.items)
}

/// The extra block that predicts one token further.
const TRAINING_ONLY: &str = "mtp.";

struct Plan<'a> {
    weights: &'a Weights,
    path: &'a Path,
    items: Vec<Item<'a>>,
    /// Names that have their place.
    placed: BTreeSet<String>,
}

impl<'a> Plan<'a> {
    fn bytes(&mut self, name: &str, dtype: u8, shape: Vec<usize>, bytes: Vec<u8>) {
        self.items.push(Item {
            name: name.into(),
            dtype,
            shape,
            group: 0,
            bits: 0,
            size_bytes: bytes.len(),
            source: Source::Bytes(bytes),
        });
    }

    fn packed(&mut self, slot: &Slot, map: &BitMap) -> Result<()> {
        let parts = self.parts(slot)?;
        let (shape, width) = (slot.stored_in_archive(), map.width(&slot.name));
        let (codes, norms) = packed_sizes((shape[0], shape[1]), map.group(), width)
            .map_err(|error| error.of_tensor(self.path, &slot.name))?;
        self.items.push(Item {
            name: slot.name.clone(),
            dtype: PACKED,
            shape,
            group: map.group(),
            bits: record_bits(width),
            size_bytes: codes + norms,
            source: Source::Packed { parts, width },
        });
        Ok(())
    }

    /// A small tensor; an absent one that may be absent becomes zeros.
    fn float(&mut self, slot: &Slot) -> Result<()> {
        let shape = slot.stored_in_archive();
        let size_bytes = shape.iter().product::<usize>() * size_of::<f16>();
        if slot.presence == Presence::Optional && !self.weights.contains(&slot.layer_name(0)) {
            self.bytes(&slot.name, FLOAT16, shape, vec![0; size_bytes]);
            return Ok(());
        }
        let parts = self.parts(slot)?;
        self.items.push(Item {
            name: slot.name.clone(),
            dtype: FLOAT16,
            shape,
            group: 0,
            bits: 0,
            size_bytes,
            source: Source::Float(parts),
        });
        Ok(())
    }

    /// The weights of all layers, of the right shape.
    fn parts(&mut self, slot: &Slot) -> Result<Vec<&'a Weight>> {
        let mut parts = vec![];
        for name in slot.names() {
            let part = self.weights.get(&name).map_err(|error| error.in_file(self.path))?;
            if part.shape() != slot.shape {
                let reason = format!("expected shape {:?}, found {:?}", slot.shape, part.shape());
                return Err(Error::tensor(self.path, name, reason));
            }
            parts.push(part);
            self.placed.insert(name);
        }
        Ok(parts)
    }
}

fn record_bits(width: CodeWidth) -> u32 {
    match width {
        CodeWidth::Binary => 1,
        CodeWidth::Two => 2,
        CodeWidth::Three => 3,
        CodeWidth::Four => 4,
        CodeWidth::Ternary => 5,
    }
}

/// The blobs of all items, made on all cores, the largest first.
fn blobs(
    path: &Path,
    items: &[Item<'_>],
    group: usize,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Vec<u8>>> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(items[index].values()));
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(order.len());
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut blobs = vec![vec![]; items.len()];
    thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next, order) = (sender.clone(), &next, &order);
            scope.spawn(move || {
                while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let blob = items[index].blob(path, group);
                    // Nobody listens any more once a matrix has failed.
                    if sender.send((index, blob)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let total = items.iter().map(Item::values).sum();
        let mut done = 0;
        for (index, blob) in receiver {
            blobs[index] = blob?;
            done += items[index].values();
            progress(done, total);
        }
        Ok(blobs)
    })
}

impl Item<'_> {
    fn blob(&self, path: &Path, group: usize) -> Result<Vec<u8>> {
        let in_tensor = |error: Error| error.of_tensor(path, &self.name);
        match &self.source {
            Source::Bytes(bytes) => Ok(bytes.clone()),
            Source::Float(parts) => {
                let mut blob = Vec::with_capacity(self.size_bytes);
                for part in parts {
                    blob.extend(halves(part).map_err(|reason| match reason {
                        Fault::Large(value) => {
                            Error::tensor(path, &self.name, format!("{value} is more than float16 holds"))
                        }
                        Fault::Other(error) => error,
                    })?);
                }
                Ok(blob)
            }
            Source::Packed { parts, width } => {
                let (mut codes, mut norms) = (Vec::with_capacity(self.size_bytes), vec![]);
                for part in parts {
                    let packed = packed(part, group, *width).map_err(in_tensor)?;
                    codes.extend(packed.codes());
                    norms.extend(packed.norms());
                }
                codes.append(&mut norms);
                Ok(codes)
            }
        }
    }
}

/// The matrix at this width. One that is packed so already keeps its codes: rounding twice is not rounding once.
fn packed(weight: &Weight, group: usize, width: CodeWidth) -> Result<Packed> {
    let values = match weight {
        Weight::Packed(packed)
            if (packed.group(), packed.width()) == (group, width) && packed.has_standard_levels() =>
        {
            return Ok(packed.clone());
        }
        Weight::Packed(packed) => packed.dequantize(),
        Weight::Dense(dense) => dense.to_tensor(DType::F32, &Device::Cpu)?.flatten_all()?.to_vec1()?,
    };
    let shape = weight.shape();
    pack(&values, (shape[0], shape[1]), group, width)
}

enum Fault {
    Large(f64),
    Other(Error),
}

impl From<candle_core::Error> for Fault {
    fn from(error: candle_core::Error) -> Self {
        Self::Other(error.into())
    }
}

/// The values as little-endian float16, row-major, each rounded once.
fn halves(weight: &Weight) -> std::result::Result<Vec<u8>, Fault> {
    let tensor: Tensor = match weight {
        Weight::Dense(dense) => dense.to_tensor(dense.dtype, &Device::Cpu).map_err(Fault::Other)?,
        Weight::Packed(_) => weight.to_tensor(DType::F32, &Device::Cpu).map_err(Fault::Other)?,
    };
    let flat = tensor.flatten_all()?;
    let values: Vec<f16> = match flat.dtype() {
        DType::F16 => flat.to_vec1()?,
        DType::F64 => flat.to_vec1::<f64>()?.into_iter().map(f16::from_f64).collect(),
        _ => flat
            .to_dtype(DType::F32)?
            .to_vec1::<f32>()?
            .into_iter()
            .map(f16::from_f32)
            .collect(),
    };
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        Some(at) => Err(Fault::Large(flat.get(at)?.to_dtype(DType::F64)?.to_scalar()?)),
    }
}
