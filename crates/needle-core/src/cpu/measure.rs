//! How long each operation of a pass takes, one by one, on one thread.
//!
//! Every operation runs for all layers before the next one does, so that weights and stored keys come from where they come
//! from in a pass. What is missing from the sum is the pass's own book-keeping.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    attention::{QUERIES, Queries, attend, tile_width},
    crew::Hands,
    desk::{Desk, angles},
    hadamard::rotate,
    hyper::{mean_lanes, read_lanes, write_lanes},
    layer::{K, Q, V},
    model::CpuModel,
    simd::LANES,
    stack::Stack,
    state::CpuState,
    tools::Tools,
    vector::{add_rms_norm, gate, norm_and_turn, rms_norm, scaled_silu},
};
use crate::{error::Result, model::Window};

/// All calls of one operation in a pass.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// What it computes.
    pub name: &'static str,
    /// Its calls.
    pub calls: usize,
    /// What they took together.
    pub time: Duration,
}

/// Times the operations of a pass over `positions` new positions after `context` others.
///
/// # Errors
/// As [`CpuState::new`] and [`CpuState::absorb`].
pub fn operations(model: &Arc<CpuModel>, context: usize, positions: usize) -> Result<Vec<Operation>> {
    let window = Window {
        size: context + positions,
        sinks: 0,
    };
    let mut state = CpuState::new(model, window)?;
    let vocabulary = model.config().vocab_size;
    let tokens: Vec<u32> = (0..context + positions)
        .map(|i| (i * 7919 % vocabulary) as u32)
        .collect();
    state.absorb(&tokens)?;
    let hands = Hands::alone();
    let mut bench = Bench {
        model,
        tools: model.tools(&hands),
        desk: Desk::new(model, positions),
        found: Vec::new(),
    };
    bench.desk.tokens = 0..positions;
    bench.pass(&mut state, &tokens);
    Ok(bench.found)
}

struct Bench<'a> {
    model: &'a CpuModel,
    tools: Tools<'a>,
    desk: Desk,
    found: Vec<Operation>,
}

impl Bench<'_> {
    fn time(&mut self, name: &'static str, calls: usize, mut work: impl FnMut(&CpuModel, &Tools<'_>, &mut Desk)) {
        let start = Instant::now();
        work(self.model, &self.tools, &mut self.desk);
        let time = start.elapsed();
        self.found.push(Operation { name, calls, time });
    }

    /// A product over all positions in every layer.
    fn product(&mut self, name: &'static str, stack: impl Fn(&CpuModel, usize) -> &Stack) {
        let layers = self.model.layers.len();
        let positions = self.desk.tokens.len();
        self.time(name, layers, |model, tools, desk| {
            for l in 0..layers {
                let stack = stack(model, l);
                let (x, out) = (&desk.x[..positions * stack.cols()], &mut desk.inputs);
                if out.len() < positions * stack.rows() {
                    out.resize(positions * stack.rows(), 0.0);
                }
                stack.apply(tools, x, &mut desk.prepared, out);
            }
        });
    }

    /// Something small for every position of every layer, given the position.
    fn each(&mut self, name: &'static str, work: impl Fn(&CpuModel, usize, &mut Desk, usize)) {
        let (layers, positions) = (self.model.layers.len(), self.desk.tokens.len());
        self.time(name, layers * positions, |model, _, desk| {
            for l in 0..layers {
                (0..positions).for_each(|t| work(model, l, desk, t));
            }
        });
    }

    fn pass(&mut self, state: &mut CpuState, tokens: &[u32]) {
        let positions = self.desk.tokens.len();
        let context = tokens.len() - positions;
        self.time("embedding row, angles", positions, |model, _, desk| {
            (0..positions).for_each(|t| desk.embed(model, t, tokens[context + t], context + t));
        });
        self.product("product: hyper-connections", |model, l| &model.layers[l].hyper.phi);
        self.each("decide the hyper-connections", |model, l, desk, t| {
            let (shape, hyper) = (&model.shape, &model.layers[l].hyper);
            let products = &desk.products[t * hyper.phi.rows()..];
            let mix = &mut desk.mix[t * shape.mix..][..shape.mix];
            hyper.decide(model.isa, shape.x(&desk.x, t), products, mix);
        });
        self.each("read the lanes", |model, _, desk, t| {
            let shape = &model.shape;
            let mix = &desk.mix[t * shape.mix..][..shape.lanes];
            read_lanes(model.isa, shape.x(&desk.x, t), mix, shape.row_mut(&mut desk.u, t));
        });
        self.each("norm", |model, _, desk, t| {
            let shape = &model.shape;
            rms_norm(
                model.isa,
                shape.row(&desk.u, t),
                &model.final_norm,
                shape.row_mut(&mut desk.h, t),
            );
        });
        self.product("product: query, key, value, gate", |model, l| &model.layers[l].inputs);
        self.each("norm and turn the heads", |model, l, desk, t| {
            let (shape, inputs) = (&model.shape, &model.layers[l].inputs);
            let (cos, sin) = angles(&desk.turns, t, shape.key_width);
            let row = &mut desk.inputs[t * inputs.rows()..][..inputs.rows()];
            let heads = shape.heads + shape.kv_heads;
            let heads = row.chunks_exact_mut(shape.key_width).take(heads);
            heads.for_each(|head| norm_and_turn(model.isa, head, &model.final_norm[..shape.key_width], cos, sin));
        });
        self.store(state);
        self.attend(state, tokens.len());
        self.each("gate", |model, _, desk, t| {
            let shape = &model.shape;
            gate(model.isa, shape.row(&desk.u, t), shape.row_mut(&mut desk.h, t));
        });
        self.product("product: output", |model, l| &model.layers[l].output);
        self.each("add the norm of the output", |model, _, desk, t| {
            let shape = &model.shape;
            let (attended, b) = (shape.row(&desk.attended, t), shape.row_mut(&mut desk.b, t));
            add_rms_norm(model.isa, attended, &model.final_norm, 0.5, b);
        });
        self.each("Hadamard MLP", |model, _, desk, _| {
            let z = &mut desk.z;
            rotate(model.isa, z);
            scaled_silu(model.isa, &model.final_norm[..z.len().min(model.shape.d)], z);
            rotate(model.isa, z);
        });
        self.each("write the lanes", |model, _, desk, t| {
            let shape = &model.shape;
            let (_, decided) = desk.mix[t * shape.mix..][..shape.mix].split_at(shape.lanes);
            let (post, res) = decided.split_at(shape.lanes);
            let block = (shape.row(&desk.b, t), shape.row(&desk.u, t));
            write_lanes(model.isa, shape.x_mut(&mut desk.x, t), res, post, block);
        });
        self.time("logits of one position", 1, |model, tools, desk| {
            let shape = &model.shape;
            mean_lanes(model.isa, shape.x(&desk.x, 0), &mut desk.u[..shape.d]);
            let mut logits = vec![0.0; model.output.rows()];
            model
                .output
                .apply(tools, &desk.u[..shape.d], &mut desk.prepared, &mut logits);
        });
    }

    fn store(&mut self, state: &mut CpuState) {
        let (layers, positions) = (self.model.layers.len(), self.desk.tokens.len());
        self.time("store keys and values", layers * positions, |model, _, desk| {
            let shape = &model.shape;
            for l in 0..layers {
                let stack = &model.layers[l].inputs;
                for t in 0..positions {
                    let row = &desk.inputs[t * stack.rows()..][..stack.rows()];
                    for g in 0..shape.kv_heads {
                        let key = &row[stack.first_row(K) + g * shape.key_width..][..shape.key_width];
                        let value = &row[stack.first_row(V) + g * shape.value_width..][..shape.value_width];
                        state.stored_mut().write(model.isa, (l, g), t, key, value);
                    }
                }
            }
        });
    }

    /// Attention over all that is stored.
    fn attend(&mut self, state: &CpuState, slots: usize) {
        let (layers, positions) = (self.model.layers.len(), self.desk.tokens.len());
        let shape = &self.model.shape;
        let queries = (positions * shape.group()).min(QUERIES);
        let tiles = (positions * shape.group()).div_ceil(queries);
        let blocks = slots.div_ceil(LANES);
        let sight = vec![u16::MAX; blocks];
        let sights = vec![&sight[..]; queries];
        let mut scores = vec![0.0; QUERIES * blocks * LANES];
        let mut out = vec![0.0; QUERIES * shape.value_width];
        self.time("attention", layers * shape.kv_heads * tiles, |model, _, desk| {
            let first = model.layers[0].inputs.first_row(Q);
            let values = &desk.inputs[first..][..shape.key_width];
            let values: Vec<f32> = values
                .iter()
                .flat_map(|x| std::iter::repeat_n(*x, tile_width(queries)))
                .collect();
            for l in 0..layers {
                for g in 0..shape.kv_heads {
                    for _ in 0..tiles {
                        let queries = Queries {
                            values: &values,
                            sights: &sights,
                        };
                        let head = state.stored().head(l, g);
                        attend(model.isa, head, shape.value_width, queries, &mut scores, &mut out);
                    }
                }
            }
        });
    }
}
