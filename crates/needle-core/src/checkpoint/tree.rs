//! A float checkpoint's parameter tree ⇄ canonical tensors: kernels `[in, out]` and stacked layers on the one side, one
//! `[out, in]` matrix a layer on the other. No value is copied: a kernel becomes a transposed view.

use std::{collections::BTreeMap, path::Path};

use candle_core::DType;

use super::{
    heads::Head,
    info::{Encoding, Record},
    layout::{self, Form, Presence, Slot},
    values,
};
use crate::{
    config::{Config, Generation},
    error::{Error, Result},
    weights::{Bytes, Dense, Order, Weight, Weights},
};

/// A float array of a file, row-major, of exactly as many bytes as its shape asks for.
pub(super) struct Array {
    /// Path in the tree, joined by `/`.
    pub(super) path: String,
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Bytes,
    /// Where the bytes lie in the file.
    pub(super) offset: Option<usize>,
}

/// What a tree holds.
pub(super) struct Contents {
    pub(super) weights: Weights,
    pub(super) records: Vec<Record>,
    pub(super) heads: Vec<&'static str>,
}

/// The family that a tree belongs to: only generation 3 has Monarch factors.
pub(super) fn generation(arrays: &[Array]) -> Generation {
    let monarch = |array: &Array| array.path == "stack/layers/block/hadamard_mlp/w1a";
    if arrays.iter().any(monarch) {
        Generation::Three
    } else {
        Generation::Two
    }
}

/// Takes every array to its canonical place.
///
/// # Errors
/// [`Error::Tensor`] for an array that is missing, of another shape than the configuration asks for, not finite, stored
/// twice, or no part of the model.
pub(super) fn read(file: &Path, arrays: Vec<Array>, config: &Config) -> Result<Contents> {
    let mut tree = Tree {
        file,
        arrays: BTreeMap::new(),
        weights: Weights::new(),
        records: vec![],
    };
    for array in arrays {
        if let Some(twice) = tree.arrays.insert(array.path.clone(), array) {
            return Err(Error::tensor(file, twice.path, "stored twice"));
        }
    }
    for slot in layout::tree(config) {
        tree.take(&slot)?;
    }
    let mut heads = vec![];
    for &head in Head::all(config.generation) {
        if tree.any_under(&head.folder()) {
            tree.take_head(head, config)?;
            heads.push(head.name());
        }
    }
    if config.generation == Generation::Two && tree.any_under("mtp_") {
        for slot in layout::next_token_block(config) {
            tree.take(&slot)?;
        }
    }
    if let Some((path, _)) = tree.arrays.pop_first() {
        let reason = format!("not a tensor of generation {}", config.generation.number());
        return Err(Error::tensor(file, path, reason));
    }
    tree.records.sort_by_key(|record| record.offset);
    Ok(Contents {
        weights: tree.weights,
        records: tree.records,
        heads,
    })
}

struct Tree<'a> {
    file: &'a Path,
    arrays: BTreeMap<String, Array>,
    weights: Weights,
    records: Vec<Record>,
}

impl Tree<'_> {
    fn any_under(&self, prefix: &str) -> bool {
        let next = self.arrays.range(prefix.to_owned()..).next();
        next.is_some_and(|(path, _)| path.starts_with(prefix))
    }

    fn take_head(&mut self, head: Head, config: &Config) -> Result<()> {
        let sizes = head.sizes(config.generation, |leaf, _, axis| {
            let (leaf, axis) = if leaf == "proj" {
                ("proj/kernel", 1)
            } else {
                (leaf, axis)
            };
            let path = head.folder() + leaf;
            let size = self.arrays.get(&path).and_then(|array| array.shape.get(axis));
            size.copied()
                .ok_or_else(|| Error::tensor(self.file, path, format!("missing, or without axis {axis}")))
        });
        let sizes = sizes.map_err(|error| error.in_file(self.file))?;
        for slot in head.slots(config, sizes).iter().chain(&head.training_slots()) {
            self.take(slot)?;
        }
        Ok(())
    }

    fn take(&mut self, slot: &Slot) -> Result<()> {
        let error = |reason| Err(Error::tensor(self.file, &slot.name, reason));
        let Some(array) = self.arrays.remove(&slot.path) else {
            return match slot.presence {
                Presence::Optional => Ok(()),
                Presence::Required => error(format!("missing; a checkpoint stores it as {}", slot.path)),
            };
        };
        let expected = slot.stored_in_tree();
        if array.shape != expected {
            return error(format!(
                "{}: expected shape {expected:?}, found {:?}",
                array.path, array.shape
            ));
        }
        if let Some((at, value)) = values::first_not_finite(&array.bytes, array.dtype) {
            return error(format!("{}: value {at} is {value}", array.path));
        }
        let layers = slot.layers.unwrap_or(1);
        let each = array.bytes.len() / layers;
        let order = if slot.form == Form::Kernel {
            Order::Transposed
        } else {
            Order::RowMajor
        };
        for (layer, name) in slot.names().enumerate() {
            let Some(bytes) = array.bytes.slice(layer * each..(layer + 1) * each) else {
                return error(format!("{}: the bytes end before layer {layer}", array.path));
            };
            let dense = Dense {
                bytes,
                dtype: array.dtype,
                shape: slot.shape.clone(),
                order,
            };
            self.weights.insert(name, Weight::Dense(dense));
        }
        self.records.push(Record {
            name: slot.name.clone(),
            encoding: Encoding::Float(array.dtype),
            shape: array.shape,
            offset: array.offset,
            size_bytes: array.bytes.len(),
        });
        Ok(())
    }
}
