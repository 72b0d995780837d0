//! Matrices that read the same activations, such as q, k, v and gate, as one product.

use std::ops::Range;

use super::{
    Numerics,
    columns::Columns,
    loader::Loader,
    matrix::{Matrix, PANEL_ROWS, Values, alike},
    prepared::{Form, Prepared},
    product::{Job, product},
    simd::LANES,
    tools::Tools,
};
use crate::error::Result;

#[derive(Debug)]
pub(super) struct Stack {
    parts: Vec<Part>,
    /// First row of each weight in the output.
    firsts: Vec<usize>,
    cols: usize,
    /// Rows of the output, those that fill up blocks of sixteen included.
    rows: usize,
}

#[derive(Debug)]
struct Part {
    matrix: Matrix,
    form: Form,
    /// First row in the output.
    first_row: usize,
    /// Panels before it in the stack.
    first_panel: usize,
}

/// Shares that one product is cut into at most.
const MOST_SHARES: usize = 64;
/// Shares for every thread: one that comes late takes fewer.
const SHARES_EACH: usize = 2;

impl Stack {
    /// The matrices of these names and numbers of rows.
    ///
    /// # Errors
    /// [`crate::Error::MissingTensor`], [`crate::Error::Shape`].
    pub(super) fn load(loader: &Loader<'_>, names: &[(String, usize)], cols: usize) -> Result<Self> {
        let mut stack = Self {
            parts: Vec::new(),
            firsts: Vec::new(),
            cols,
            rows: 0,
        };
        let weights = names
            .iter()
            .map(|(name, rows)| loader.weight(name, &[*rows, cols]))
            .collect::<Result<Vec<_>>>()?;
        for weights in weights.chunk_by(|a, b| alike(a, b)) {
            let matrix = Matrix::new(loader, weights, cols);
            let form = match (&matrix.values, loader.numerics) {
                (Values::Dense, _) => Form::Plain,
                (Values::Packed(codes), Numerics::Exact) => Form::Rotated(codes.group),
                (Values::Packed(codes), Numerics::Fast) => Form::Sixteen(codes.group, codes.bits),
            };
            let mut first = stack.rows;
            for weight in weights {
                stack.firsts.push(first);
                first += weight.shape().first().copied().unwrap_or(1);
            }
            let (first_panel, rows) = (stack.panels(), matrix.blocks() * LANES);
            stack.parts.push(Part {
                matrix,
                form,
                first_row: stack.rows,
                first_panel,
            });
            stack.rows += rows;
        }
        Ok(stack)
    }

    /// Columns of the activations.
    pub(super) fn cols(&self) -> usize {
        self.cols
    }

    /// Rows of the output `[tokens, rows]`.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// First row of the output that the weight numbered `weight` fills.
    pub(super) fn first_row(&self, weight: usize) -> usize {
        self.firsts[weight]
    }

    /// Bytes that the matrices take in memory.
    pub(super) fn size_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.matrix.size_bytes()).sum()
    }

    /// Columns of prepared activations, whole groups.
    pub(super) fn prepared_width(&self) -> usize {
        let width = |part: &Part| self.cols.next_multiple_of(part.form.group());
        self.parts.iter().map(width).max().unwrap_or(0)
    }

    /// `out: [tokens, rows]` = `x: [tokens, cols]` · Wᵀ. `prepared` is scratch.
    pub(super) fn apply(&self, tools: &Tools<'_>, x: &[f32], prepared: &mut Prepared, out: &mut [f32]) {
        let tokens = x.len() / self.cols;
        prepared.clear();
        let mut out = Columns::new(&mut out[..tokens * self.rows], tokens);
        // Parts of one form share the preparation; the order of parts is kept, so a form may come back.
        let mut rest = &self.parts[..];
        while let Some(form) = rest.first().map(|part| part.form) {
            let (alike, others) = rest.split_at(rest.iter().take_while(|part| part.form == form).count());
            prepared.bring(tools.isa, form, x, tokens);
            let end = others.first().map_or(self.rows, |part| part.first_row);
            let out = out.take_before(end);
            run(tools, alike, (form, prepared), out);
            rest = others;
        }
    }

    fn panels(&self) -> usize {
        self.parts
            .last()
            .map_or(0, |part| part.first_panel + part.matrix.panels())
    }
}

/// A share of a product.
struct Share<'a> {
    panels: Range<usize>,
    out: Columns<'a>,
}

fn run(tools: &Tools<'_>, parts: &[Part], (form, prepared): (Form, &Prepared), mut out: Columns<'_>) {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
        return;
    };
    let panels = first.first_panel..last.first_panel + last.matrix.panels();
    let shared = match tools.hands.count() {
        1 => 1,
        count => (count * SHARES_EACH).min(panels.len()).min(MOST_SHARES),
    };
    let mut shares: [Option<Share<'_>>; MOST_SHARES] = std::array::from_fn(|_| None);
    let mut start = panels.start;
    for (i, share) in shares.iter_mut().enumerate().take(shared) {
        let end = panels.start + panels.len() * (i + 1) / shared;
        *share = Some(Share {
            panels: start..end,
            out: out.take_before(row_of(parts, end)),
        });
        start = end;
    }
    tools.hands.each(&mut shares[..shared], |_, share| {
        let Some(Share { panels, out }) = share else { return };
        for part in parts {
            let own = part.first_panel..part.first_panel + part.matrix.panels();
            let (from, to) = (panels.start.max(own.start), panels.end.min(own.end));
            if from < to {
                let job = Job {
                    matrix: &part.matrix,
                    lines: tools.lines,
                    panels: from - part.first_panel..to - part.first_panel,
                    prepared,
                    out,
                    first_row: part.first_row,
                };
                product(tools.isa, form, job);
            }
        }
    });
}

/// First row of the output that panel `panel` of the stack fills.
fn row_of(parts: &[Part], panel: usize) -> usize {
    match parts.iter().rev().find(|part| part.first_panel <= panel) {
        Some(part) => part.first_row + ((panel - part.first_panel) * PANEL_ROWS).min(part.matrix.blocks() * LANES),
        None => 0,
    }
}
