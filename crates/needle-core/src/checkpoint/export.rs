//! A checkpoint made ready for an archive, and the archive's file.

use std::path::{Path, PathBuf};

use super::{Checkpoint, bit_map::BitMap, bit_map::expect_writable, cact, replace::replace};
use crate::{
    error::{Error, Result},
    tokenizer::Tokenizer,
    weights::{Bytes, Weights},
};

/// An archive that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub size_bytes: usize,
    /// Tensors in it, the tokenizer included.
    pub tensors: usize,
    /// Bits that a value of a matrix takes on average, with its share of the norms.
    pub bits_per_value: f64,
}

impl Checkpoint {
    /// Writes a generation-2 archive with the matrices packed as `map` says, heads and tokenizer included where there are any.
    /// The bytes are those of the published exporter. Matrices of an archive that have their width already keep their codes.
    /// The file appears at `path` only when it is complete.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be written; [`Error::Tensor`] when a tensor is missing, of another shape than the
    /// configuration asks for, without a place in the format, or has values that float16 does not hold; [`Error::Tokenizer`]
    /// for a tokenizer of another size than the model; [`Error::Unsupported`] for generation 3.
    pub fn save_cact(&self, path: &Path, map: &BitMap) -> Result<Written> {
        self.save_cact_watched(path, map, &mut |_, _| {})
    }

    /// The same; `progress` hears how many values are done, and of how many.
    ///
    /// # Errors
    /// As [`Checkpoint::save_cact`].
    pub fn save_cact_watched(
        &self,
        path: &Path,
        map: &BitMap,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Written> {
        expect_writable(&self.config)?;
        let archive = cact::archive(self, map, progress)?;
        let (size_bytes, tensors) = (archive.bytes.len(), archive.tensors);
        let bits_per_value = (8 * archive.packed_bytes) as f64 / archive.packed_values as f64;
        // What we could not read again must not get a name.
        let bytes = Bytes::new(archive.bytes);
        cact::read(bytes.clone(), path)?;
        replace(path, |out| out.write_all(&bytes))?;
        Ok(Written {
            path: path.into(),
            size_bytes,
            tensors,
            bits_per_value,
        })
    }

    /// The archive that [`Checkpoint::save_cact`] would write, opened without a file.
    ///
    /// # Errors
    /// As [`Checkpoint::save_cact`], files excepted.
    pub fn packed(&self, map: &BitMap) -> Result<Self> {
        expect_writable(&self.config)?;
        let archive = cact::archive(self, map, &mut |_, _| {})?;
        cact::read(Bytes::new(archive.bytes), &self.path)
    }

    /// The same model with another tokenizer: float checkpoints carry none.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] when the tokenizer has not one piece for each row of the embedding.
    pub fn with_tokenizer(&self, tokenizer: &Tokenizer) -> Result<Self> {
        let (pieces, rows) = (tokenizer.vocab_size(), self.config.vocab_size);
        if pieces != rows {
            return Err(Error::Tokenizer(format!(
                "{pieces} pieces, but the model's embedding has {rows} rows"
            )));
        }
        let mut model = self.clone();
        model.tokenizer_blob = Some(Bytes::new(tokenizer.to_archive_blob()));
        Ok(model)
    }

    /// The same model without its probe heads: no confidence, no retrieval.
    pub fn without_heads(&self) -> Self {
        let mut model = self.clone();
        model.weights = Weights::new();
        for (name, weight) in self.weights.iter().filter(|(name, _)| !name.starts_with("heads.")) {
            model.weights.insert(name, weight.clone());
        }
        model.format.heads.clear();
        model
    }
}
