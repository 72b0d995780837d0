//! Writing a float checkpoint: one pass over the layout.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    path::Path,
};

use candle_core::DType;
use serde_json::{Map, Value, json};

use super::{
    Checkpoint,
    float::FORMAT_VERSION,
    heads::{self, Head, HeadSizes},
    layout::{self, Form, Presence, Slot},
    python_json::dumps,
    replace::replace,
    values,
};
use crate::{
    config::Generation,
    error::{Error, Result},
    weights::{Dense, Order, Weight},
};

/// The data behind the header begins at a multiple of this.
const ALIGNMENT: usize = 8;

pub(super) fn write(checkpoint: &Checkpoint, path: &Path) -> Result<()> {
    let (tensors, heads) = tensors(checkpoint)?;
    let io = |source| Error::io(path, source);
    let metadata = metadata(checkpoint, &heads).map_err(io)?;
    let header = header(&tensors, &metadata).map_err(io)?;
    replace(path, |out| {
        out.write_all(&header)?;
        tensors.iter().try_for_each(|tensor| tensor.write(out))
    })
}

/// A tensor to be stored: the parts of all layers, one after another.
struct Stored<'a> {
    slot: Slot,
    dtype: DType,
    parts: Vec<&'a Weight>,
}

impl Stored<'_> {
    fn size_bytes(&self) -> usize {
        self.slot.stored_in_tree().iter().product::<usize>() * self.dtype.size_in_bytes()
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for part in &self.parts {
            let narrow = matches!(part, Weight::Dense(dense) if dense.dtype == self.dtype);
            match part {
                Weight::Dense(dense) if narrow => out.write_all(&self.ordered(&dense.bytes, dense.order))?,
                Weight::Dense(dense) => {
                    let row_major = Dense {
                        order: Order::RowMajor,
                        ..(*dense).clone()
                    };
                    out.write_all(&self.ordered(&widened(&row_major)?, dense.order))?;
                }
                Weight::Packed(packed) => {
                    let bytes: Vec<u8> = packed
                        .dequantize()
                        .iter()
                        .flat_map(|value| value.to_le_bytes())
                        .collect();
                    out.write_all(&self.ordered(&bytes, Order::RowMajor))?;
                }
            }
        }
        Ok(())
    }

    /// Bytes that lie in `order`, brought to the order of a checkpoint.
    fn ordered<'b>(&self, bytes: &'b [u8], order: Order) -> std::borrow::Cow<'b, [u8]> {
        let stored = if self.slot.form == Form::Kernel {
            Order::Transposed
        } else {
            Order::RowMajor
        };
        let size = self.dtype.size_in_bytes();
        match (&self.slot.shape[..], order) {
            (&[rows, cols], Order::RowMajor) if stored != order => values::transpose(bytes, rows, cols, size).into(),
            (&[rows, cols], Order::Transposed) if stored != order => values::transpose(bytes, cols, rows, size).into(),
            _ => bytes.into(),
        }
    }
}

/// Float values as float32, in the order in which they lie.
fn widened(dense: &Dense) -> io::Result<Vec<u8>> {
    let flat = Dense {
        shape: vec![dense.shape.iter().product()],
        ..dense.clone()
    };
    let tensor = flat
        .to_tensor(DType::F32, &candle_core::Device::Cpu)
        .map_err(io::Error::other)?;
    let values = tensor.to_vec1::<f32>().map_err(io::Error::other)?;
    Ok(values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// The heads of a checkpoint.
type Heads = Vec<(Head, HeadSizes)>;

/// Every tensor of the checkpoint in its place; none may be left over.
fn tensors(checkpoint: &Checkpoint) -> Result<(Vec<Stored<'_>>, Heads)> {
    let Checkpoint {
        config, weights, path, ..
    } = checkpoint;
    let mut slots: Vec<Slot> = layout::tree(config).collect();
    let heads = heads::present(config, weights).map_err(|error| error.in_file(path))?;
    for &(head, sizes) in &heads {
        slots.extend(head.slots(config, sizes));
        slots.extend(head.training_slots());
    }
    if config.generation == Generation::Two && weights.iter().any(|(name, _)| name.starts_with("mtp.")) {
        slots.extend(layout::next_token_block(config));
    }
    let mut stored = vec![];
    let mut placed = BTreeSet::new();
    for slot in slots {
        if slot.presence == Presence::Optional && !weights.contains(&slot.layer_name(0)) {
            continue;
        }
        let mut parts = vec![];
        for name in slot.names() {
            let part = weights.get(&name).map_err(|error| error.in_file(path))?;
            if part.shape() != slot.shape {
                let reason = format!("expected shape {:?}, found {:?}", slot.shape, part.shape());
                return Err(Error::tensor(path, name, reason));
            }
            if let Weight::Dense(dense) = part {
                let size_bytes = values::count(&dense.shape).map(|count| count * dense.dtype.size_in_bytes());
                if size_bytes != Some(dense.bytes.len()) {
                    let reason = format!("{} bytes do not hold shape {:?}", dense.bytes.len(), dense.shape);
                    return Err(Error::tensor(path, name, reason));
                }
            }
            parts.push(part);
            placed.insert(name);
        }
        let mut dtypes: Vec<DType> = parts.iter().map(|part| dtype(part)).collect();
        dtypes.dedup();
        let dtype = if let [one] = dtypes[..] { one } else { DType::F32 };
        stored.push(Stored { slot, dtype, parts });
    }
    if let Some((name, _)) = weights.iter().find(|(name, _)| !placed.contains(*name)) {
        return Err(Error::tensor(
            path,
            name,
            "has no place in a checkpoint of this configuration",
        ));
    }
    // As the safetensors crate does: the widest values first, so that all are aligned; then by name.
    stored.sort_by(|a, b| {
        let wide = b.dtype.size_in_bytes().cmp(&a.dtype.size_in_bytes());
        wide.then_with(|| a.slot.path.cmp(&b.slot.path))
    });
    Ok((stored, heads))
}

fn dtype(weight: &Weight) -> DType {
    match weight {
        Weight::Dense(dense) => dense.dtype,
        Weight::Packed(_) => DType::F32,
    }
}

fn metadata(checkpoint: &Checkpoint, heads: &[(Head, HeadSizes)]) -> io::Result<BTreeMap<String, String>> {
    let mut fields = checkpoint.config.to_json();
    if checkpoint.config.source.is_empty() {
        // An archive does not name the sizes of its heads, and the reference's loader takes them from here.
        for &(head, sizes) in heads {
            head_fields(head, checkpoint.config.generation, sizes, &mut fields);
        }
    }
    let format = &checkpoint.format;
    let mut metadata = checkpoint.metadata.clone();
    metadata.insert("format_version".into(), FORMAT_VERSION.to_string());
    metadata.insert("config".into(), dumps(&fields)?);
    metadata.insert(
        "step".into(),
        format.step.map(|step| step.to_string()).unwrap_or_default(),
    );
    metadata.insert("run".into(), dumps(&format.run)?);
    Ok(metadata)
}

fn head_fields(head: Head, generation: Generation, sizes: HeadSizes, fields: &mut Map<String, Value>) {
    let mut put = |key: String, size: usize| fields.insert(key, json!(size));
    if head.fixed_width().is_none() {
        put(format!("{}_dim", head.name()), sizes.width);
    }
    if generation == Generation::Three {
        put(format!("{}_probes", head.name()), sizes.probes);
        put(format!("{}_queries", head.name()), sizes.queries);
    }
}

/// The length of the header and the header: metadata, then every tensor's type, shape and place.
fn header(tensors: &[Stored], metadata: &BTreeMap<String, String>) -> io::Result<Vec<u8>> {
    let mut entries = Map::new();
    entries.insert("__metadata__".into(), json!(metadata));
    let mut at = 0;
    for tensor in tensors {
        let dtype = match tensor.dtype {
            DType::F16 => "F16",
            DType::BF16 => "BF16",
            DType::F32 => "F32",
            DType::F64 => "F64",
            other => {
                return Err(io::Error::other(format!(
                    "tensor {}: dtype {other:?}",
                    tensor.slot.name
                )));
            }
        };
        let end = at + tensor.size_bytes();
        let shape = tensor.slot.stored_in_tree();
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [at, end]});
        entries.insert(tensor.slot.path.clone(), entry);
        at = end;
    }
    let mut text = serde_json::to_vec(&entries)?;
    text.resize(text.len().next_multiple_of(ALIGNMENT), b' ');
    let mut header = (text.len() as u64).to_le_bytes().to_vec();
    header.append(&mut text);
    Ok(header)
}
