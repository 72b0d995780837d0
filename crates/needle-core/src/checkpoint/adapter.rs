//! Low-rank adapters: a pickle of generation 2 or a safetensors file of generation 3.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::{Container, info::FormatKind, pickle, safetensors, tree::Array, values};
use crate::{
    error::{Error, Result},
    weights::{Bytes, Dense, Order},
};

/// The projections that adapters may change, as paths in a checkpoint's tree.
const BLOCK: &str = "stack/layers/block/self_attn/";
/// More than any model has.
const MAX_LAYERS: usize = 512;

const PROJECTIONS: [&str; 5] = ["q_proj", "k_proj", "v_proj", "gate_proj", "out_proj"];

/// An adapter: `W [out, in] += scale·(A·B)ᵀ` for every projection that it names.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// The container that it came in.
    pub kind: FormatKind,
    /// The factor of every product.
    pub scale: f64,
    /// Width between `A` and `B`.
    pub rank: usize,
    /// The checkpoint that it was trained on, as the trainer named it.
    pub base: Option<String>,
    /// Layers that it covers.
    pub num_layers: usize,
    /// `A [in, rank]` and `B [rank, out]` by the canonical name of the matrix that they change.
    pub pairs: BTreeMap<String, (Dense, Dense)>,
    /// Embedding rows for pieces that the base does not have (generation 3).
    pub rows: Option<Dense>,
    /// Everything else that the file says, as JSON: bits, seed, pieces, languages.
    pub extra: Map<String, Value>,
    /// Where it came from.
    pub path: PathBuf,
}

impl Adapter {
    /// Opens an adapter of either form, recognised by its content.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read, [`Error::Format`] or [`Error::Tensor`] when it is damaged or no adapter.
    pub fn open(path: &Path) -> Result<Self> {
        Self::from_bytes(Bytes::map(path)?, path)
    }

    /// Reads an adapter that lies in memory; errors call it `label`.
    ///
    /// # Errors
    /// [`Error::Format`] or [`Error::Tensor`] when it is damaged or no adapter.
    pub fn from_bytes(bytes: Bytes, label: &Path) -> Result<Self> {
        match Container::of(&bytes, label)? {
            Container::Cact => Err(Error::format(label, "an archive, not an adapter")),
            Container::Safetensors => from_safetensors(&bytes, label),
            Container::Pickle => from_pickle(&bytes, label),
        }
    }
}

fn from_safetensors(bytes: &Bytes, file: &Path) -> Result<Adapter> {
    let safetensors::Contents { arrays, metadata } = safetensors::read(bytes, file)?;
    if !arrays.iter().any(|array| array.path.starts_with("lora/")) {
        return Err(Error::format(file, "no tensor under lora/: not an adapter"));
    }
    let mut fields = Map::new();
    for (key, text) in metadata {
        let value = serde_json::from_str(&text);
        let value = value.map_err(|error| Error::format(file, format!("metadata {key}: {error}")))?;
        fields.insert(key, value);
    }
    let (mut rows, mut lora) = (None, vec![]);
    for mut array in arrays {
        if array.path == "rows" {
            rows = Some(array);
        } else if let Some(path) = array.path.strip_prefix("lora/") {
            array.path = path.to_owned();
            lora.push(array);
        } else {
            return Err(Error::tensor(file, array.path, "not a tensor of an adapter"));
        }
    }
    build(FormatKind::Safetensors, file, lora, rows, fields)
}

fn from_pickle(bytes: &Bytes, file: &Path) -> Result<Adapter> {
    let pickle = pickle::Pickle::read(bytes, file)?;
    let mut entries = pickle.root()?;
    let lora = entries
        .take("lora")
        .ok_or_else(|| Error::format(file, "no field lora: not an adapter"))?;
    let mut fields = Map::new();
    for (key, value) in entries.into_entries() {
        fields.insert(key, pickle.json(value)?);
    }
    build(FormatKind::Pickle, file, pickle.arrays(lora)?, None, fields)
}

fn build(
    kind: FormatKind,
    file: &Path,
    lora: Vec<Array>,
    rows: Option<Array>,
    mut fields: Map<String, Value>,
) -> Result<Adapter> {
    let wrong = |key: &str, expected: &str, found: Option<&Value>| {
        let found = found.map_or("nothing".into(), Value::to_string);
        Error::format(file, format!("field {key}: expected {expected}, found {found}"))
    };
    let scale = fields.remove("scale");
    let number = scale.as_ref().and_then(Value::as_f64).filter(|scale| scale.is_finite());
    let scale = number.ok_or_else(|| wrong("scale", "a finite number", scale.as_ref()))?;
    let rank = fields.remove("rank");
    let number = rank
        .as_ref()
        .and_then(Value::as_u64)
        .and_then(|rank| usize::try_from(rank).ok());
    let rank = number
        .filter(|&rank| rank > 0)
        .ok_or_else(|| wrong("rank", "a number from 1 on", rank.as_ref()))?;
    let base = match fields.remove("base") {
        None | Some(Value::Null) => None,
        Some(Value::String(base)) => Some(base),
        other => return Err(wrong("base", "a name", other.as_ref())),
    };
    let (pairs, num_layers) = pairs(file, lora, rank)?;
    let rows = rows.map(|rows| {
        check_finite(file, &rows)?;
        Ok::<_, Error>(Dense {
            bytes: rows.bytes,
            dtype: rows.dtype,
            shape: rows.shape,
            order: Order::RowMajor,
        })
    });
    Ok(Adapter {
        kind,
        scale,
        rank,
        base,
        num_layers,
        pairs,
        rows: rows.transpose()?,
        extra: fields,
        path: file.into(),
    })
}

type Pairs = BTreeMap<String, (Dense, Dense)>;

/// Both factors of every projection, cut into layers, and how many layers there are.
fn pairs(file: &Path, lora: Vec<Array>, rank: usize) -> Result<(Pairs, usize)> {
    let mut factors = BTreeMap::new();
    let mut layers = None;
    for array in lora {
        check_finite(file, &array)?;
        let error = |reason: String| Error::tensor(file, &array.path, reason);
        let &[found, inputs, outputs] = &array.shape[..] else {
            return Err(error(format!("expected [layers, in, out], found {:?}", array.shape)));
        };
        let known = || -> Option<(&'static str, usize)> {
            let (path, factor) = array.path.rsplit_once('/')?;
            let name = path.strip_prefix(BLOCK)?.strip_suffix("/kernel")?;
            let name = PROJECTIONS.into_iter().find(|&projection| projection == name)?;
            Some((name, ["A", "B"].into_iter().position(|letter| letter == factor)?))
        };
        let (name, factor) = known().ok_or_else(|| error("changes a tensor that adapters do not change".into()))?;
        if [outputs, inputs][factor] != rank {
            return Err(error(format!("expected rank {rank}, found shape {:?}", array.shape)));
        }
        if *layers.get_or_insert(found) != found {
            let expected = layers.unwrap_or_default();
            return Err(error(format!("{found} layers, but others have {expected}")));
        }
        if array.bytes.is_empty() || found > MAX_LAYERS {
            return Err(error(format!("shape {:?} is no model's", array.shape)));
        }
        if factors.insert((name, factor), array).is_some() {
            return Err(Error::tensor(file, name, "stored twice"));
        }
    }
    let num_layers = layers.ok_or_else(|| Error::format(file, "the adapter changes nothing"))?;
    let mut pairs = BTreeMap::new();
    for projection in PROJECTIONS {
        let (a, b) = match (factors.get(&(projection, 0)), factors.get(&(projection, 1))) {
            (None, None) => continue,
            (Some(a), Some(b)) => (a, b),
            _ => return Err(Error::tensor(file, projection, "has only one of A and B")),
        };
        for layer in 0..num_layers {
            let parts = layer_of(a, layer, num_layers).zip(layer_of(b, layer, num_layers));
            let parts = parts.ok_or_else(|| Error::tensor(file, projection, format!("ends before layer {layer}")))?;
            pairs.insert(format!("layers.{layer}.self_attn.{projection}"), parts);
        }
    }
    Ok((pairs, num_layers))
}

fn layer_of(array: &Array, layer: usize, layers: usize) -> Option<Dense> {
    let each = array.bytes.len() / layers;
    Some(Dense {
        bytes: array.bytes.slice(layer * each..(layer + 1) * each)?,
        dtype: array.dtype,
        shape: array.shape[1..].to_vec(),
        order: Order::RowMajor,
    })
}

fn check_finite(file: &Path, array: &Array) -> Result<()> {
    match values::first_not_finite(&array.bytes, array.dtype) {
        None => Ok(()),
        Some((at, value)) => Err(Error::tensor(file, &array.path, format!("value {at} is {value}"))),
    }
}
