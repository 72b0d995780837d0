//! Writing an adapter: safetensors with JSON metadata, or the pickle that the reference of generation 2 reads.

use std::path::Path;

use candle_core::{DType, Device};
use serde_json::{Map, Value, json};

use super::{
    Adapter,
    adapter::{BLOCK, PROJECTIONS},
    pickle_writer::PickleWriter,
    replace::replace,
    tensor_file::serialize,
};
use crate::{
    error::{Error, Result},
    weights::Dense,
};

/// One stored array: path in the adapter's tree, shape `[layers, in, out]`, float32 values.
type Stored = (String, Vec<usize>, Vec<u8>);

impl Adapter {
    /// Writes the adapter. A name that ends in `.pkl` gets a pickle, as the Python package of generation 2 reads it; every other
    /// name gets safetensors. The file appears at `path` only when it is complete.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be written, [`Error::Tensor`] when a layer lacks a projection that others have.
    pub fn save(&self, path: &Path) -> Result<()> {
        let stored = self.stacked(path)?;
        let bytes = match path.extension() {
            Some(extension) if extension == "pkl" => self.pickle(&stored),
            _ => self.safetensors(&stored)?,
        };
        replace(path, |out| out.write_all(&bytes))
    }

    /// The factors of all layers, one array a projection and factor, in alphabetical order.
    fn stacked(&self, path: &Path) -> Result<Vec<Stored>> {
        let mut projections = PROJECTIONS;
        projections.sort_unstable();
        let mut stored = vec![];
        for projection in projections {
            let pairs: Vec<_> = (0..self.num_layers)
                .map(|layer| self.pairs.get(&format!("layers.{layer}.self_attn.{projection}")))
                .collect();
            if pairs.iter().all(Option::is_none) {
                continue;
            }
            for (factor, letter) in ["A", "B"].into_iter().enumerate() {
                let name = format!("{BLOCK}{projection}/kernel/{letter}");
                let (mut shape, mut bytes) = (vec![], vec![]);
                for pair in &pairs {
                    let missing = || Error::tensor(path, &name, "not every layer has it");
                    let &(a, b) = pair.as_ref().ok_or_else(missing)?;
                    let dense: &Dense = [a, b][factor];
                    if !shape.is_empty() && shape != dense.shape {
                        let (expected, found) = (&shape, &dense.shape);
                        return Err(Error::tensor(
                            path,
                            &name,
                            format!("expected {expected:?}, found {found:?}"),
                        ));
                    }
                    shape = dense.shape.clone();
                    let values = dense
                        .to_tensor(DType::F32, &Device::Cpu)?
                        .flatten_all()?
                        .to_vec1::<f32>()?;
                    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                }
                shape.insert(0, self.num_layers);
                stored.push((name, shape, bytes));
            }
        }
        if stored.is_empty() {
            return Err(Error::format(path, "the adapter changes nothing"));
        }
        Ok(stored)
    }

    /// Everything but the arrays.
    fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("scale".into(), json!(self.scale));
        fields.insert("base".into(), json!(self.base));
        fields.insert("rank".into(), json!(self.rank));
        fields.extend(self.extra.clone());
        fields
    }

    fn safetensors(&self, stored: &[Stored]) -> Result<Vec<u8>> {
        let mut stored: Vec<Stored> = stored
            .iter()
            .map(|(name, shape, bytes)| (format!("lora/{name}"), shape.clone(), bytes.clone()))
            .collect();
        if let Some(rows) = &self.rows {
            let values = rows
                .to_tensor(DType::F32, &Device::Cpu)?
                .flatten_all()?
                .to_vec1::<f32>()?;
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            stored.push(("rows".into(), rows.shape.clone(), bytes));
        }
        let metadata = self.fields().into_iter().map(|(key, value)| (key, value.to_string()));
        Ok(serialize(&stored, metadata.collect()))
    }

    fn pickle(&self, stored: &[Stored]) -> Vec<u8> {
        let mut pickle = PickleWriter::new();
        pickle.begin_dict();
        pickle.text("lora");
        pickle.begin_dict();
        for pair in stored.chunks(2) {
            let matrix = pair[0].0.rsplit_once('/').map_or("", |(matrix, _)| matrix);
            pickle.text(matrix);
            pickle.begin_dict();
            for (letter, (_, shape, bytes)) in ["A", "B"].into_iter().zip(pair) {
                pickle.text(letter);
                pickle.array(shape, bytes);
            }
            pickle.end_dict();
        }
        pickle.end_dict();
        let mut fields = self.fields();
        // The reference's build asks for both.
        for key in ["qat_bits", "qat_bits_map"] {
            fields.entry(key).or_insert(Value::Null);
        }
        for (key, value) in &fields {
            pickle.text(key);
            pickle.json(value);
        }
        pickle.end_dict();
        pickle.finish()
    }
}
