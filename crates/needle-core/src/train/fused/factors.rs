//! An adapter's factors in one slice, and where each of them lies. Gradients lie in the same places.
//!
//! `A: [in, r]` is stored transposed, so that the factors of several projections of one input are one matrix.

use std::{collections::BTreeMap, ops::Range};

use super::places::Sizes;

/// Where a layer's factors lie.
#[derive(Clone, Debug)]
pub(super) struct LayerFactors {
    /// Queries, keys, values, gates: `[4r, D]`.
    pub(super) down: Range<usize>,
    /// One `[r, out]` after another.
    pub(super) up: Range<usize>,
    /// Of the attention's output: `[r, O]`.
    pub(super) out_down: Range<usize>,
    /// `[r, D]`
    pub(super) out_up: Range<usize>,
}

/// Where a factor lies, and whether as its transpose: then the columns of the original.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) range: Range<usize>,
    pub(super) transposed: Option<usize>,
}

/// Where all factors lie.
#[derive(Debug)]
pub(super) struct FactorPlaces {
    pub(super) layers: Vec<LayerFactors>,
    pub(super) by_name: BTreeMap<String, Place>,
    /// Values in all.
    pub(super) len: usize,
    pub(super) rank: usize,
}

impl FactorPlaces {
    pub(super) fn of(layers: usize, sizes: Sizes, rank: usize) -> Self {
        let mut places = Self {
            layers: vec![],
            by_name: BTreeMap::new(),
            len: 0,
            rank,
        };
        let (d, o, outputs) = (sizes.d, sizes.attended(), sizes.outputs());
        let names = ["q_proj", "k_proj", "v_proj", "gate_proj"];
        for l in 0..layers {
            let name = |leaf: &str, letter: &str| format!("layers.{l}.self_attn.{leaf}.{letter}");
            let start = places.len;
            for leaf in names {
                places.put(name(leaf, "A"), d * rank, Some(rank));
            }
            let middle = places.len;
            for (leaf, out) in names.into_iter().zip(outputs) {
                places.put(name(leaf, "B"), rank * out, None);
            }
            let end = places.len;
            let layer = LayerFactors {
                down: start..middle,
                up: middle..end,
                out_down: places.put(name("out_proj", "A"), o * rank, Some(rank)),
                out_up: places.put(name("out_proj", "B"), rank * d, None),
            };
            places.layers.push(layer);
        }
        places
    }

    fn put(&mut self, name: String, count: usize, transposed: Option<usize>) -> Range<usize> {
        let range = self.len..self.len + count;
        self.len = range.end;
        let place = Place {
            range: range.clone(),
            transposed,
        };
        self.by_name.insert(name, place);
        range
    }
}

impl Place {
    /// Puts a factor's values where they belong.
    pub(super) fn store(&self, all: &mut [f32], values: &[f32]) {
        let place = &mut all[self.range.clone()];
        match self.transposed {
            Some(columns) => transpose(place, values, columns),
            None => place.copy_from_slice(values),
        }
    }

    /// The factor's values as they are outside.
    pub(super) fn load(&self, all: &[f32]) -> Vec<f32> {
        let place = &all[self.range.clone()];
        match self.transposed {
            Some(columns) => {
                let mut values = vec![0.0; place.len()];
                transpose(&mut values, place, place.len() / columns);
                values
            }
            None => place.to_vec(),
        }
    }
}

/// `[rows, columns]` as `[columns, rows]`.
fn transpose(to: &mut [f32], from: &[f32], columns: usize) {
    let rows = from.len() / columns;
    for (row, from) in from.chunks_exact(columns).enumerate() {
        for (column, value) in from.iter().enumerate() {
            to[column * rows + row] = *value;
        }
    }
}
