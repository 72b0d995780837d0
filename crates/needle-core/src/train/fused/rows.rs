//! The parts of a layer that treat every position by itself, some rows at a time: into the attention, out of it, and back.

use super::{
    engram::Agreement,
    hadamard::{DiagonalGradients, Diagonals, Rows},
    lanes, norm,
    places::Sizes,
    vector::{dot, vectorised},
};

/// The weights that these parts read.
#[derive(Clone, Copy)]
pub(super) struct BlockWeights<'a> {
    pub(super) post_norm: &'a [f32],
    /// `σ` of the stored number.
    pub(super) gate: f32,
    pub(super) pre_hada: &'a [f32],
    pub(super) diagonals: Diagonals<'a>,
}

/// Some positions' inputs: lanes `[N·D]`, decisions `[C]`, and at an engram site key and value `[D]`.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) x: &'a [f32],
    pub(super) made: &'a [f32],
    pub(super) recall: Option<(&'a [f32], &'a [f32])>,
    pub(super) sizes: Sizes,
}

/// One position's part of [`Inputs`].
struct Position<'a> {
    x: &'a [f32],
    made: &'a [f32],
    recall: Option<(&'a [f32], &'a [f32])>,
}

impl<'a> Inputs<'a> {
    #[inline(always)]
    fn at(&self, t: usize) -> Position<'a> {
        let Sizes { d, n, .. } = self.sizes;
        let c = self.sizes.decisions();
        Position {
            x: &self.x[t * n * d..][..n * d],
            made: &self.made[t * c..][..c],
            recall: self
                .recall
                .map(|(key, value)| (&key[t * d..][..d], &value[t * d..][..d])),
        }
    }
}

impl Position<'_> {
    /// `u`, and `x1`: `u` with what is recalled.
    #[inline(always)]
    fn stream(&self, u: &mut [f32], x1: &mut [f32]) {
        lanes::read(u, self.x, self.made);
        x1.copy_from_slice(u);
        if let Some((key, value)) = self.recall {
            let alpha = Agreement::of(u, key).alpha;
            x1.iter_mut().zip(value).for_each(|(x, value)| *x += alpha * value);
        }
    }
}

/// Gradients of the small weights, in the sizes of [`BlockWeights`]; `gate` is that of the stored number.
pub(super) struct SmallGradients {
    pub(super) post_norm: Vec<f32>,
    pub(super) gate: f32,
    pub(super) pre_hada: Vec<f32>,
    pub(super) d1: Vec<f32>,
    pub(super) d2: Vec<f32>,
    pub(super) d3: Vec<f32>,
}

impl SmallGradients {
    pub(super) fn zero(sizes: Sizes) -> Self {
        let Sizes { d, m, .. } = sizes;
        Self {
            post_norm: vec![0.0; d],
            gate: 0.0,
            pre_hada: vec![0.0; d],
            d1: vec![0.0; m],
            d2: vec![0.0; m],
            d3: vec![0.0; m],
        }
    }
}

vectorised! {
    /// `hidden = zcrms(x1)`: what the projections read.
    pub(super) fn enter(hidden: &mut [f32], inputs: Inputs<'_>, norm_in: &[f32]) {
        let d = inputs.sizes.d;
        let (mut u, mut x1) = (vec![0.0; d], vec![0.0; d]);
        for (t, hidden) in hidden.chunks_exact_mut(d).enumerate() {
            inputs.at(t).stream(&mut u, &mut x1);
            norm::scaled(hidden, &x1, norm_in, norm::inverse(&x1));
        }
    }
}

vectorised! {
    /// The lanes after the layer, from its inputs and the projected output of its attention.
    pub(super) fn leave(next: &mut [f32], inputs: Inputs<'_>, attended: &[f32], weights: BlockWeights<'_>) {
        let Sizes { d, n, m, .. } = inputs.sizes;
        let (mut u, mut x2, mut z) = (vec![0.0; d], vec![0.0; d], vec![0.0; d]);
        let mut y = vec![0.0; d];
        let mut mlp = Rows::new(m);
        for (t, (next, attended)) in next.chunks_exact_mut(n * d).zip(attended.chunks_exact(d)).enumerate() {
            let position = inputs.at(t);
            position.stream(&mut u, &mut x2);
            add_attended(&mut x2, attended, weights);
            norm::scaled(&mut z, &x2, weights.pre_hada, norm::inverse(&x2));
            y.iter_mut().zip(&x2).zip(&u).for_each(|((y, x), u)| *y = x - u);
            mlp.add(&mut y, &z, weights.diagonals);
            lanes::write(next, position.x, &y, position.made, n);
        }
    }
}

/// `x += gate·zcrms(attended)`.
#[inline(always)]
fn add_attended(x: &mut [f32], attended: &[f32], weights: BlockWeights<'_>) {
    let factor = weights.gate * norm::inverse(attended);
    for ((x, attended), s) in x.iter_mut().zip(attended).zip(weights.post_norm) {
        *x += factor * (1.0 + s) * attended;
    }
}

/// Where the way back of [`leave`] puts its results; rows of some positions.
pub(super) struct LeaveSlopes<'a> {
    /// Of `x1` through the block, `[D]`.
    pub(super) x1: &'a mut [f32],
    /// Of `y`, `[D]`.
    pub(super) y: &'a mut [f32],
    /// Of the attention's projected output, `[D]`.
    pub(super) attended: &'a mut [f32],
    /// Of the decisions, those for writing and mixing, `[C]`.
    pub(super) made: &'a mut [f32],
}

vectorised! {
    /// Back through [`leave`] from the gradient `next` of the lanes after the layer.
    pub(super) fn leave_back(slopes: LeaveSlopes<'_>, next: &[f32], inputs: Inputs<'_>, attended: &[f32], weights: BlockWeights<'_>, gradients: Option<&mut SmallGradients>) {
        let Sizes { d, n, m, .. } = inputs.sizes;
        let c = inputs.sizes.decisions();
        let row = || vec![0.0f32; d];
        let (mut u, mut x2, mut z, mut y, mut dz, mut da) = (row(), row(), row(), row(), row(), row());
        let mut mlp = Rows::new(m);
        let mut gradients = gradients;
        let rows = slopes.x1.chunks_exact_mut(d).zip(slopes.y.chunks_exact_mut(d));
        let rows = rows.zip(slopes.attended.chunks_exact_mut(d)).zip(slopes.made.chunks_exact_mut(c));
        let rows = rows.zip(next.chunks_exact(n * d)).zip(attended.chunks_exact(d));
        for (t, (((((dx, dy), d_attended), d_made), next), attended)) in rows.enumerate() {
            let position = inputs.at(t);
            position.stream(&mut u, &mut x2);
            add_attended(&mut x2, attended, weights);
            let r = norm::inverse(&x2);
            norm::scaled(&mut z, &x2, weights.pre_hada, r);
            y.iter_mut().zip(&x2).zip(&u).for_each(|((y, x), u)| *y = x - u);
            mlp.add(&mut y, &z, weights.diagonals);

            lanes::write_back(dy, next, position.made, n);
            lanes::decision_slopes(d_made, next, position.x, &y, n);
            let of_diagonals = gradients.as_deref_mut().map(|gradients| DiagonalGradients {
                d1: &mut gradients.d1,
                d2: &mut gradients.d2,
                d3: &mut gradients.d3,
            });
            mlp.gradient(&mut dz, dy, &z, weights.diagonals, of_diagonals);
            dx.copy_from_slice(dy);
            norm::add_gradient(dx, &x2, weights.pre_hada, r, &dz);
            da.iter_mut().zip(dx.iter()).for_each(|(da, dx)| *da = weights.gate * dx);
            let r_attended = norm::inverse(attended);
            d_attended.fill(0.0);
            norm::add_gradient(d_attended, attended, weights.post_norm, r_attended, &da);
            if let Some(gradients) = gradients.as_deref_mut() {
                norm::add_scale_gradient(&mut gradients.pre_hada, &x2, r, &dz);
                norm::add_scale_gradient(&mut gradients.post_norm, attended, r_attended, &da);
                norm::scaled(&mut z, attended, weights.post_norm, r_attended);
                gradients.gate += dot(dx, &z) * weights.gate * (1.0 - weights.gate);
            }
        }
    }
}

/// Where the way back of [`enter`] reads and puts its results.
pub(super) struct EnterSlopes<'a> {
    /// Of `x1` through the block in, of `u` altogether out, `[D]`.
    pub(super) x1: &'a mut [f32],
    /// Of the decisions, those for reading, `[C]`.
    pub(super) made: &'a mut [f32],
    /// Of key and value, where they are wanted, `[D]` each.
    pub(super) recall: Option<(&'a mut [f32], &'a mut [f32])>,
}

vectorised! {
    /// Back through [`enter`] from the gradient `hidden` of what the projections read, and `dy` of `y = … − u`.
    pub(super) fn enter_back(slopes: EnterSlopes<'_>, hidden: &[f32], dy: &[f32], inputs: Inputs<'_>, norm_in: &[f32], gradient: Option<&mut [f32]>) {
        let Sizes { d, n, .. } = inputs.sizes;
        let c = inputs.sizes.decisions();
        let (mut u, mut x1) = (vec![0.0; d], vec![0.0; d]);
        let mut gradient = gradient;
        let mut recalled = slopes.recall;
        let rows = slopes.x1.chunks_exact_mut(d).zip(slopes.made.chunks_exact_mut(c));
        let rows = rows.zip(hidden.chunks_exact(d)).zip(dy.chunks_exact(d));
        for (t, (((dx, d_made), hidden), dy)) in rows.enumerate() {
            let position = inputs.at(t);
            position.stream(&mut u, &mut x1);
            let r = norm::inverse(&x1);
            norm::add_gradient(dx, &x1, norm_in, r, hidden);
            if let Some(gradient) = gradient.as_deref_mut() {
                norm::add_scale_gradient(gradient, &x1, r, hidden);
            }
            if let Some((key, value)) = position.recall {
                let wanted = recalled.as_mut().map(|(d_key, d_value)| (&mut d_key[t * d..][..d], &mut d_value[t * d..][..d]));
                Agreement::of(&u, key).back(dx, &u, key, value, wanted);
            }
            dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx -= dy);
            for (d_made, lane) in d_made[..n].iter_mut().zip(position.x.chunks_exact(d)) {
                *d_made = dot(dx, lane);
            }
        }
    }
}

vectorised! {
    /// The gradient of the lanes in the place of that of the lanes after the layer, but for the part through `Φ`.
    pub(super) fn lanes_back(next: &mut [f32], du: &[f32], lost: &[f32], inputs: Inputs<'_>) {
        let Sizes { d, n, .. } = inputs.sizes;
        let mut row = vec![0.0; n * d];
        for (t, ((next, du), lost)) in next.chunks_exact_mut(n * d).zip(du.chunks_exact(d)).zip(lost).enumerate() {
            let position = inputs.at(t);
            lanes::read_back(next, position.x, du, position.made, *lost, n, &mut row);
        }
    }
}
