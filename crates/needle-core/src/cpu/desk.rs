//! One thread's place of work: the activations of some positions of a pass.

use std::ops::Range;

use super::{hyper::Hyper, model::CpuModel, prepared::Prepared};
use crate::config::Config;

/// Sizes that every layer shares.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) d: usize,
    pub(super) lanes: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) key_width: usize,
    pub(super) value_width: usize,
    /// Numbers of a position's hyper-connections.
    pub(super) mix: usize,
    /// Size of the Hadamard MLP.
    pub(super) mlp: usize,
}

impl Shape {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            d: config.d_model,
            lanes: config.mhc_lanes,
            heads: config.num_heads,
            kv_heads: config.num_kv_heads,
            key_width: config.qk_head_dim,
            value_width: config.v_head_dim,
            mix: Hyper::mix_len(config.mhc_lanes),
            mlp: config.hada_n(),
        }
    }

    /// Query heads that share a key head.
    pub(super) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Row `t` of `[tokens, D]`.
    pub(super) fn row<'a>(&self, all: &'a [f32], t: usize) -> &'a [f32] {
        &all[t * self.d..][..self.d]
    }

    pub(super) fn row_mut<'a>(&self, all: &'a mut [f32], t: usize) -> &'a mut [f32] {
        &mut all[t * self.d..][..self.d]
    }

    /// The lanes of position `t` of `[tokens, N, D]`.
    pub(super) fn x<'a>(&self, all: &'a [f32], t: usize) -> &'a [f32] {
        let size = self.lanes * self.d;
        &all[t * size..][..size]
    }

    pub(super) fn x_mut<'a>(&self, all: &'a mut [f32], t: usize) -> &'a mut [f32] {
        let size = self.lanes * self.d;
        &mut all[t * size..][..size]
    }
}

/// The activations of `tokens` of a pass. Buffers hold more than one pass needs: a place for every position of the largest.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) tokens: Range<usize>,
    /// Lanes, `[tokens, N, D]`.
    pub(super) x: Vec<f32>,
    /// What the block read, `[tokens, D]`.
    pub(super) u: Vec<f32>,
    /// What the block makes of it, `[tokens, D]`.
    pub(super) b: Vec<f32>,
    /// The input of a product, `[tokens, D]` or `[tokens, H·Kv]`.
    pub(super) h: Vec<f32>,
    /// Products for the hyper-connections.
    pub(super) products: Vec<f32>,
    /// `pre`, `post`, `R` of each position.
    pub(super) mix: Vec<f32>,
    /// Queries, keys, values, gates.
    pub(super) inputs: Vec<f32>,
    /// The attention's output, projected.
    pub(super) attended: Vec<f32>,
    /// The MLP's vector.
    pub(super) z: Vec<f32>,
    /// Cosines, then sines, of each position: `[tokens, 2, K/2]`.
    pub(super) turns: Vec<f32>,
    /// What each engram site recalls.
    pub(super) recalled: Vec<Recalled>,
    /// For each site, the projections of the fetched rows, `[tokens, rows]`.
    pub(super) raw: Vec<Vec<f32>>,
    pub(super) prepared: Prepared,
    pub(super) scratch: Vec<f32>,
    half: usize,
}

/// What an engram site recalls, `[tokens, D]` each.
#[derive(Clone, Debug, Default)]
pub(super) struct Recalled {
    pub(super) keys: Vec<f32>,
    pub(super) values: Vec<f32>,
}

impl Desk {
    /// Places for `tokens` positions.
    pub(super) fn new(model: &CpuModel, tokens: usize) -> Self {
        let (shape, config) = (&model.shape, model.config());
        let floats = |each: usize| vec![0.0; tokens * each];
        let stacks = || model.stacks();
        let width = stacks().map(|stack| stack.prepared_width()).max().unwrap_or(0);
        let layers = || model.layers.iter();
        let scratch = model.sites.iter().map(|site| site.scratch_len());
        let recalled = Recalled {
            keys: floats(shape.d),
            values: floats(shape.d),
        };
        Self {
            tokens: 0..0,
            x: floats(shape.lanes * shape.d),
            u: floats(shape.d),
            b: floats(shape.d),
            h: floats(shape.d.max(config.out_dim())),
            products: floats(layers().map(|layer| layer.hyper.phi.rows()).max().unwrap_or(0)),
            mix: floats(shape.mix),
            inputs: floats(layers().map(|layer| layer.inputs.rows()).max().unwrap_or(0)),
            attended: floats(layers().map(|layer| layer.output.rows()).max().unwrap_or(0)),
            z: vec![0.0; shape.mlp],
            turns: floats(shape.key_width),
            recalled: vec![recalled; model.sites.len()],
            raw: model.sites.iter().map(|site| floats(site.projections.rows())).collect(),
            prepared: Prepared::new(tokens, width, model.isa.widest()),
            scratch: vec![0.0; scratch.chain([model.table.scratch_len()]).max().unwrap_or(0)],
            half: shape.key_width / 2,
        }
    }

    /// Begins position `t` of this desk: the scaled embedding of `token` in every lane, and the angles of `position`.
    pub(super) fn embed(&mut self, model: &CpuModel, t: usize, token: u32, position: usize) {
        let shape = &model.shape;
        let scale = (shape.d as f32).sqrt();
        let row = shape.row_mut(&mut self.u, t);
        model.table.read(token as usize, row, &mut self.scratch);
        row.iter_mut().for_each(|x| *x *= scale);
        let row = shape.row(&self.u, t);
        let lanes = shape.x_mut(&mut self.x, t).chunks_exact_mut(shape.d);
        lanes.for_each(|lane| lane.copy_from_slice(row));
        // In float32, as the reference computes them.
        let (cos, sin) = self.turns[t * 2 * self.half..][..2 * self.half].split_at_mut(self.half);
        for ((cos, sin), frequency) in cos.iter_mut().zip(sin).zip(&model.frequencies) {
            (*sin, *cos) = (position as f32 * frequency).sin_cos();
        }
    }
}

/// Cosines and sines of position `t`, from `turns: [tokens, 2, K/2]`.
pub(super) fn angles(turns: &[f32], t: usize, key_width: usize) -> (&[f32], &[f32]) {
    turns[t * key_width..][..key_width].split_at(key_width / 2)
}
