//! Projections with an adapter: `y = x·Wᵀ + s·(x·A)·B`, several matrices behind each other.
//!
//! The adapters' factors lie as `down = Aᵀ: [blocks·r, in]` and `up = B`: one `[r, out]` after another.

use super::product::{Crew, Matrix, Out, product};

/// Matrices `[out, in]` behind each other that read the same input.
#[derive(Clone, Copy)]
pub(super) struct Projection<'a> {
    pub(super) weight: &'a [f32],
    /// Outputs of each matrix.
    pub(super) outputs: &'a [usize],
    pub(super) inputs: usize,
    pub(super) adapter: Option<Factors<'a>>,
}

/// An adapter's factors for these matrices.
#[derive(Clone, Copy)]
pub(super) struct Factors<'a> {
    pub(super) down: &'a [f32],
    pub(super) up: &'a [f32],
    pub(super) rank: usize,
    pub(super) scale: f32,
}

/// Where gradients are added up.
pub(super) enum Gradients<'a> {
    Factors { down: &'a mut [f32], up: &'a mut [f32] },
    Weight(&'a mut [f32]),
}

impl Projection<'_> {
    fn width(&self) -> usize {
        self.outputs.iter().sum()
    }

    /// `y: [T, out]` of `x: [T, in]`; `low: [T, blocks·r]` keeps `x·A`.
    pub(super) fn forward(&self, y: &mut [f32], x: &[f32], low: &mut Vec<f32>) {
        let width = self.width();
        let x = Matrix::new(x, self.inputs);
        product(
            Out::over(y, width),
            1.0,
            x,
            Matrix::new(self.weight, self.inputs).t(),
            Crew::All,
        );
        let Some(Factors { down, up, rank, scale }) = self.adapter else {
            return;
        };
        let lows = rank * self.outputs.len();
        let t = y.len() / width;
        low.resize(t * lows, 0.0);
        product(
            Out::over(low, lows),
            1.0,
            x,
            Matrix::new(down, self.inputs).t(),
            Crew::All,
        );
        let (mut column, mut row) = (0, 0);
        for (block, &out) in self.outputs.iter().enumerate() {
            let low = Matrix::within(&low[block * rank..], t, rank, lows);
            let up = Matrix::new(&up[row..row + rank * out], out);
            product(Out::onto(&mut y[column..], width), scale, low, up, Crew::All);
            column += out;
            row += rank * out;
        }
    }

    /// `dx: [T, in]` from `dy: [T, out]`; the gradients of the factors or of the weight are added to `gradients`.
    pub(super) fn back(&self, dx: &mut [f32], dy: &[f32], x: &[f32], low: &[f32], gradients: Gradients<'_>) {
        let (width, inputs) = (self.width(), self.inputs);
        let slope = Matrix::new(dy, width);
        let x = Matrix::new(x, inputs);
        product(
            Out::over(dx, inputs),
            1.0,
            slope,
            Matrix::new(self.weight, inputs),
            Crew::All,
        );
        let (down_gradient, up_gradient) = match gradients {
            Gradients::Weight(gradient) => return product(Out::onto(gradient, inputs), 1.0, slope.t(), x, Crew::All),
            Gradients::Factors { down, up } => (down, up),
        };
        let Some(Factors { down, up, rank, scale }) = self.adapter else {
            return;
        };
        let lows = rank * self.outputs.len();
        let t = dy.len() / width;
        let mut d_low = vec![0.0; t * lows];
        let (mut column, mut row) = (0, 0);
        for (block, &out) in self.outputs.iter().enumerate() {
            let slope = Matrix::within(&dy[column..], t, out, width);
            let low = Matrix::within(&low[block * rank..], t, rank, lows);
            let up = Matrix::new(&up[row..row + rank * out], out);
            product(
                Out::over(&mut d_low[block * rank..], lows),
                scale,
                slope,
                up.t(),
                Crew::All,
            );
            let gradient = &mut up_gradient[row..row + rank * out];
            product(Out::onto(gradient, out), scale, low.t(), slope, Crew::All);
            column += out;
            row += rank * out;
        }
        let d_low = Matrix::new(&d_low, lows);
        product(Out::onto(down_gradient, inputs), 1.0, d_low.t(), x, Crew::All);
        product(Out::onto(dx, inputs), 1.0, d_low, Matrix::new(down, inputs), Crew::All);
    }
}
