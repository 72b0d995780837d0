//! A file of named float32 tensors and text: what a training run keeps of itself.

use std::{collections::BTreeMap, path::Path};

use candle_core::{DType, Device, Tensor};
use serde_json::{Map, Value, json};

use super::{
    replace::replace,
    safetensors::{Contents, is_it, read},
};
use crate::{
    error::{Error, Result},
    weights::Bytes,
};

/// Named tensors and text.
pub(crate) struct NamedTensors {
    pub(crate) tensors: BTreeMap<String, Tensor>,
    pub(crate) metadata: BTreeMap<String, String>,
}

impl NamedTensors {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let bytes = Bytes::map(path)?;
        if !is_it(&bytes) {
            return Err(Error::format(path, "not a safetensors file"));
        }
        let Contents { arrays, metadata } = read(&bytes, path)?;
        let mut tensors = BTreeMap::new();
        for array in arrays {
            let tensor = Tensor::from_raw_buffer(&array.bytes, array.dtype, &array.shape, &Device::Cpu)?;
            tensors.insert(array.path, tensor);
        }
        Ok(Self { tensors, metadata })
    }

    /// The file appears at `path` only when it is complete.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let mut stored = vec![];
        for (name, tensor) in &self.tensors {
            let values = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            stored.push((name.clone(), tensor.dims().to_vec(), bytes));
        }
        let bytes = serialize(&stored, self.metadata.clone());
        replace(path, |out| out.write_all(&bytes))
    }
}

/// A safetensors file of float32 values: name, shape, bytes. The same contents give the same bytes.
pub(super) fn serialize(stored: &[(String, Vec<usize>, Vec<u8>)], metadata: BTreeMap<String, String>) -> Vec<u8> {
    let mut header = Map::new();
    header.insert("__metadata__".into(), json!(metadata));
    let mut end = 0;
    for (name, shape, bytes) in stored {
        let start = end;
        end += bytes.len();
        let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, end] });
        header.insert(name.clone(), entry);
    }
    let mut header = Value::Object(header).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(ALIGNMENT) - header.len()));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    stored.iter().for_each(|(.., bytes)| file.extend(bytes));
    file
}

/// The data begins at a multiple of this.
const ALIGNMENT: usize = 8;
