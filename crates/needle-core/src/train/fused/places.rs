//! All weights of a model in one slice of float32 values, and where each of them lies. Gradients lie in the same places.

use std::{collections::BTreeMap, ops::Range};

use crate::config::{Config, ENGRAM_TAPS};

/// Sizes that every part needs. `P` is the width of queries, keys, values and gates together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Width of the stream, `D`.
    pub(super) d: usize,
    /// Lanes, `N`.
    pub(super) n: usize,
    /// Key/value heads, `G`.
    pub(super) g: usize,
    /// Query heads that share a key/value head, `H/G`.
    pub(super) group: usize,
    /// Width of a query or key head, `K`.
    pub(super) k: usize,
    /// Width of a value head.
    pub(super) kv: usize,
    /// Size of the Hadamard transform.
    pub(super) m: usize,
}

impl Sizes {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            d: config.d_model,
            n: config.mhc_lanes,
            g: config.num_kv_heads,
            group: config.num_heads / config.num_kv_heads,
            k: config.qk_head_dim,
            kv: config.v_head_dim,
            m: config.hada_n(),
        }
    }

    /// Outputs of the four projections, in their order: queries, keys, values, gates.
    pub(super) fn outputs(&self) -> [usize; 4] {
        let Self { g, group, k, kv, .. } = *self;
        [g * group * k, g * k, g * kv, g * group * kv]
    }

    /// `P`.
    pub(super) fn projected(&self) -> usize {
        self.outputs().iter().sum()
    }

    /// Width of the attention's output before its projection.
    pub(super) fn attended(&self) -> usize {
        self.outputs()[3]
    }

    /// Numbers that a position's lanes decide: how to read, to write, to mix.
    pub(super) fn decisions(&self) -> usize {
        2 * self.n + self.n * self.n
    }
}

/// Where a layer's weights lie.
#[derive(Clone, Debug)]
pub(super) struct LayerPlaces {
    pub(super) norm_in: Range<usize>,
    /// `[P, D]`: queries, keys, values, gates.
    pub(super) projections: Range<usize>,
    pub(super) q_norm: Range<usize>,
    pub(super) k_norm: Range<usize>,
    /// `[D, O]`
    pub(super) out_proj: Range<usize>,
    pub(super) post_norm: Range<usize>,
    pub(super) attn_gate: Range<usize>,
    pub(super) pre_hada: Range<usize>,
    pub(super) d1: Range<usize>,
    pub(super) d2: Range<usize>,
    pub(super) d3: Range<usize>,
    /// `[3]`: read, write, mix.
    pub(super) a: Range<usize>,
    /// `[2N + N²]`
    pub(super) b: Range<usize>,
    /// `[2N + N², N·D]`
    pub(super) phi: Range<usize>,
}

/// Where an engram site's weights lie.
#[derive(Clone, Debug)]
pub(super) struct SitePlaces {
    pub(super) tables: Range<usize>,
    pub(super) key_proj: Range<usize>,
    pub(super) value_proj: Range<usize>,
    pub(super) taps: Range<usize>,
}

/// Where everything lies.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) by_name: BTreeMap<String, Range<usize>>,
    pub(super) layers: Vec<LayerPlaces>,
    pub(super) sites: Vec<SitePlaces>,
    pub(super) embedding: Range<usize>,
    pub(super) final_norm: Range<usize>,
    /// Values in all.
    pub(super) len: usize,
}

impl Places {
    pub(super) fn of(config: &Config) -> Self {
        let mut ground = Ground::default();
        let embedding = ground.put("embedding".into(), config.vocab_size * config.d_model);
        let final_norm = ground.put("final_norm".into(), config.d_model);
        let layers = (0..config.num_layers).map(|l| ground.layer(l, config)).collect();
        let sites = (0..config.engram.layers.len())
            .map(|s| ground.site(s, config))
            .collect();
        Self {
            by_name: ground.by_name,
            layers,
            sites,
            embedding,
            final_norm,
            len: ground.len,
        }
    }
}

#[derive(Default)]
struct Ground {
    by_name: BTreeMap<String, Range<usize>>,
    len: usize,
}

impl Ground {
    fn put(&mut self, name: String, count: usize) -> Range<usize> {
        let range = self.len..self.len + count;
        self.len = range.end;
        self.by_name.insert(name, range.clone());
        range
    }

    /// Several tensors behind each other as one.
    fn row<const M: usize>(&mut self, name: impl Fn(&str) -> String, parts: [(&str, usize); M]) -> Range<usize> {
        let start = self.len;
        for (part, count) in parts {
            self.put(name(part), count);
        }
        start..self.len
    }

    fn layer(&mut self, l: usize, config: &Config) -> LayerPlaces {
        let sizes = Sizes::of(config);
        let Sizes { d, n, k, m, .. } = sizes;
        let [q, keys, values, gates] = sizes.outputs();
        let name = |leaf: &str| format!("layers.{l}.{leaf}");
        let attention = |leaf: &str| name(&format!("self_attn.{leaf}"));
        let mlp = |leaf: &str| name(&format!("hadamard_mlp.{leaf}"));
        let lanes = |kind: &'static str| move |part: &str| format!("layers.{l}.mhc.{kind}_{part}");
        let parts = |each: usize| [("pre", n * each), ("post", n * each), ("res", n * n * each)];
        LayerPlaces {
            norm_in: self.put(name("norm_in"), d),
            projections: self.row(
                attention,
                [
                    ("q_proj", q * d),
                    ("k_proj", keys * d),
                    ("v_proj", values * d),
                    ("gate_proj", gates * d),
                ],
            ),
            q_norm: self.put(attention("q_norm"), k),
            k_norm: self.put(attention("k_norm"), k),
            out_proj: self.put(attention("out_proj"), d * gates),
            post_norm: self.put(name("post_attn_norm"), d),
            attn_gate: self.put(name("attn_gate"), 1),
            pre_hada: self.put(name("pre_hada_norm"), d),
            d1: self.put(mlp("d1"), m),
            d2: self.put(mlp("d2"), m),
            d3: self.put(mlp("d3"), m),
            a: self.row(lanes("a"), [("pre", 1), ("post", 1), ("res", 1)]),
            b: self.row(lanes("b"), parts(1)),
            phi: self.row(lanes("phi"), parts(n * d)),
        }
    }

    fn site(&mut self, s: usize, config: &Config) -> SitePlaces {
        let d = config.d_model;
        let name = |leaf: &str| format!("engrams.{s}.{leaf}");
        SitePlaces {
            tables: self.put(
                name("tables"),
                config.engram_tables() * config.engram.slots * config.engram_sub_dim(),
            ),
            key_proj: self.put(name("key_proj"), d * d),
            value_proj: self.put(name("value_proj"), d * d),
            taps: self.put(name("taps"), ENGRAM_TAPS * d),
        }
    }
}
