//! The oracle's tensors, as they lie in the repository.

use std::{collections::HashMap, path::PathBuf};

use safetensors::{Dtype, SafeTensors};

/// The tensors of one file, by name.
pub(crate) struct Golden {
    file: String,
    floats: HashMap<String, (Vec<usize>, Vec<f32>)>,
    wholes: HashMap<String, Vec<u32>>,
    bytes: HashMap<String, Vec<u8>>,
}

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden")
        .join(file)
}

/// A JSON file of the oracle's.
pub(crate) fn json(file: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_json::from_str(&text).unwrap()
}

impl Golden {
    pub(crate) fn read(file: &str) -> Self {
        let bytes = std::fs::read(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let mut golden = Self {
            file: file.into(),
            floats: HashMap::new(),
            wholes: HashMap::new(),
            bytes: HashMap::new(),
        };
        for (name, tensor) in tensors.tensors() {
            let words = || tensor.data().chunks_exact(4).map(|word| word.try_into().unwrap());
            match tensor.dtype() {
                Dtype::F32 => {
                    let values = words().map(f32::from_le_bytes).collect();
                    golden.floats.insert(name, (tensor.shape().to_vec(), values));
                }
                Dtype::I32 => drop(golden.wholes.insert(name, words().map(u32::from_le_bytes).collect())),
                _ => drop(golden.bytes.insert(name, tensor.data().to_vec())),
            }
        }
        golden
    }

    pub(crate) fn floats(&self, name: &str) -> &[f32] {
        &self.shaped(name).1
    }

    pub(crate) fn shape(&self, name: &str) -> &[usize] {
        &self.shaped(name).0
    }

    /// Part `index` of the first axis.
    pub(crate) fn part(&self, name: &str, index: usize) -> &[f32] {
        let (shape, values) = self.shaped(name);
        let each = values.len() / shape[0];
        &values[index * each..][..each]
    }

    pub(crate) fn wholes(&self, name: &str) -> &[u32] {
        self.wholes
            .get(name)
            .unwrap_or_else(|| panic!("{}: no tensor {name}", self.file))
    }

    pub(crate) fn bytes(&self, name: &str) -> &[u8] {
        self.bytes
            .get(name)
            .unwrap_or_else(|| panic!("{}: no tensor {name}", self.file))
    }

    fn shaped(&self, name: &str) -> &(Vec<usize>, Vec<f32>) {
        self.floats
            .get(name)
            .unwrap_or_else(|| panic!("{}: no tensor {name}", self.file))
    }
}

/// `[in, out]` → `[out, in]`.
pub(crate) fn transposed(values: &[f32], rows: usize) -> Vec<f32> {
    let cols = values.len() / rows;
    (0..cols)
        .flat_map(|c| (0..rows).map(move |r| values[r * cols + c]))
        .collect()
}

#[track_caller]
pub(crate) fn close(found: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let apart = |(f, e): (&f32, &f32)| if f.is_nan() { f32::INFINITY } else { (f - e).abs() };
    let worst = found.iter().zip(expected).map(apart).fold(0.0, f32::max);
    assert!(worst <= tolerance, "{what}: {worst:e} apart, {tolerance:e} allowed");
}
