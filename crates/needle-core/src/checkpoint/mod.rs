//! Files ⇄ configuration and weights. What a file is, its content says, never its name.
//!
//! | content | read by | written by |
//! | --- | --- | --- |
//! | `.cact` archive of generation 2 or 3 | `cact` | `export`, `cact/write` (generation 2) |
//! | float checkpoint, safetensors | `safetensors`, `float`, `tree` | `save` |
//! | float checkpoint, Python pickle | `pickle`, `float`, `tree` | – |
//! | adapter, safetensors or pickle | `adapter` (`merge` puts it into weights) | `save_adapter`, `pickle_writer` |
//! | state of a training run, safetensors | `tensor_file` | `tensor_file` |
//!
//! `layout` and `heads` list the tensors of a geometry; readers and writer walk the same lists.
//!
//! Readers map the file and slice it; a tensor is widened when the model asks for it. Before anything is allocated, the
//! sizes that a file states are compared with the file's own.

mod adapter;
mod bit_map;
mod cact;
mod export;
mod float;
mod heads;
mod info;
mod layout;
mod merge;
mod pickle;
mod pickle_writer;
mod provenance;
mod python_json;
mod replace;
mod safetensors;
mod save;
mod save_adapter;
mod tensor_file;
mod tree;
mod values;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

pub use adapter::Adapter;
pub use bit_map::BitMap;
pub use export::Written;
pub use info::{Encoding, FormatInfo, FormatKind, Record};
pub(crate) use layout::shapes;
pub use provenance::{FileMark, Provenance};
pub(crate) use replace::replace;
pub(crate) use tensor_file::NamedTensors;

use crate::{
    config::Config,
    error::{Error, Result},
    tokenizer::Tokenizer,
    weights::{Bytes, Weights},
};

/// A model as a file holds it.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The geometry.
    pub config: Config,
    /// The tensors, where they lie in the file.
    pub weights: Weights,
    /// An archive's tokenizer as it is stored; absent in float checkpoints and some archives.
    pub tokenizer_blob: Option<Bytes>,
    /// What the file says of itself.
    pub format: FormatInfo,
    /// Text metadata of a safetensors file besides what has a field here.
    pub metadata: BTreeMap<String, String>,
    /// Where it came from.
    pub path: PathBuf,
}

impl Checkpoint {
    /// Opens a checkpoint or archive. The file is mapped, so it may be deleted or replaced afterwards (not shortened).
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read, [`Error::Format`] or [`Error::Tensor`] when it is damaged or no
    /// checkpoint.
    pub fn open(path: &Path) -> Result<Self> {
        Self::from_bytes(Bytes::map(path)?, path)
    }

    /// Reads a checkpoint or archive that lies in memory; errors call it `label`.
    ///
    /// # Errors
    /// [`Error::Format`] or [`Error::Tensor`] when it is damaged or no checkpoint.
    pub fn from_bytes(bytes: Bytes, label: &Path) -> Result<Self> {
        match Container::of(&bytes, label)? {
            Container::Cact => cact::read(bytes, label),
            Container::Safetensors => float::read_safetensors(bytes, label),
            Container::Pickle => float::read_pickle(bytes, label),
        }
    }

    /// The small generation-2 model inside the library: see `assets/README.md` for what it can do.
    ///
    /// # Errors
    /// As [`Checkpoint::from_bytes`]; the library's tests open it.
    pub fn demo() -> Result<Self> {
        Self::from_bytes(Bytes::new(DEMO), Path::new("demo"))
    }

    /// The tokenizer inside.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] when the file has none, or a damaged one.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        match &self.tokenizer_blob {
            Some(blob) => Tokenizer::from_archive_blob(blob),
            None => Err(Error::Tokenizer(format!("{} carries none", self.path.display()))),
        }
    }

    /// Writes a float checkpoint in the reference's layout: a file that was read from a float checkpoint keeps the bytes of
    /// every tensor, packed matrices of an archive are widened to float32. The tokenizer has no place in this layout and
    /// stays behind. The file appears at `path` only when it is complete.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be written, [`Error::Tensor`] when a tensor is missing, of another shape than the
    /// configuration asks for, or without a place in the layout.
    pub fn save_safetensors(&self, path: &Path) -> Result<()> {
        save::write(self, path)
    }
}

/// The demo model's archive.
static DEMO: &[u8] = include_bytes!("../../assets/demo.cact");

/// What a file is.
enum Container {
    Cact,
    Safetensors,
    Pickle,
}

impl Container {
    fn of(bytes: &[u8], file: &Path) -> Result<Self> {
        if cact::is_it(bytes) {
            Ok(Self::Cact)
        } else if safetensors::is_it(bytes) {
            Ok(Self::Safetensors)
        } else if pickle::is_it(bytes) {
            Ok(Self::Pickle)
        } else {
            Err(Error::format(file, unknown(bytes)))
        }
    }
}

fn unknown(bytes: &[u8]) -> String {
    if let Some(reason) = cact::near_miss(bytes) {
        return reason;
    }
    let found = match bytes {
        [] => "an empty file".into(),
        [b'P', b'K', 3, 4, ..] => "a zip archive, perhaps of PyTorch".into(),
        [b'G', b'G', b'U', b'F', ..] => "a GGUF file".into(),
        [b'v', b'e', b'r', b's', b'i', b'o', b'n', b' ', ..] => "a Git LFS pointer: fetch the file itself".into(),
        [b'<', ..] => "a web page, not the file it was to be".into(),
        _ => format!(
            "a file that begins with the bytes {:02x?}",
            &bytes[..bytes.len().min(4)]
        ),
    };
    format!("found {found}; expected a .cact archive, a safetensors checkpoint or a pickle")
}
