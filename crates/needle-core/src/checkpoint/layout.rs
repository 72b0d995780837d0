//! Which tensors a model of a given geometry has: canonical names, paths in a checkpoint's parameter tree, shapes, order.
//!
//! Both readers and the writer walk these lists, so a tensor is described once.

use crate::config::{Config, ENGRAM_TAPS, Generation};

/// Width of the bottleneck that conditions a generation-3 MLP.
const CONDITION_RANK: usize = 8;

/// How a tensor is written in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Norms, gates, taps and other small tensors: float values, the same axes everywhere.
    Small,
    /// A matrix `[out, in]`: usually quantised in archives, a kernel `[in, out]` in checkpoints.
    Kernel,
    /// A matrix `[rows, width]`: usually quantised in archives, the same axes everywhere.
    Table,
}

/// Whether a checkpoint's tree must hold a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    Optional,
}

/// One tensor of a model, or one of every layer.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Canonical name; `*` stands for the layer's number where the slot is one of every layer.
    pub(super) name: String,
    /// Path in a checkpoint's tree, without layer numbers.
    pub(super) path: String,
    /// Canonical shape of one layer's tensor.
    pub(super) shape: Vec<usize>,
    /// The same in a checkpoint, without the axis of layers.
    pub(super) tree_shape: Vec<usize>,
    /// How it is written.
    pub(super) form: Form,
    /// `Some(L)` where all layers lie in one stored tensor.
    pub(super) layers: Option<usize>,
    /// Whether a checkpoint must have it.
    pub(super) presence: Presence,
}

impl Slot {
    fn new(name: impl Into<String>, path: impl Into<String>, shape: &[usize], form: Form) -> Self {
        let mut tree_shape = shape.to_vec();
        if form == Form::Kernel {
            tree_shape.reverse();
        }
        Self {
            name: name.into(),
            path: path.into(),
            shape: shape.to_vec(),
            tree_shape,
            form,
            layers: None,
            presence: Presence::Required,
        }
    }

    pub(super) fn small(name: impl Into<String>, path: impl Into<String>, shape: &[usize]) -> Self {
        Self::new(name, path, shape, Form::Small)
    }

    pub(super) fn kernel(name: impl Into<String>, path: impl Into<String>, outputs: usize, inputs: usize) -> Self {
        Self::new(name, path, &[outputs, inputs], Form::Kernel)
    }

    /// A table whose rows have several axes in a checkpoint.
    pub(super) fn table(name: impl Into<String>, path: impl Into<String>, rows: &[usize], width: usize) -> Self {
        let mut slot = Self::new(name, path, &[rows.iter().product(), width], Form::Table);
        slot.tree_shape = [rows, &[width]].concat();
        slot
    }

    fn stacked(mut self, layers: usize) -> Self {
        self.layers = Some(layers);
        self
    }

    pub(super) fn optional(mut self) -> Self {
        self.presence = Presence::Optional;
        self
    }

    /// The canonical name of layer `l`'s tensor.
    pub(super) fn layer_name(&self, layer: usize) -> String {
        self.name.replacen('*', &layer.to_string(), 1)
    }

    /// Canonical names, one a layer.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        (0..self.layers.unwrap_or(1)).map(|layer| self.layer_name(layer))
    }

    /// The shape that a checkpoint stores.
    pub(super) fn stored_in_tree(&self) -> Vec<usize> {
        self.layers.iter().chain(&self.tree_shape).copied().collect()
    }

    /// The shape that an archive stores: stacked matrices lie one above the other, a scalar is `[1]`.
    pub(super) fn stored_in_archive(&self) -> Vec<usize> {
        match (self.layers, self.form) {
            (Some(layers), Form::Small) => [&[layers], &self.shape[..]].concat(),
            (Some(layers), _) => vec![layers * self.shape[0], self.shape[1]],
            (None, _) if self.shape.is_empty() => vec![1],
            (None, _) => self.shape.clone(),
        }
    }
}

/// A block's tensors in an archive's order. `name` and `path` are put before the names and paths.
fn block(config: &Config, name: &str, path: &str) -> Vec<Slot> {
    let (d, m) = (config.d_model, config.hada_n());
    let named = |leaf: &str| format!("{name}{leaf}");
    let small = |leaf: &str, at: &str, shape: &[usize]| Slot::small(named(leaf), format!("{path}{at}"), shape);
    let projection = |leaf: &str, outputs, inputs| {
        let (name, path) = (
            format!("{name}self_attn.{leaf}"),
            format!("{path}self_attn/{leaf}/kernel"),
        );
        Slot::kernel(name, path, outputs, inputs)
    };
    let mut slots = vec![
        small("norm_in", "ZCRMSNorm_0/scale", &[d]),
        projection("q_proj", config.q_dim(), d),
        projection("k_proj", config.k_dim(), d),
        projection("v_proj", config.v_dim(), d),
    ];
    let taps = config.qkv_conv_taps;
    if config.generation == Generation::Three && taps > 0 {
        slots.push(small("self_attn.q_taps", "self_attn/q_taps", &[taps, config.q_dim()]));
        slots.push(small("self_attn.k_taps", "self_attn/k_taps", &[taps, config.k_dim()]));
        slots.push(small("self_attn.v_taps", "self_attn/v_taps", &[taps, config.v_dim()]));
    }
    slots.extend([
        small("self_attn.q_norm", "self_attn/q_norm/scale", &[config.qk_head_dim]),
        small("self_attn.k_norm", "self_attn/k_norm/scale", &[config.qk_head_dim]),
        projection("gate_proj", config.out_dim(), d),
        projection("out_proj", d, config.out_dim()),
        small("post_attn_norm", "post_attn_norm/scale", &[d]),
        small("attn_gate", "attn_gate", &[]),
        small("pre_hada_norm", "pre_hada_norm/scale", &[d]),
    ]);
    let mlp =
        |leaf: &str, shape: &[usize]| small(&format!("hadamard_mlp.{leaf}"), &format!("hadamard_mlp/{leaf}"), shape);
    match config.generation {
        Generation::Two => slots.extend(["d1", "d2", "d3"].map(|leaf| mlp(leaf, &[m]))),
        Generation::Three => {
            let (a, b) = monarch(m);
            slots.extend(["d1", "d2", "b2", "d3", "d4"].map(|leaf| mlp(leaf, &[m])));
            for factors in [["w1a", "w1b"], ["w2a", "w2b"], ["w3a", "w3b"]] {
                slots.extend([mlp(factors[0], &[a, a]), mlp(factors[1], &[b, b])]);
            }
            slots.extend([mlp("cond_v", &[d, CONDITION_RANK]), mlp("cond_u", &[CONDITION_RANK, m])]);
        }
    }
    slots
}

/// The two factors of a Monarch mix of size `m`, a power of two: `m = a·b`, `a ≤ b`.
fn monarch(m: usize) -> (usize, usize) {
    let a = 1 << (m.trailing_zeros() / 2);
    (a, m / a)
}

/// The hyper-connections, all layers in one stored tensor.
fn lanes(config: &Config) -> Vec<Slot> {
    let (n, wide, layers) = (config.mhc_lanes, config.mhc_lanes * config.d_model, config.num_layers);
    let place = |leaf: &str| (format!("layers.*.mhc.{leaf}"), format!("stack/mhc_{leaf}"));
    let small = |leaf: &str, shape: &[usize]| {
        let (name, path) = place(leaf);
        Slot::small(name, path, shape).stacked(layers)
    };
    let phi = |leaf: &str, outputs: usize| {
        let (name, path) = place(leaf);
        Slot::kernel(name, path, outputs, wide).stacked(layers)
    };
    vec![
        small("a_pre", &[]),
        small("a_post", &[]),
        small("a_res", &[]),
        small("b_pre", &[n]),
        small("b_post", &[n]),
        small("b_res", &[n, n]),
        phi("phi_pre", n),
        phi("phi_post", n),
        phi("phi_res", n * n),
    ]
}

/// The generation-3 MLP's fixed permutations. Archives carry them; a checkpoint's follow from its geometry.
fn permutations(config: &Config) -> Vec<Slot> {
    match config.generation {
        Generation::Two => vec![],
        Generation::Three => ["p1", "p2"]
            .map(|leaf| {
                Slot::small(
                    format!("hadamard_mlp.{leaf}"),
                    format!("hada_{leaf}"),
                    &[config.hada_n()],
                )
                .optional()
            })
            .into(),
    }
}

fn engram(config: &Config, site: usize) -> [Slot; 4] {
    let (d, rows) = (config.d_model, [config.engram_tables(), config.engram.slots]);
    let (name, path) = (
        |leaf| format!("engrams.{site}.{leaf}"),
        |leaf| format!("engrams_{site}/{leaf}"),
    );
    [
        Slot::table(name("tables"), path("embedding"), &rows, config.engram_sub_dim()),
        Slot::kernel(name("key_proj"), path("key_proj/kernel"), d, d),
        Slot::kernel(name("value_proj"), path("value_proj/kernel"), d, d),
        Slot::small(name("taps"), path("taps"), &[ENGRAM_TAPS, d]),
    ]
}

fn engrams(config: &Config) -> impl Iterator<Item = Slot> {
    (0..config.engram.layers.len()).flat_map(|site| engram(config, site))
}

fn embedding(config: &Config) -> Slot {
    Slot::table("embedding", "embedding/embedding", &[config.vocab_size], config.d_model)
}

fn final_norm(config: &Config) -> Slot {
    Slot::small("final_norm", "stack/final_norm/scale", &[config.d_model])
}

/// An archive's tensors in their order, without the heads and the tokenizer. Lazy: a header may promise more layers than
/// its file can hold.
pub(super) fn archive(config: &Config) -> impl Iterator<Item = Slot> {
    let blocks = (0..config.num_layers).flat_map(|layer| block(config, &format!("layers.{layer}."), ""));
    let around = lanes(config)
        .into_iter()
        .chain(permutations(config))
        .chain(engrams(config));
    [embedding(config)]
        .into_iter()
        .chain(blocks)
        .chain(around)
        .chain([final_norm(config)])
}

/// A checkpoint's tensors, without the heads and what only training uses.
pub(super) fn tree(config: &Config) -> impl Iterator<Item = Slot> {
    let blocks = block(config, "layers.*.", "stack/layers/block/").into_iter();
    let blocks = blocks.map(|slot| slot.stacked(config.num_layers));
    let around = lanes(config)
        .into_iter()
        .chain(permutations(config))
        .chain(engrams(config));
    [embedding(config), final_norm(config)]
        .into_iter()
        .chain(blocks)
        .chain(around)
}

/// The extra prediction block that only training uses (generation 2). It is there as a whole or not at all.
pub(super) fn next_token_block(config: &Config) -> Vec<Slot> {
    let d = config.d_model;
    let mut slots = block(config, "mtp.block.", "mtp_block/");
    slots.extend([
        Slot::kernel("mtp.combine", "mtp_combine/kernel", d, 2 * d),
        Slot::small("mtp.emb_norm", "mtp_emb_norm/scale", &[d]),
        Slot::small("mtp.final_norm", "mtp_final_norm/scale", &[d]),
    ]);
    slots
}
