//! Activations as the product kernels want them.
//!
//! A packed group is a rotated group (see [`crate::quant`]), so the activations are rotated instead, once for all matrices
//! that read them. In 16 bits each rotated group is scaled by its own norm: `x ≈ integer·scale`, `‖integers‖ ≤ 2¹⁵`, which
//! keeps every later sum within 32 bits and costs about 10⁻⁴ of precision.
//!
//! Positions are taken in tiles of up to [`Simd::WIDEST`]; within a tile the positions' values lie side by side.

use super::{
    hadamard::rotate_groups,
    levels::NORM_LIMIT,
    matrix::CodeBits,
    simd::{Isa, LANES, Simd, kernel},
    vector::load_part,
};

/// What a kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The values themselves, for dense matrices.
    Plain,
    /// Rotated in groups of this size.
    Rotated(usize),
    /// Rotated in groups of this size, then in 16 bits, paired for codes of these bits.
    Sixteen(usize, CodeBits),
}

/// The activations of some positions in one form.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    form: Option<Form>,
    tokens: usize,
    /// Columns, filled up to whole groups.
    width: usize,
    floats: Vec<f32>,
    pairs: Vec<i32>,
    scales: Vec<f32>,
    row: Vec<f32>,
}

/// Some positions that a kernel takes at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub(super) first: usize,
    /// Positions that it computes, [`Simd::WIDEST`] or fewer.
    pub(super) width: usize,
    /// Positions that count; the others are zero.
    pub(super) live: usize,
}

/// `tokens` positions in tiles of at most `widest`.
pub(super) fn tiles(tokens: usize, widest: usize) -> impl Iterator<Item = Tile> {
    (0..tokens).step_by(widest).map(move |first| {
        let live = (tokens - first).min(widest);
        let width = match live {
            1 => 1,
            2..=4 => 4.min(widest),
            5..=8 => 8.min(widest),
            _ => widest,
        };
        Tile { first, width, live }
    })
}

impl Prepared {
    /// Room for `tokens` positions of at most `width` columns, in groups of at least eight.
    pub(super) fn new(tokens: usize, width: usize, widest: usize) -> Self {
        let places = tokens.next_multiple_of(widest);
        Self {
            floats: vec![0.0; places * width],
            pairs: vec![0; places * width / 2],
            scales: vec![0.0; places * width / 8],
            row: vec![0.0; width],
            ..Self::default()
        }
    }

    /// Forgets what it holds: the activations have changed.
    pub(super) fn clear(&mut self) {
        self.form = None;
    }

    /// Brings `x: [tokens, cols]` into a form, unless it is in that form already.
    pub(super) fn bring(&mut self, isa: Isa, form: Form, x: &[f32], tokens: usize) {
        if self.form == Some(form) {
            return;
        }
        let cols = x.len() / tokens;
        let group = match form {
            Form::Plain => 1,
            Form::Rotated(group) | Form::Sixteen(group, _) => group,
        };
        self.form = Some(form);
        self.tokens = tokens;
        self.width = cols.next_multiple_of(group);
        for tile in tiles(tokens, isa.widest()) {
            for at in 0..tile.width {
                let row = &mut self.row[..self.width];
                let count = if at < tile.live { cols } else { 0 };
                if count > 0 {
                    row[..cols].copy_from_slice(&x[(tile.first + at) * cols..][..cols]);
                }
                row[count..].fill(0.0);
                if count > 0 && group > 1 {
                    rotate_groups(isa, row, group);
                }
                let place = Place { tile, at };
                match form {
                    Form::Plain | Form::Rotated(_) => self.keep_floats(place),
                    Form::Sixteen(group, bits) => self.keep_pairs(isa, place, group, bits),
                }
            }
        }
    }

    /// The tiles of what it holds.
    pub(super) fn tiles(&self, widest: usize) -> impl Iterator<Item = Tile> {
        tiles(self.tokens, widest)
    }

    /// A tile's values: `[columns, positions]`.
    pub(super) fn floats(&self, tile: Tile) -> &[f32] {
        &self.floats[tile.first * self.width..][..tile.width * self.width]
    }

    /// A tile's pairs: `[steps, positions, pairs of a step]`.
    pub(super) fn pairs(&self, tile: Tile) -> &[i32] {
        &self.pairs[tile.first * self.width / 2..][..tile.width * self.width / 2]
    }

    /// A tile's scales: `[groups, positions]`.
    pub(super) fn scales(&self, tile: Tile, groups: usize) -> &[f32] {
        &self.scales[tile.first * groups..][..tile.width * groups]
    }

    fn keep_floats(&mut self, Place { tile, at }: Place) {
        let values = &mut self.floats[tile.first * self.width..][..tile.width * self.width];
        for (values, x) in values.chunks_exact_mut(tile.width).zip(&self.row) {
            values[at] = *x;
        }
    }

    fn keep_pairs(&mut self, isa: Isa, Place { tile, at }: Place, group: usize, bits: CodeBits) {
        let groups = self.width / group;
        let pairs = &mut self.pairs[tile.first * self.width / 2..][..tile.width * self.width / 2];
        let scales = &mut self.scales[tile.first * groups..][..tile.width * groups];
        let to = Sixteen {
            pairs,
            scales,
            width: tile.width,
            at,
        };
        match bits {
            CodeBits::Two => round_2(isa, &self.row[..self.width], group, to),
            CodeBits::Four => round_4(isa, &self.row[..self.width], group, to),
        }
    }
}

struct Place {
    tile: Tile,
    at: usize,
}

/// Where a position's pairs and scales go.
struct Sixteen<'a> {
    pairs: &'a mut [i32],
    scales: &'a mut [f32],
    width: usize,
    at: usize,
}

kernel!(fn round_2 = round_row_2(x: &[f32], group: usize, to: Sixteen<'_>));
kernel!(fn round_4 = round_row_4(x: &[f32], group: usize, to: Sixteen<'_>));

#[inline(always)]
fn round_row_2<S: Simd>(s: S, x: &[f32], group: usize, to: Sixteen<'_>) {
    round_row::<S, 2>(s, x, group, to);
}

#[inline(always)]
fn round_row_4<S: Simd>(s: S, x: &[f32], group: usize, to: Sixteen<'_>) {
    round_row::<S, 4>(s, x, group, to);
}

#[inline(always)]
fn round_row<S: Simd, const BITS: i32>(s: S, x: &[f32], group: usize, to: Sixteen<'_>) {
    let Sixteen {
        pairs,
        scales,
        width,
        at,
    } = to;
    let pairs_of_group = group / 2;
    for (g, x) in x.chunks_exact(group).enumerate() {
        let mut squares = s.splat(0.0);
        for x in x.chunks(LANES) {
            let x = load_part(s, x);
            squares = s.fma(x, x, squares);
        }
        let norm = s.sum(squares).sqrt();
        let scale = if norm > 0.0 { NORM_LIMIT / norm } else { 0.0 };
        scales[g * width + at] = norm / NORM_LIMIT;
        for (i, x) in x.chunks(LANES).enumerate() {
            let integers = s.round(s.mul(load_part(s, x), s.splat(scale)));
            let found = s.pairs::<BITS>(integers);
            for (p, pair) in found[..x.len() / 2].iter().enumerate() {
                let p = g * pairs_of_group + i * LANES / 2 + p;
                let (step, within) = (p / S::STEP_PAIRS, p % S::STEP_PAIRS);
                pairs[(step * width + at) * S::STEP_PAIRS + within] = *pair;
            }
        }
    }
}
