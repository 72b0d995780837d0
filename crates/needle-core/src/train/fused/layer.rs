//! One layer, forward and back, over all positions of a pass.
//!
//! Forward in two halves: [`Layer::attend`] up to the attention's projected output, which is the expensive half and whose results
//! [`Rest`] keeps; [`Layer::leave`] from there to the next layer's lanes. What treats each position by itself is computed again on
//! the way back rather than kept.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    attention::{Heads, Slopes},
    engram::{RecallSlopes, Recalled},
    factors::LayerFactors,
    gate::{self, Apart},
    hadamard::Diagonals,
    lanes::{self, Decisions},
    places::{LayerPlaces, Sizes},
    product::{Crew, Matrix, Out, product},
    projection::{Factors, Gradients, Projection},
    rows::{self, BlockWeights, EnterSlopes, Inputs, LeaveSlopes, SmallGradients},
};

/// Positions that one task treats.
const ROWS: usize = 32;

/// What a layer needs of the pass and the model.
#[derive(Clone, Copy)]
pub(super) struct Layer<'a> {
    pub(super) l: usize,
    pub(super) sizes: Sizes,
    pub(super) places: &'a LayerPlaces,
    pub(super) weights: &'a [f32],
    pub(super) adapter: Option<Adapter<'a>>,
    pub(super) recalled: Option<&'a Recalled>,
    pub(super) cos: &'a [f32],
    pub(super) sin: &'a [f32],
    pub(super) texts: &'a [Range<usize>],
}

/// An adapter's values and their places in this layer.
#[derive(Clone, Copy)]
pub(super) struct Adapter<'a> {
    pub(super) values: &'a [f32],
    pub(super) places: &'a LayerFactors,
    pub(super) rank: usize,
    pub(super) scale: f32,
}

/// What the way back needs besides the layer's input.
#[derive(Default)]
pub(super) struct Rest {
    decisions: Decisions,
    /// `[T, P]`
    projected: Vec<f32>,
    low: Vec<f32>,
    /// `[G, T, group·Kv]`
    out: Vec<f32>,
    /// `[G, T, group]`
    peaks: Vec<f32>,
    low_out: Vec<f32>,
    /// `[T, D]`
    attended: Vec<f32>,
}

/// Buffers that all layers of a pass use in turn.
#[derive(Default)]
pub(super) struct Desk {
    hidden: Vec<f32>,
    gated: Vec<f32>,
    d_x1: Vec<f32>,
    d_y: Vec<f32>,
    d_attended: Vec<f32>,
    d_made: Vec<f32>,
    d_gated: Vec<f32>,
    d_out: Vec<f32>,
    d_projected: Vec<f32>,
    d_hidden: Vec<f32>,
    slopes: Slopes,
}

/// Where a layer's gradients are added up.
pub(super) enum LayerGradients<'a> {
    /// In the factors' places.
    Adapter(&'a mut [f32]),
    /// In the weights' places, and those of what a site recalled in its own.
    Everything(&'a mut [f32], Option<&'a mut RecallSlopes>),
}

impl<'a> Layer<'a> {
    fn part(&self, range: &Range<usize>) -> &'a [f32] {
        &self.weights[range.clone()]
    }

    fn lanes(&self) -> lanes::Weights<'a> {
        lanes::Weights {
            a: self.part(&self.places.a),
            b: self.part(&self.places.b),
            phi: self.part(&self.places.phi),
            home: self.l % self.sizes.n,
        }
    }

    fn block(&self) -> BlockWeights<'a> {
        let gate = self.part(&self.places.attn_gate)[0];
        BlockWeights {
            post_norm: self.part(&self.places.post_norm),
            gate: 1.0 / (1.0 + (-gate).exp()),
            pre_hada: self.part(&self.places.pre_hada),
            diagonals: Diagonals {
                d1: self.part(&self.places.d1),
                d2: self.part(&self.places.d2),
                d3: self.part(&self.places.d3),
            },
        }
    }

    fn heads(&self, projected: &'a [f32]) -> Heads<'a> {
        Heads {
            sizes: self.sizes,
            q_norm: self.part(&self.places.q_norm),
            k_norm: self.part(&self.places.k_norm),
            cos: self.cos,
            sin: self.sin,
            texts: self.texts,
            projected,
        }
    }

    fn projections<'b>(&'b self, outputs: &'b [usize; 4]) -> Projection<'b> {
        Projection {
            weight: self.part(&self.places.projections),
            outputs,
            inputs: self.sizes.d,
            adapter: self.adapter.map(|adapter| Factors {
                down: &adapter.values[adapter.places.down.clone()],
                up: &adapter.values[adapter.places.up.clone()],
                rank: adapter.rank,
                scale: adapter.scale,
            }),
        }
    }

    fn out_projection<'b>(&'b self, outputs: &'b [usize; 1]) -> Projection<'b> {
        Projection {
            weight: self.part(&self.places.out_proj),
            outputs,
            inputs: self.sizes.attended(),
            adapter: self.adapter.map(|adapter| Factors {
                down: &adapter.values[adapter.places.out_down.clone()],
                up: &adapter.values[adapter.places.out_up.clone()],
                rank: adapter.rank,
                scale: adapter.scale,
            }),
        }
    }

    /// The inputs of the positions of task `task`.
    fn inputs<'b>(&'b self, x: &'b [f32], made: &'b [f32], task: usize) -> Inputs<'b> {
        let Sizes { d, n, .. } = self.sizes;
        let rows = |data: &'b [f32], width: usize| {
            let end = ((task + 1) * ROWS * width).min(data.len());
            &data[task * ROWS * width..end]
        };
        Inputs {
            x: rows(x, n * d),
            made: rows(made, self.sizes.decisions()),
            recall: self
                .recalled
                .map(|recalled| (rows(&recalled.key, d), rows(&recalled.value, d))),
            sizes: self.sizes,
        }
    }

    /// From the lanes `x: [T, N·D]` to the attention's projected output.
    pub(super) fn attend(&self, x: &[f32], rest: &mut Rest, desk: &mut Desk) {
        let Sizes { d, n, g, group, kv, .. } = self.sizes;
        let t = x.len() / (n * d);
        let (p, o) = (self.sizes.projected(), self.sizes.attended());
        rest.decisions.make(x, self.lanes(), self.sizes);
        desk.hidden.resize(t * d, 0.0);
        let made = &rest.decisions.made;
        let norm_in = self.part(&self.places.norm_in);
        let tasks = desk.hidden.par_chunks_mut(ROWS * d).enumerate();
        tasks.for_each(|(task, hidden)| rows::enter(hidden, self.inputs(x, made, task), norm_in));

        rest.projected.resize(t * p, 0.0);
        let outputs = self.sizes.outputs();
        self.projections(&outputs)
            .forward(&mut rest.projected, &desk.hidden, &mut rest.low);
        rest.out.resize(g * t * group * kv, 0.0);
        rest.peaks.resize(g * t * group, 0.0);
        self.heads(&rest.projected).forward(&mut rest.out, &mut rest.peaks);

        desk.gated.resize(t * o, 0.0);
        self.close(rest, &mut desk.gated, t);
        rest.attended.resize(t * d, 0.0);
        self.out_projection(&[d])
            .forward(&mut rest.attended, &desk.gated, &mut rest.low_out);
    }

    fn apart<'b>(&self, rest: &'b Rest, task: usize, total: usize) -> Apart<'b> {
        Apart {
            out: &rest.out,
            first: task * ROWS,
            total,
            sizes: self.sizes,
        }
    }

    /// The gated output of the attention, positions together.
    fn close(&self, rest: &Rest, gated: &mut [f32], t: usize) {
        let (p, o) = (self.sizes.projected(), self.sizes.attended());
        let tasks = gated
            .par_chunks_mut(ROWS * o)
            .zip(rest.projected.par_chunks(ROWS * p))
            .enumerate();
        tasks.for_each(|(task, (gated, projected))| gate::close(gated, projected, self.apart(rest, task, t)));
    }

    /// The lanes after the layer.
    pub(super) fn leave(&self, next: &mut [f32], x: &[f32], rest: &Rest) {
        let Sizes { d, n, .. } = self.sizes;
        let (block, made) = (self.block(), &rest.decisions.made);
        let tasks = next
            .par_chunks_mut(ROWS * n * d)
            .zip(rest.attended.par_chunks(ROWS * d))
            .enumerate();
        tasks.for_each(|(task, (next, attended))| rows::leave(next, self.inputs(x, made, task), attended, block));
    }

    /// The gradient of the lanes `x` in the place of that of the lanes after the layer.
    pub(super) fn back(
        &self,
        next: &mut [f32],
        x: &[f32],
        rest: &Rest,
        desk: &mut Desk,
        gradients: LayerGradients<'_>,
    ) {
        let Sizes { d, n, .. } = self.sizes;
        let t = x.len() / (n * d);
        let c = self.sizes.decisions();
        let mut gradients = gradients;
        for (buffer, width) in [
            (&mut desk.d_x1, d),
            (&mut desk.d_y, d),
            (&mut desk.d_attended, d),
            (&mut desk.d_made, c),
            (&mut desk.d_hidden, d),
            (&mut desk.hidden, d),
        ] {
            buffer.resize(t * width, 0.0);
        }
        self.leave_back(next, x, rest, desk, &mut gradients);
        self.attend_back(x, rest, desk, &mut gradients, t);
        self.enter_back(x, rest, desk, &mut gradients);
        let (lost, of_small) = rest.decisions.back(&mut desk.d_made, self.lanes(), self.sizes);
        let made = &rest.decisions.made;
        let tasks = next
            .par_chunks_mut(ROWS * n * d)
            .zip(desk.d_x1.par_chunks(ROWS * d))
            .zip(lost.par_chunks(ROWS));
        tasks.enumerate().for_each(|(task, ((next, du), lost))| {
            rows::lanes_back(next, du, lost, self.inputs(x, made, task));
        });
        let slope = Matrix::new(&desk.d_made, c);
        let phi = Matrix::new(self.part(&self.places.phi), n * d);
        product(Out::onto(next, n * d), 1.0, slope, phi, Crew::All);
        if let LayerGradients::Everything(all, _) = &mut gradients {
            let x = Matrix::new(x, n * d);
            product(
                Out::onto(&mut all[self.places.phi.clone()], n * d),
                1.0,
                slope.t(),
                x,
                Crew::All,
            );
            let (a, b) = of_small.split_at(3);
            add(all, &self.places.a, a);
            add(all, &self.places.b, b);
        }
    }

    fn leave_back(&self, next: &[f32], x: &[f32], rest: &Rest, desk: &mut Desk, gradients: &mut LayerGradients<'_>) {
        let Sizes { d, n, .. } = self.sizes;
        let c = self.sizes.decisions();
        let (block, made) = (self.block(), &rest.decisions.made);
        let wanted = matches!(gradients, LayerGradients::Everything(..));
        let tasks = desk
            .d_x1
            .par_chunks_mut(ROWS * d)
            .zip(desk.d_y.par_chunks_mut(ROWS * d));
        let tasks = tasks
            .zip(desk.d_attended.par_chunks_mut(ROWS * d))
            .zip(desk.d_made.par_chunks_mut(ROWS * c));
        let tasks = tasks
            .zip(next.par_chunks(ROWS * n * d))
            .zip(rest.attended.par_chunks(ROWS * d));
        let parts: Vec<Option<SmallGradients>> = tasks
            .enumerate()
            .map(|(task, (((((x1, y), of_attended), of_made), next), attended))| {
                let mut small = wanted.then(|| SmallGradients::zero(self.sizes));
                let slopes = LeaveSlopes {
                    x1,
                    y,
                    attended: of_attended,
                    made: of_made,
                };
                rows::leave_back(
                    slopes,
                    next,
                    self.inputs(x, made, task),
                    attended,
                    block,
                    small.as_mut(),
                );
                small
            })
            .collect();
        let LayerGradients::Everything(all, _) = gradients else {
            return;
        };
        for part in parts.into_iter().flatten() {
            add(all, &self.places.post_norm, &part.post_norm);
            add(all, &self.places.pre_hada, &part.pre_hada);
            add(all, &self.places.attn_gate, &[part.gate]);
            add(all, &self.places.d1, &part.d1);
            add(all, &self.places.d2, &part.d2);
            add(all, &self.places.d3, &part.d3);
        }
    }

    /// From `d_attended` to `d_hidden`.
    fn attend_back(&self, x: &[f32], rest: &Rest, desk: &mut Desk, gradients: &mut LayerGradients<'_>, t: usize) {
        let Sizes { d, g, group, kv, .. } = self.sizes;
        let (p, o) = (self.sizes.projected(), self.sizes.attended());
        desk.gated.resize(t * o, 0.0);
        desk.d_gated.resize(t * o, 0.0);
        desk.d_projected.resize(t * p, 0.0);
        desk.d_out.resize(g * t * group * kv, 0.0);
        self.close(rest, &mut desk.gated, t);
        let outputs = [d];
        let projection = self.out_projection(&outputs);
        let goal = match gradients {
            LayerGradients::Adapter(all) => self.goal(all, true),
            LayerGradients::Everything(all, _) => Gradients::Weight(&mut all[self.places.out_proj.clone()]),
        };
        projection.back(&mut desk.d_gated, &desk.d_attended, &desk.gated, &rest.low_out, goal);

        let tasks = desk
            .d_projected
            .par_chunks_mut(ROWS * p)
            .zip(desk.d_gated.par_chunks_mut(ROWS * o));
        let tasks = tasks.zip(rest.projected.par_chunks(ROWS * p)).enumerate();
        tasks.for_each(|(task, ((d_projected, slope), projected))| {
            gate::open(d_projected, slope, projected, self.apart(rest, task, t));
        });
        let (d_gated, sizes) = (&desk.d_gated, self.sizes);
        let heads = desk.d_out.par_chunks_mut(t * group * kv).enumerate();
        heads.for_each(|(g, d_out)| gate::part(d_out, d_gated, g, sizes));
        let of_norms = self
            .heads(&rest.projected)
            .back(&mut desk.slopes, &desk.d_out, &rest.out, &rest.peaks);
        if let LayerGradients::Everything(all, _) = gradients {
            let (q, k) = of_norms.split_at(self.sizes.k);
            add(all, &self.places.q_norm, q);
            add(all, &self.places.k_norm, k);
        }
        let slopes = &desk.slopes;
        let tasks = desk.d_projected.par_chunks_mut(ROWS * p).enumerate();
        tasks.for_each(|(task, d_projected)| gate::gather(d_projected, slopes, task * ROWS, t, sizes));

        let (made, norm_in) = (&rest.decisions.made, self.part(&self.places.norm_in));
        let tasks = desk.hidden.par_chunks_mut(ROWS * d).enumerate();
        tasks.for_each(|(task, hidden)| rows::enter(hidden, self.inputs(x, made, task), norm_in));
        let outputs = self.sizes.outputs();
        let goal = match gradients {
            LayerGradients::Adapter(all) => self.goal(all, false),
            LayerGradients::Everything(all, _) => Gradients::Weight(&mut all[self.places.projections.clone()]),
        };
        self.projections(&outputs)
            .back(&mut desk.d_hidden, &desk.d_projected, &desk.hidden, &rest.low, goal);
    }

    /// The places of the factors' gradients: of the output's projection, or of the other four.
    fn goal<'b>(&self, all: &'b mut [f32], out: bool) -> Gradients<'b> {
        let Some(Adapter { places, .. }) = self.adapter else {
            return Gradients::Weight(&mut all[..0]);
        };
        let (down, up) = if out {
            (&places.out_down, &places.out_up)
        } else {
            (&places.down, &places.up)
        };
        let (before, after) = all.split_at_mut(up.start);
        Gradients::Factors {
            down: &mut before[down.clone()],
            up: &mut after[..up.len()],
        }
    }

    fn enter_back(&self, x: &[f32], rest: &Rest, desk: &mut Desk, gradients: &mut LayerGradients<'_>) {
        let d = self.sizes.d;
        let c = self.sizes.decisions();
        let (made, norm_in) = (&rest.decisions.made, self.part(&self.places.norm_in));
        let (wanted, recall) = match gradients {
            LayerGradients::Adapter(_) => (false, None),
            LayerGradients::Everything(_, recall) => (true, recall.as_deref_mut()),
        };
        let tasks = desk
            .d_x1
            .par_chunks_mut(ROWS * d)
            .zip(desk.d_made.par_chunks_mut(ROWS * c));
        let tasks = tasks
            .zip(desk.d_hidden.par_chunks(ROWS * d))
            .zip(desk.d_y.par_chunks(ROWS * d));
        let treat = |task: usize, x1, of_made, hidden, y, recall| {
            let mut gradient = wanted.then(|| vec![0.0; d]);
            let slopes = EnterSlopes {
                x1,
                made: of_made,
                recall,
            };
            rows::enter_back(
                slopes,
                hidden,
                y,
                self.inputs(x, made, task),
                norm_in,
                gradient.as_deref_mut(),
            );
            gradient
        };
        let parts: Vec<Option<Vec<f32>>> = match recall {
            Some(RecallSlopes { key, value }) => tasks
                .zip(key.par_chunks_mut(ROWS * d).zip(value.par_chunks_mut(ROWS * d)))
                .enumerate()
                .map(|(task, ((((x1, made), hidden), y), recall))| treat(task, x1, made, hidden, y, Some(recall)))
                .collect(),
            None => tasks
                .enumerate()
                .map(|(task, (((x1, made), hidden), y))| treat(task, x1, made, hidden, y, None))
                .collect(),
        };
        if let LayerGradients::Everything(all, _) = gradients {
            parts
                .into_iter()
                .flatten()
                .for_each(|part| add(all, &self.places.norm_in, &part));
        }
    }
}

fn add(all: &mut [f32], range: &Range<usize>, part: &[f32]) {
    all[range.clone()]
        .iter_mut()
        .zip(part)
        .for_each(|(sum, part)| *sum += part);
}
