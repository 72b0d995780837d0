//! The model of generation 2: tokens to logits.
//!
//! Symbols, used in every shape: `B` batch, `T` tokens, `D` width, `H` query heads, `G` key/value heads, `K` head width, `N`
//! lanes, `L` layers, `V` vocabulary, `S` slots, `W` window, `P` probes.
//!
//! `X = N copies of E[token]·√D`; every layer `X ← R·X + h_post ⊗ (Block(u) − u)` with `u = Σ h_pre X`; at the end
//! `x = zcrms(mean of lanes)`, `logits = x·Eᵀ`.

mod attention;
mod block;
mod engram;
mod heads;
mod kv_cache;
mod lanes;
mod linear;
mod loader;
mod memory;

pub(crate) use heads::{Head, unit_length};
pub(crate) use kv_cache::KvCache;
pub use kv_cache::Window;
pub(crate) use memory::{EngramMark, Memory, Sight};

use candle_core::{DType, Device, Tensor};

use self::{block::Block, engram::Engram, engram::Rows, loader::Loader};
use crate::{
    config::Config,
    error::{Error, Result},
    ops::{self, Kernels, Mask, OpForm},
    weights::Weights,
};

/// Immutable weights on one device; shared by any number of sessions through an `Arc`.
#[derive(Debug)]
pub struct Model {
    config: Config,
    device: Device,
    dtype: DType,
    /// `[V, D]`
    embedding: Tensor,
    layers: Vec<Block>,
    engrams: Vec<Engram>,
    /// `[D]`, in float32
    final_norm: Tensor,
    contrastive: Option<Head>,
    confidence: Option<Head>,
    kernels: Kernels,
}

/// What the model makes of each position at every depth.
pub(crate) struct Hidden {
    /// After the last layer and the final norm, `[B, T, D]`.
    pub(crate) last: Tensor,
    /// The embedding, then the mean of the lanes after each layer, `[B, T, D]` each; empty unless asked for.
    cells: Vec<Tensor>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cells {
    Dropped,
    Kept,
}

impl Model {
    /// Places the weights on a device, in one floating-point type.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for generation 3, [`Error::MissingTensor`] or [`Error::Shape`] when the weights do not fit the
    /// configuration, [`Error::Candle`] when the device refuses.
    pub fn load(config: &Config, weights: &Weights, dtype: DType, device: &Device) -> Result<Self> {
        Self::load_with(config, weights, dtype, device, Kernels::of(device, OpForm::default()))
    }

    /// The same with these forms of the operations.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_with(
        config: &Config,
        weights: &Weights,
        dtype: DType,
        device: &Device,
        kernels: Kernels,
    ) -> Result<Self> {
        config.expect_runnable()?;
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            return Err(Error::Unsupported(format!(
                "the model runs in f32, f16 or bf16, not in {}",
                dtype.as_str()
            )));
        }
        config.validate()?;
        let loader = Loader::new(weights, dtype, device, kernels.clone());
        let layer = |l: usize| Block::load(&loader, &format!("layers.{l}"), config, l);
        let sites = 0..config.engram.layers.len();
        Ok(Self {
            config: config.clone(),
            device: device.clone(),
            dtype,
            embedding: loader.tensor("embedding", &[config.vocab_size, config.d_model])?,
            layers: (0..config.num_layers).map(layer).collect::<Result<_>>()?,
            engrams: sites
                .map(|s| Engram::load(&loader, &format!("engrams.{s}"), config))
                .collect::<Result<_>>()?,
            final_norm: loader.float32("final_norm", &[config.d_model])?,
            contrastive: Head::load(&loader, "heads.contrastive", config.d_model)?,
            confidence: Head::load(&loader, "heads.confidence", config.d_model)?,
            kernels,
        })
    }

    /// The geometry.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where the weights lie.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The type it computes in.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Whether the weights carry a confidence head.
    pub fn has_confidence(&self) -> bool {
        self.confidence.is_some()
    }

    /// Whether the weights carry a contrastive head.
    pub fn has_contrastive(&self) -> bool {
        self.contrastive.is_some()
    }

    /// `tokens`: `B` rows of `T` ids → logits `[B, T, V]`. The mask says what each position sees; rows of padding get
    /// numbers on which nothing may depend.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when an id is outside the vocabulary or the rows differ in length.
    pub fn forward(&self, tokens: &[Vec<u32>], mask: &Mask) -> Result<Tensor> {
        let hidden = self.hidden(tokens, &mut Sight::Whole(mask.clone()), Cells::Dropped)?;
        self.logits(&hidden.last)
    }

    /// The hidden cells `[B, T, L+1, D]`: the scaled embedding, then the mean of the lanes after each layer.
    ///
    /// # Errors
    /// As [`Model::forward`].
    pub fn cells(&self, tokens: &[Vec<u32>], mask: &Mask) -> Result<Tensor> {
        let hidden = self.hidden(tokens, &mut Sight::Whole(mask.clone()), Cells::Kept)?;
        Ok(Tensor::stack(&hidden.cells, 2)?)
    }

    /// The contrastive head's unit vectors `[B, width]`, in float32; `None` where the weights have no such head.
    /// `keep[b][t]` is false for padding.
    ///
    /// # Errors
    /// As [`Model::forward`].
    pub fn contrastive(&self, tokens: &[Vec<u32>], keep: &[Vec<bool>], mask: &Mask) -> Result<Option<Tensor>> {
        let Some(head) = &self.contrastive else { return Ok(None) };
        let y = head.forward(&self.cells(tokens, mask)?, keep)?;
        Ok(Some(unit_length(&y.to_dtype(DType::F32)?)?))
    }

    /// The confidence head's logits `[B]`, in float32; `None` where the weights have no such head.
    ///
    /// # Errors
    /// As [`Model::forward`].
    pub fn confidence(&self, tokens: &[Vec<u32>], keep: &[Vec<bool>], mask: &Mask) -> Result<Option<Tensor>> {
        let Some(head) = &self.confidence else { return Ok(None) };
        let y = head.forward(&self.cells(tokens, mask)?, keep)?;
        Ok(Some(y.squeeze(1)?.to_dtype(DType::F32)?))
    }

    /// `tokens` after what a session remembers → the last layer's output `[1, T, D]`, normalised; the session remembers them.
    pub(crate) fn extend(&self, tokens: &[u32], memory: &mut Memory) -> Result<Tensor> {
        let mut sight = Sight::after(memory, tokens.len());
        let hidden = self.hidden(&[tokens.to_vec()], &mut sight, Cells::Dropped)?;
        memory.advance(tokens);
        Ok(hidden.last)
    }

    /// `x: [1, T, D]`, normalised → logits `[T][V]`.
    pub(crate) fn logits_f32(&self, x: &Tensor) -> Result<Vec<Vec<f32>>> {
        Ok(self.logits(x)?.squeeze(0)?.to_dtype(DType::F32)?.to_vec2()?)
    }

    /// `x: [B, T, D]`, normalised → logits `[B, T, V]`.
    fn logits(&self, x: &Tensor) -> Result<Tensor> {
        Ok(ops::linear(x, &self.embedding)?)
    }

    fn hidden(&self, tokens: &[Vec<u32>], sight: &mut Sight<'_>, keep: Cells) -> Result<Hidden> {
        let (b, t) = self.expect_tokens(tokens)?;
        let Config {
            d_model: d,
            mhc_lanes: n,
            ..
        } = self.config;
        let ids = Tensor::from_iter(tokens.iter().flatten().copied(), &self.device)?;
        let x0 = (self.embedding.index_select(&ids, 0)?.reshape((b, t, d))? * (d as f64).sqrt())?;
        let (first, k) = (sight.first_position(), self.config.qk_head_dim);
        let rope = self.kernels.rope(first, (b, t), k, self.config.rope_theta, &x0)?;
        let rows = match self.engrams.is_empty() {
            true => None,
            false => Some(Rows::look_up(&self.config, tokens, sight, &x0)?),
        };
        let mut x = lanes::spread(&x0, n)?;
        let mut cells = Vec::new();
        if keep == Cells::Kept {
            cells.push(x0);
        }
        for (l, layer) in self.layers.iter().enumerate() {
            let site = self.config.engram.layers.iter().position(|&at| at == l);
            let recall = match (site, &rows) {
                (Some(s), Some(rows)) => Some(self.engrams[s].recall(s, rows, sight)?),
                _ => None,
            };
            x = layer.forward(&x, l, recall.as_ref(), &rope, sight)?;
            if keep == Cells::Kept {
                cells.push(lanes::gather(&x)?);
            }
        }
        let last = self.kernels.rms_norm(&lanes::gather(&x)?, &self.final_norm)?;
        Ok(Hidden { last, cells })
    }

    /// Refuses what is no batch of tokens; otherwise its sizes.
    pub(crate) fn expect_tokens<R: AsRef<[u32]>>(&self, tokens: &[R]) -> Result<(usize, usize)> {
        let mut rows = tokens.iter().map(AsRef::as_ref);
        let t = rows.next().map_or(0, <[u32]>::len);
        if t == 0 {
            return Err(Error::Unsupported("the model needs at least one token".into()));
        }
        if let Some(other) = rows.find(|row| row.len() != t) {
            let other = other.len();
            return Err(Error::Unsupported(format!(
                "the rows of a batch must be padded to one length: {t} and {other}"
            )));
        }
        let vocabulary = self.config.vocab_size;
        match tokens
            .iter()
            .flat_map(AsRef::as_ref)
            .find(|&&id| id as usize >= vocabulary)
        {
            Some(id) => Err(Error::Unsupported(format!(
                "token id {id} is outside the vocabulary of {vocabulary}"
            ))),
            None => Ok((tokens.len(), t)),
        }
    }
}
