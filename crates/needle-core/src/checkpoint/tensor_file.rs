//! A file of named float32 tensors and text: what a training run keeps of itself.

use std::{collections::BTreeMap, path::Path};

use candle_core::{DType, Device, Tensor};
use safetensors::{Dtype, tensor::TensorView};

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
        let metadata = self.metadata.iter().map(|(key, text)| (key.clone(), text.clone()));
        let bytes = serialize(&stored, metadata.collect()).map_err(|error| Error::format(path, error.to_string()))?;
        replace(path, |out| out.write_all(&bytes))
    }
}

/// A safetensors file of float32 values: name, shape, bytes.
pub(super) fn serialize(
    stored: &[(String, Vec<usize>, Vec<u8>)],
    metadata: std::collections::HashMap<String, String>,
) -> std::result::Result<Vec<u8>, safetensors::SafeTensorError> {
    let mut views = vec![];
    for (name, shape, bytes) in stored {
        views.push((name, TensorView::new(Dtype::F32, shape.clone(), bytes)?));
    }
    safetensors::serialize(views, Some(metadata))
}
