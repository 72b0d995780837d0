//! The architecture's numbers, of both generations: fields, derived sizes, validation.
//!
//! The names are the reference's (`TransformerConfig`), so that a checkpoint's own JSON is read and written without a
//! table of synonyms. A checkpoint may leave fields out; the defaults here are the ones its loader uses.

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// Which family a checkpoint belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Needle 2: Walsh-Hadamard MLP, one head width.
    Two,
    /// Needle 3: Monarch MLP, two head widths, q/k/v taps, a ladder of depths.
    Three,
}

impl Generation {
    /// 2 or 3.
    pub fn number(self) -> u32 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// The hashed n-gram memory's geometry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngramConfig {
    /// Lengths of the hashed n-grams.
    pub orders: Vec<usize>,
    /// Tables per order.
    pub heads: usize,
    /// The hash's stride between orders where it differs from `heads` (a width rung of generation 3).
    pub seed_heads: Option<usize>,
    /// Rows per table.
    pub slots: usize,
    /// Layers with a site, ascending.
    pub layers: Vec<usize>,
}

/// Geometry of one model. Shapes: `D` = `d_model`, `H` = `num_heads`, `G` = `num_kv_heads`, `L` = `num_layers`,
/// `N` = `mhc_lanes`, `V` = `vocab_size`, `S` = `engram.slots`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The family.
    pub generation: Generation,
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// Rows of the embedding that logits are made of; equals `vocab_size` unless a generation-3 file says otherwise.
    pub out_vocab: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Query heads.
    pub num_heads: usize,
    /// Key/value heads.
    pub num_kv_heads: usize,
    /// Layers.
    pub num_layers: usize,
    /// Width of a query or key head.
    pub qk_head_dim: usize,
    /// Width of a value head.
    pub v_head_dim: usize,
    /// Longest sequence, in tokens.
    pub max_seq_len: usize,
    /// Base of the rotary angles.
    pub rope_theta: f64,
    /// Copies of the residual stream.
    pub mhc_lanes: usize,
    /// Id that fills a row of a batch.
    pub pad_token_id: u32,
    /// The n-gram memory.
    pub engram: EngramConfig,
    /// Key/value window asked for, in tokens; 0 asks for as many as the budget allows.
    pub kv_window: usize,
    /// Bits of a cached key or value in deployment.
    pub kv_bits: usize,
    /// Bits per weight that the checkpoint was trained for, in the reference's spelling; empty for the default.
    pub weight_bits: String,
    /// Local attention span of generation 3; 0 for none.
    pub sliding_window: usize,
    /// Generation-3 layers that see everything.
    pub global_layers: Vec<usize>,
    /// Causal taps on q, k and v (generation 3).
    pub qkv_conv_taps: usize,
    /// Depths that a generation-3 checkpoint was trained to be cut to.
    pub ladder_depths: Vec<usize>,
    /// Widths that a generation-3 checkpoint was trained to be cut to.
    pub ladder_widths: Vec<usize>,
    /// A stored order of the ladder's layers; empty for the computed one.
    pub ladder_order: Vec<usize>,
    /// Every field as the checkpoint spelt it, for writing it back unchanged.
    pub source: Map<String, Value>,
}

/// Filter taps of an engram value: the present and three earlier positions.
pub const ENGRAM_TAPS: usize = 4;

const KV_BUDGET_BYTES: usize = 11 * (1 << 20) + (1 << 19);
const KV_GROUP: usize = 32;
const KV_WINDOW_MIN: usize = 160;

// Far above any published geometry, low enough that no product of two overflows or asks for absurd memory.
const MAX_DIMENSION: usize = 1 << 20;
const MAX_LAYERS: usize = 512;

impl Config {
    /// Reads the reference's JSON fields; absent ones take the loader's defaults.
    ///
    /// # Errors
    /// [`Error::Config`] names the field that is missing, of the wrong type, or impossible.
    pub fn from_json(fields: &Map<String, Value>, generation: Generation) -> Result<Self> {
        let three = generation == Generation::Three;
        let read = Fields(fields);
        let d_model = read.size("d_model", if three { 768 } else { 512 })?;
        let num_heads = read.size("num_heads", if three { 12 } else { 8 })?;
        if num_heads == 0 {
            return Err(Error::config("num_heads", "expected at least 1, found 0"));
        }
        let attn_dim = if three {
            d_model
        } else {
            or_default(read.size("attn_dim", 0)?, d_model)
        };
        let vocab_size = read.size("vocab_size", if three { 16384 } else { 8192 })?;
        let orders = read.sizes("engram_orders", &[2, 3])?;
        if orders.is_empty() {
            return Err(Error::config(
                "engram_orders",
                "expected at least one order, found none",
            ));
        }
        let heads = or_default(read.size("engram_heads", 0)?, (d_model / (orders.len() * 128)).max(1));
        let seed_heads = read.size("engram_seed_heads", 0)?;
        let config = Self {
            generation,
            vocab_size,
            out_vocab: or_default(read.size("out_vocab", 0)?, vocab_size),
            d_model,
            num_heads,
            num_kv_heads: read.size("num_kv_heads", if three { 2 } else { 4 })?,
            num_layers: read.size("num_layers", if three { 20 } else { 12 })?,
            qk_head_dim: or_default(read.size("qk_head_dim", 0)?, attn_dim / num_heads),
            v_head_dim: or_default(read.size("v_head_dim", 0)?, attn_dim / num_heads),
            max_seq_len: read.size("max_seq_len", if three { 4096 } else { 2048 })?,
            rope_theta: read.number("rope_theta", 100_000.0)?,
            mhc_lanes: read.size("mhc_lanes", 4)?,
            pad_token_id: read.size("pad_token_id", 0)? as u32,
            engram: EngramConfig {
                orders,
                heads,
                seed_heads: (seed_heads != 0).then_some(seed_heads),
                slots: read.size("engram_slots", if three { 18432 } else { 8192 })?,
                layers: read.sizes("engram_layers", if three { &[3, 7, 11, 15, 19] } else { &[2, 15] })?,
            },
            kv_window: read.size("kv_window", 0)?,
            kv_bits: read.size("kv_bits", 8)?,
            weight_bits: read.text("weight_bits")?,
            sliding_window: read.size("sliding_window", 0)?,
            global_layers: read.sizes("global_layers", &[])?,
            qkv_conv_taps: read.size("qkv_conv_taps", 0)?,
            ladder_depths: read.sizes("ladder_depths", &[])?,
            ladder_widths: read.sizes("ladder_widths", &[])?,
            ladder_order: read.sizes("ladder_order", &[])?,
            source: fields.clone(),
        };
        config.validate()?;
        Ok(config)
    }

    /// Refuses models that can be opened but not run yet.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for generation 3.
    pub fn expect_runnable(&self) -> Result<()> {
        match self.generation {
            Generation::Two => Ok(()),
            Generation::Three => Err(Error::Unsupported(
                "this is a Needle 3 model: it can be inspected, but running it comes with the Needle 3 work".into(),
            )),
        }
    }

    /// The fields as the reference's checkpoints spell them: the source's own, or those of this geometry.
    pub fn to_json(&self) -> Map<String, Value> {
        if !self.source.is_empty() {
            return self.source.clone();
        }
        let mut fields = Map::new();
        let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
        put("vocab_size", json!(self.vocab_size));
        put("d_model", json!(self.d_model));
        put("num_heads", json!(self.num_heads));
        put("num_kv_heads", json!(self.num_kv_heads));
        put("num_layers", json!(self.num_layers));
        put("max_seq_len", json!(self.max_seq_len));
        put("pad_token_id", json!(self.pad_token_id));
        put("rope_theta", json!(self.rope_theta));
        put("engram_orders", json!(self.engram.orders));
        put("engram_heads", json!(self.engram.heads));
        put("engram_slots", json!(self.engram.slots));
        put("engram_layers", json!(self.engram.layers));
        put("mhc_lanes", json!(self.mhc_lanes));
        put("kv_window", json!(self.kv_window));
        put("kv_bits", json!(self.kv_bits));
        put("weight_bits", json!(self.weight_bits));
        match self.generation {
            Generation::Two => {
                put("attn_dim", json!(self.q_dim()));
            }
            Generation::Three => {
                put("qk_head_dim", json!(self.qk_head_dim));
                put("v_head_dim", json!(self.v_head_dim));
                put(
                    "out_vocab",
                    json!(if self.out_vocab == self.vocab_size {
                        0
                    } else {
                        self.out_vocab
                    }),
                );
                put("engram_seed_heads", json!(self.engram.seed_heads.unwrap_or(0)));
                put("global_layers", json!(self.global_layers));
                put("sliding_window", json!(self.sliding_window));
                put("qkv_conv_taps", json!(self.qkv_conv_taps));
                put("ladder_depths", json!(self.ladder_depths));
                put("ladder_widths", json!(self.ladder_widths));
                put("ladder_order", json!(self.ladder_order));
            }
        }
        fields
    }

    /// `H·K`: width of all query heads together.
    pub fn q_dim(&self) -> usize {
        self.num_heads * self.qk_head_dim
    }

    /// `G·K`: width of all key heads together.
    pub fn k_dim(&self) -> usize {
        self.num_kv_heads * self.qk_head_dim
    }

    /// Width of all value heads together.
    pub fn v_dim(&self) -> usize {
        self.num_kv_heads * self.v_head_dim
    }

    /// Width of the attention's output before its projection, also of the gate.
    pub fn out_dim(&self) -> usize {
        self.num_heads * self.v_head_dim
    }

    /// Size of the Hadamard (or Monarch) mix: the next power of two from `D` on.
    pub fn hada_n(&self) -> usize {
        self.d_model.next_power_of_two()
    }

    /// Hash tables per engram site.
    pub fn engram_tables(&self) -> usize {
        self.engram.orders.len() * self.engram.heads
    }

    /// Width of a hash table's row.
    pub fn engram_sub_dim(&self) -> usize {
        self.d_model / self.engram_tables()
    }

    /// Positions between two taps of an engram value's filter.
    pub fn engram_dilation(&self) -> usize {
        self.engram.orders.iter().copied().max().unwrap_or(1)
    }

    /// Earlier tokens that one position's engram values depend on.
    pub fn engram_reach(&self) -> usize {
        if self.engram.layers.is_empty() {
            0
        } else {
            ENGRAM_TAPS * self.engram_dilation()
        }
    }

    /// Positions a session keeps in its cache: the asked window, at most what the deployment's memory budget holds.
    ///
    /// A position costs, for every layer, its keys and values as int8 with one f32 scale a group of 32, and the same for
    /// the engram value of every site; the budget is 11.5 MiB, the window a multiple of 32, at least 160, at most
    /// `max_seq_len` (but never below that floor).
    pub fn effective_kv_window(&self) -> usize {
        let stored = |width: usize| width + width / KV_GROUP * size_of::<f32>();
        let position = self.num_layers * (stored(self.k_dim()) + stored(self.v_dim()))
            + self.engram.layers.len() * stored(self.d_model);
        let budget = (KV_BUDGET_BYTES / position / KV_GROUP * KV_GROUP)
            .min(self.max_seq_len)
            .max(KV_WINDOW_MIN);
        if self.kv_window == 0 {
            budget
        } else {
            budget.min(self.kv_window)
        }
    }

    /// Refuses geometries that no tensor could have, before anything is allocated by them.
    ///
    /// # Errors
    /// [`Error::Config`] names the first impossible field.
    pub fn validate(&self) -> Result<()> {
        let sizes: [(&'static str, usize); 11] = [
            ("vocab_size", self.vocab_size),
            ("d_model", self.d_model),
            ("num_heads", self.num_heads),
            ("num_kv_heads", self.num_kv_heads),
            ("num_layers", self.num_layers),
            ("qk_head_dim", self.qk_head_dim),
            ("v_head_dim", self.v_head_dim),
            ("max_seq_len", self.max_seq_len),
            ("mhc_lanes", self.mhc_lanes),
            ("engram_heads", self.engram.heads),
            ("engram_slots", self.engram.slots),
        ];
        for (field, value) in sizes {
            let limit = if field == "num_layers" {
                MAX_LAYERS
            } else {
                MAX_DIMENSION
            };
            if value == 0 || value > limit {
                return Err(Error::config(field, format!("expected 1 to {limit}, found {value}")));
            }
        }
        if !self.num_heads.is_multiple_of(self.num_kv_heads) {
            let (h, g) = (self.num_heads, self.num_kv_heads);
            return Err(Error::config(
                "num_kv_heads",
                format!("{h} query heads cannot share {g} key/value heads"),
            ));
        }
        if self.num_heads * self.qk_head_dim.max(self.v_head_dim) > MAX_DIMENSION {
            return Err(Error::config(
                "num_heads",
                "the heads together are wider than any model",
            ));
        }
        if !self.qk_head_dim.is_multiple_of(2) {
            return Err(Error::config(
                "qk_head_dim",
                format!("rotary halves need an even width, found {}", self.qk_head_dim),
            ));
        }
        if self.mhc_lanes > 64 {
            return Err(Error::config(
                "mhc_lanes",
                format!("expected at most 64, found {}", self.mhc_lanes),
            ));
        }
        if !(self.rope_theta.is_finite() && self.rope_theta > 0.0) {
            return Err(Error::config(
                "rope_theta",
                format!("expected a positive number, found {}", self.rope_theta),
            ));
        }
        if self.out_vocab > self.vocab_size {
            return Err(Error::config(
                "out_vocab",
                format!("{} is above vocab_size {}", self.out_vocab, self.vocab_size),
            ));
        }
        if self.engram.orders.iter().any(|&order| order == 0 || order > 16) {
            return Err(Error::config(
                "engram_orders",
                format!("expected 1 to 16, found {:?}", self.engram.orders),
            ));
        }
        if !self.engram.layers.is_empty() && !self.d_model.is_multiple_of(self.engram_tables()) {
            let (d, tables) = (self.d_model, self.engram_tables());
            return Err(Error::config(
                "engram_heads",
                format!("{tables} tables do not divide d_model {d}"),
            ));
        }
        Ok(())
    }
}

fn or_default(value: usize, default: usize) -> usize {
    if value == 0 { default } else { value }
}

/// Typed access to a checkpoint's fields with the loader's defaults.
struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn size(&self, field: &'static str, default: usize) -> Result<usize> {
        match self.0.get(field) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => size(value, field),
        }
    }

    fn sizes(&self, field: &'static str, default: &[usize]) -> Result<Vec<usize>> {
        match self.0.get(field) {
            None | Some(Value::Null) => Ok(default.to_vec()),
            Some(Value::Array(values)) => values.iter().map(|value| size(value, field)).collect(),
            Some(other) => Err(Error::config(
                field,
                format!("expected a list of whole numbers, found {other}"),
            )),
        }
    }

    fn number(&self, field: &'static str, default: f64) -> Result<f64> {
        match self.0.get(field) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => value
                .as_f64()
                .ok_or_else(|| Error::config(field, format!("expected a number, found {value}"))),
        }
    }

    fn text(&self, field: &'static str) -> Result<String> {
        match self.0.get(field) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(Error::config(field, format!("expected a text, found {other}"))),
        }
    }
}

fn size(value: &Value, field: &'static str) -> Result<usize> {
    value
        .as_u64()
        .filter(|&size| size <= u32::MAX as u64)
        .map(|size| size as usize)
        .ok_or_else(|| Error::config(field, format!("expected a whole number from 0 on, found {value}")))
}
