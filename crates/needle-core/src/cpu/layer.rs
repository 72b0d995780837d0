//! One layer, as its equations read.
//!
//! ```text
//! pre, post, R = decide(X);  u = Σ pre_i X_i;  b = u
//! b ← b + α·v                                                at an engram site
//! q, k, v, g = zcrms(b)·[Wq, Wk, Wv, Wg];  q, k ← turned zcrms(q), zcrms(k)
//! o = softmax(q·kᵀ/√K)·v                                     (see the pass)
//! b ← b + σ(s)·zcrms((o ∘ σ(g))·Wo)
//! b ← b + d₃∘H(silu(d₂∘H(d₁∘zcrms(b))))
//! X_i ← Σ_j R_ij X_j + post_i (b − u)
//! ```

use super::{
    desk::{Desk, Shape, angles},
    engram::recall,
    hadamard::rotate,
    hyper::{Hyper, read_lanes, write_lanes},
    loader::Loader,
    stack::Stack,
    tools::Tools,
    vector::{add_product, add_rms_norm, gate, norm_and_turn, rms_norm, scaled, scaled_silu, sigmoid_of},
};
use crate::{config::Config, error::Result};

/// Gains are `1 + s` of the zero-centred norms.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) hyper: Hyper,
    norm_in: Vec<f32>,
    /// `Wq`, `Wk`, `Wv`, `Wg`.
    pub(super) inputs: Stack,
    q_norm: Vec<f32>,
    k_norm: Vec<f32>,
    pub(super) output: Stack,
    post_attn_norm: Vec<f32>,
    /// `σ(s)`
    attn_gate: f32,
    pre_hada_norm: Vec<f32>,
    d1: Vec<f32>,
    d2: Vec<f32>,
    d3: Vec<f32>,
    /// The engram site at this layer.
    pub(super) site: Option<usize>,
}

/// Weights of [`Layer::inputs`] by their order.
pub(super) const Q: usize = 0;
pub(super) const K: usize = 1;
pub(super) const V: usize = 2;
const GATE: usize = 3;

impl Layer {
    pub(super) fn load(loader: &Loader<'_>, config: &Config, l: usize) -> Result<Self> {
        let d = config.d_model;
        let name = |part: &str| format!("layers.{l}.{part}");
        let attention = |part: &str, rows: usize| (name(&format!("self_attn.{part}")), rows);
        let inputs = [
            attention("q_proj", config.q_dim()),
            attention("k_proj", config.k_dim()),
            attention("v_proj", config.v_dim()),
            attention("gate_proj", config.out_dim()),
        ];
        let diagonal = |part: &str| loader.floats(&name(&format!("hadamard_mlp.{part}")), &[config.hada_n()]);
        Ok(Self {
            hyper: Hyper::load(loader, &name("mhc"), config, l)?,
            norm_in: loader.gains(&name("norm_in"), d)?,
            inputs: Stack::load(loader, &inputs, d)?,
            q_norm: loader.gains(&name("self_attn.q_norm"), config.qk_head_dim)?,
            k_norm: loader.gains(&name("self_attn.k_norm"), config.qk_head_dim)?,
            output: Stack::load(loader, &[attention("out_proj", d)], config.out_dim())?,
            post_attn_norm: loader.gains(&name("post_attn_norm"), d)?,
            attn_gate: sigmoid_of(loader.scalar(&name("attn_gate"))?),
            pre_hada_norm: loader.gains(&name("pre_hada_norm"), d)?,
            d1: diagonal("d1")?,
            d2: diagonal("d2")?,
            d3: diagonal("d3")?,
            site: config.engram.layers.iter().position(|&at| at == l),
        })
    }

    /// From the lanes to queries, keys, values and gates.
    pub(super) fn enter(&self, tools: &Tools<'_>, shape: &Shape, desk: &mut Desk) {
        let isa = tools.isa;
        let tokens = desk.tokens.len();
        let x = &desk.x[..tokens * shape.lanes * shape.d];
        self.hyper.phi.apply(tools, x, &mut desk.prepared, &mut desk.products);
        for t in 0..tokens {
            let x = shape.x(&desk.x, t);
            let products = &desk.products[t * self.hyper.phi.rows()..];
            let mix = &mut desk.mix[t * shape.mix..][..shape.mix];
            self.hyper.decide(isa, x, products, mix);
            let u = shape.row_mut(&mut desk.u, t);
            read_lanes(isa, x, &mix[..shape.lanes], u);
            let b = shape.row_mut(&mut desk.b, t);
            b.copy_from_slice(u);
            if let Some(site) = self.site {
                let recalled = &desk.recalled[site];
                recall(isa, shape.row(&recalled.keys, t), shape.row(&recalled.values, t), b);
            }
            rms_norm(isa, b, &self.norm_in, shape.row_mut(&mut desk.h, t));
        }
        let h = &desk.h[..tokens * shape.d];
        self.inputs.apply(tools, h, &mut desk.prepared, &mut desk.inputs);
        let rows = self.inputs.rows();
        for (t, inputs) in desk.inputs.chunks_exact_mut(rows).take(tokens).enumerate() {
            let (cos, sin) = angles(&desk.turns, t, shape.key_width);
            for (weight, gain, heads) in [(Q, &self.q_norm, shape.heads), (K, &self.k_norm, shape.kv_heads)] {
                let first = self.inputs.first_row(weight);
                let heads = inputs[first..].chunks_exact_mut(shape.key_width).take(heads);
                heads.for_each(|head| norm_and_turn(isa, head, gain, cos, sin));
            }
        }
    }

    /// From what the heads attended to, written to `desk.h: [tokens, H·Kv]`, to the lanes.
    pub(super) fn leave(&self, tools: &Tools<'_>, shape: &Shape, desk: &mut Desk) {
        let isa = tools.isa;
        let tokens = desk.tokens.len();
        let width = self.output.cols();
        let first = self.inputs.first_row(GATE);
        let gates = desk.inputs.chunks_exact(self.inputs.rows());
        for (o, inputs) in desk.h.chunks_exact_mut(width).take(tokens).zip(gates) {
            gate(isa, &inputs[first..][..width], o);
        }
        let o = &desk.h[..tokens * width];
        self.output.apply(tools, o, &mut desk.prepared, &mut desk.attended);
        for t in 0..tokens {
            let attended = &desk.attended[t * self.output.rows()..][..shape.d];
            let b = shape.row_mut(&mut desk.b, t);
            add_rms_norm(isa, attended, &self.post_attn_norm, self.attn_gate, b);

            let h = shape.row_mut(&mut desk.h, t);
            rms_norm(isa, b, &self.pre_hada_norm, h);
            let z = &mut desk.z;
            scaled(isa, &self.d1, h, z);
            rotate(isa, z);
            scaled_silu(isa, &self.d2, z);
            rotate(isa, z);
            add_product(isa, &self.d3, z, b);

            let (_, decided) = desk.mix[t * shape.mix..][..shape.mix].split_at(shape.lanes);
            let (post, res) = decided.split_at(shape.lanes);
            write_lanes(isa, shape.x_mut(&mut desk.x, t), res, post, (b, shape.row(&desk.u, t)));
        }
    }
}
