//! Named tensors of a model, dense or packed, as slices of the file they came from.
//!
//! Knows no file format: the readers under `checkpoint/` fill it, the model reads it. Names are canonical, one layer at a
//! time, matrices always `[out, in]`:
//!
//! ```text
//! embedding                                    [V, D]
//! layers.{l}.norm_in | post_attn_norm | pre_hada_norm   [D]
//! layers.{l}.self_attn.q_proj | k_proj | v_proj | gate_proj | out_proj   [out, in]
//! layers.{l}.self_attn.q_norm | k_norm         [K]
//! layers.{l}.attn_gate                         []
//! layers.{l}.hadamard_mlp.d1 | d2 | d3         [m]
//! layers.{l}.mhc.a_pre | a_post | a_res        []
//! layers.{l}.mhc.b_pre | b_post                [N]
//! layers.{l}.mhc.b_res                         [N, N]
//! layers.{l}.mhc.phi_pre | phi_post            [N, N·D]
//! layers.{l}.mhc.phi_res                       [N·N, N·D]
//! engrams.{s}.tables                           [tables·S, sub_dim]
//! engrams.{s}.key_proj | value_proj            [D, D]
//! engrams.{s}.taps                             [4, D]
//! final_norm                                   [D]
//! heads.contrastive.probes | proj | bias?      [P, D] | [width, P·D] | [width]
//! heads.confidence.probes | proj | bias        [P, D] | [1, P·D] | [1]
//! ```
//! Generation 3 has besides, with `m = a·b` the Monarch factors, `k` probes a row and `q` queries of a head:
//!
//! ```text
//! layers.{l}.self_attn.q_taps | k_taps | v_taps         [taps, out]   (only where the configuration has taps)
//! layers.{l}.hadamard_mlp.b2 | d4              [m]
//! layers.{l}.hadamard_mlp.w1a | w2a | w3a      [a, a]
//! layers.{l}.hadamard_mlp.w1b | w2b | w3b      [b, b]
//! layers.{l}.hadamard_mlp.cond_v | cond_u      [D, 8] | [8, m]
//! hadamard_mlp.p1 | p2                         [m]           (archives; otherwise they follow from the configuration)
//! heads.{embedding, confidence, router}.probes | query  [(L+1)·k, D] | [q, D]
//! heads.{…}.gain | row_bias                    [L+1, k] | [q, L+1, k]
//! heads.{…}.proj | bias                        [width, q·D] | [width]   (heads.embedding.bias only in archives)
//! heads.router.calibration?                    [3]
//! ```
//! `?` marks what may be absent. Tensors that only training uses keep their place under `mtp.block.…` (as a layer),
//! `mtp.combine` `[D, 2·D]`, `mtp.emb_norm`, `mtp.final_norm`, and `heads.{contrastive, embedding}.log_temp | pair_bias` `[]`.

use std::{collections::BTreeMap, fmt, fs::File, ops::Range, path::Path, sync::Arc};

use candle_core::{DType, Device, Tensor};

use crate::{
    error::{Error, Result},
    quant::Packed,
};

/// A shared, immutable slice of a file or of memory. Cloning copies no bytes.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<Owner>,
    range: Range<usize>,
}

enum Owner {
    Map(memmap2::Mmap),
    Memory(Box<dyn AsRef<[u8]> + Send + Sync>),
}

impl Owner {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Map(map) => map,
            Self::Memory(memory) => (**memory).as_ref(),
        }
    }
}

impl Bytes {
    /// Maps a file into memory; pages are read when they are used.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be opened or mapped.
    pub fn map(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|source| Error::io(path, source))?;
        let metadata = file.metadata().map_err(|source| Error::io(path, source))?;
        if metadata.is_dir() {
            return Err(Error::format(path, "expected a file, found a directory"));
        }
        if metadata.len() == 0 {
            return Err(Error::format(path, "the file is empty"));
        }
        // SAFETY: the map is read-only and private to this process. A file that another program truncates while it is
        // mapped would fault, as with every memory-mapped reader; the project's own writers replace files by renaming.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|source| Error::io(path, source))?;
        Ok(Self {
            range: 0..map.len(),
            owner: Arc::new(Owner::Map(map)),
        })
    }

    /// Takes ownership of any buffer.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        let range = 0..owner.as_ref().len();
        Self {
            owner: Arc::new(Owner::Memory(Box::new(owner))),
            range,
        }
    }

    /// A part of this slice, `None` where it reaches beyond the end.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.range.len() {
            return None;
        }
        let start = self.range.start + range.start;
        Some(Self {
            owner: self.owner.clone(),
            range: start..start + range.len(),
        })
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.owner.bytes()[self.range.clone()]
    }

    /// Says that these bytes will not be read again soon: where they are a file's, the system may use their memory for
    /// something else. They stay what they are.
    pub fn release(&self) {
        #[cfg(unix)]
        if let Owner::Map(map) = &*self.owner
            && !self.range.is_empty()
        {
            // SAFETY: the map is a read-only view of a file, so a page that is dropped is read from the file again.
            // A refusal leaves everything as it was.
            let _ = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, self.range.start, self.range.len())
            };
        }
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.range.len())
    }
}

/// How a dense matrix lies in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As its shape says.
    RowMajor,
    /// Last two axes swapped: a checkpoint's kernel `[in, out]` seen as `[out, in]`.
    Transposed,
}

/// A float tensor in little-endian bytes.
#[derive(Clone, Debug)]
pub struct Dense {
    /// The values.
    pub bytes: Bytes,
    /// `F32`, `F16`, `BF16` or `F64`.
    pub dtype: DType,
    /// The logical shape.
    pub shape: Vec<usize>,
    /// How the values lie in `bytes`.
    pub order: Order,
}

impl Dense {
    /// A row-major float32 tensor of these values.
    pub fn from_f32(values: &[f32], shape: &[usize]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self {
            bytes: Bytes::new(bytes),
            dtype: DType::F32,
            shape: shape.to_vec(),
            order: Order::RowMajor,
        }
    }

    /// The values as a contiguous tensor of the logical shape.
    ///
    /// # Errors
    /// [`Error::Candle`] when the bytes do not hold the shape or the device refuses.
    pub fn to_tensor(&self, dtype: DType, device: &Device) -> Result<Tensor> {
        let mut stored = self.shape.clone();
        if let (Order::Transposed, [.., rows, cols]) = (self.order, &mut stored[..]) {
            std::mem::swap(rows, cols);
        }
        let tensor = Tensor::from_raw_buffer(&self.bytes, self.dtype, &stored, &Device::Cpu)?.to_dtype(dtype)?;
        let tensor = match self.order {
            Order::Transposed if stored.len() > 1 => tensor.t()?.contiguous()?,
            _ => tensor,
        };
        Ok(tensor.to_device(device)?)
    }
}

/// One tensor: float values, or rows of a Cactus-quantised matrix.
#[derive(Clone, Debug)]
pub enum Weight {
    /// Float values.
    Dense(Dense),
    /// Packed codes with one norm a group, `[rows, cols]`.
    Packed(Packed),
}

impl Weight {
    /// The logical shape.
    pub fn shape(&self) -> Vec<usize> {
        match self {
            Self::Dense(dense) => dense.shape.clone(),
            Self::Packed(packed) => vec![packed.rows(), packed.cols()],
        }
    }

    /// Bytes that the values take where they lie.
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Dense(dense) => dense.bytes.len(),
            Self::Packed(packed) => packed.size_bytes(),
        }
    }

    /// Says that the values will not be read again soon, see [`Bytes::release`].
    pub fn release(&self) {
        match self {
            Self::Dense(dense) => dense.bytes.release(),
            Self::Packed(packed) => packed.release(),
        }
    }

    /// The values as a contiguous tensor of the logical shape; packed ones are widened.
    ///
    /// # Errors
    /// [`Error::Candle`] when the device refuses.
    pub fn to_tensor(&self, dtype: DType, device: &Device) -> Result<Tensor> {
        match self {
            Self::Dense(dense) => dense.to_tensor(dtype, device),
            Self::Packed(packed) => {
                let values = packed.dequantize();
                let tensor = Tensor::from_vec(values, (packed.rows(), packed.cols()), &Device::Cpu)?;
                Ok(tensor.to_dtype(dtype)?.to_device(device)?)
            }
        }
    }
}

/// All tensors of a model by canonical name.
#[derive(Clone, Debug, Default)]
pub struct Weights(BTreeMap<String, Weight>);

impl Weights {
    /// No tensors yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a tensor.
    pub fn insert(&mut self, name: impl Into<String>, weight: Weight) {
        self.0.insert(name.into(), weight);
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// [`Error::MissingTensor`].
    pub fn get(&self, name: &str) -> Result<&Weight> {
        self.0
            .get(name)
            .ok_or_else(|| Error::MissingTensor { name: name.to_owned() })
    }

    /// The tensor of this name where the model has one.
    pub fn find(&self, name: &str) -> Option<&Weight> {
        self.0.get(name)
    }

    /// Whether a tensor of this name is here.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and tensors in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Weight)> {
        self.0.iter().map(|(name, weight)| (name.as_str(), weight))
    }

    /// The tensor of this name, of exactly this shape.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::Shape`].
    pub fn tensor(&self, name: &str, shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
        let weight = self.get(name)?;
        if weight.shape() != shape {
            return Err(Error::Shape {
                name: name.to_owned(),
                expected: shape.to_vec(),
                found: weight.shape(),
            });
        }
        weight.to_tensor(dtype, device)
    }
}
