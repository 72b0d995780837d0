//! Safetensors files taken apart and put together again, so that tests can damage one part of them.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};
use serde_json::{Map, Value, json};

use crate::golden;

/// A file of this header and these values.
pub(super) fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// A file's header as JSON, and its values.
pub(super) struct Header {
    pub(super) entries: Map<String, Value>,
    pub(super) data: Vec<u8>,
}

impl Header {
    pub(super) fn of(relative: &str) -> Self {
        Self::parse(&golden::bytes(relative))
    }

    pub(super) fn parse(bytes: &[u8]) -> Self {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        Self {
            entries: serde_json::from_slice(&bytes[8..8 + length]).unwrap(),
            data: bytes[8 + length..].to_vec(),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        safetensors(&serde_json::to_string(&self.entries).unwrap(), &self.data)
    }

    pub(super) fn entry(&mut self, name: &str) -> &mut Value {
        self.entries.get_mut(name).unwrap()
    }

    pub(super) fn range(&self, name: &str) -> (usize, usize) {
        serde_json::from_value(self.entries[name]["data_offsets"].clone()).unwrap()
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let entry = self.entries.remove(from).unwrap();
        self.entries.insert(to.into(), entry);
    }

    pub(super) fn metadata(&mut self, key: &str, value: Option<&str>) {
        let metadata = self.entries["__metadata__"].as_object_mut().unwrap();
        match value {
            Some(value) => metadata.insert(key.into(), value.into()),
            None => metadata.remove(key),
        };
    }

    /// Takes a tensor out and closes the gap.
    pub(super) fn remove(&mut self, name: &str) {
        let (from, to) = self.range(name);
        self.entries.remove(name);
        self.data.drain(from..to);
        for (_, entry) in self.entries.iter_mut().filter(|(name, _)| *name != "__metadata__") {
            for offset in entry["data_offsets"].as_array_mut().unwrap() {
                let at = offset.as_u64().unwrap() as usize;
                *offset = json!(if at >= to { at - (to - from) } else { at });
            }
        }
    }

    /// Appends a float32 tensor of zeros.
    pub(super) fn add(&mut self, name: &str, shape: &[usize]) {
        let from = self.data.len();
        self.data.resize(from + 4 * shape.iter().product::<usize>(), 0);
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [from, self.data.len()]});
        self.entries.insert(name.into(), entry);
    }

    pub(super) fn set_value(&mut self, name: &str, place: usize, value: f32) {
        let at = self.range(name).0 + 4 * place;
        self.data[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Writes all values in another float type.
    pub(super) fn convert(&mut self, tensors: &BTreeMap<String, Tensor>, name: &str, dtype: DType) {
        let mut data = vec![];
        for (path, tensor) in tensors {
            let from = data.len();
            let flat = tensor.flatten_all().unwrap().to_dtype(dtype).unwrap();
            match dtype {
                DType::F16 => {
                    let values = flat.to_vec1::<half::f16>().unwrap();
                    data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                }
                DType::BF16 => {
                    let values = flat.to_vec1::<half::bf16>().unwrap();
                    data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                }
                _ => {
                    let values = flat.to_vec1::<f64>().unwrap();
                    data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                }
            }
            let entry = json!({"dtype": name, "shape": tensor.dims(), "data_offsets": [from, data.len()]});
            self.entries.insert(path.clone(), entry);
        }
        self.data = data;
    }
}
