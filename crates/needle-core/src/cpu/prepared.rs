//! Activations as the product kernels want them.
//!
//! A packed group is a rotated group (see [`crate::quant`]), so the activations are rotated instead, once for all matrices
//! that read them. In 16 bits each rotated group is scaled by its own norm: `x ≈ integer·scale`, `‖integers‖ ≤ 2¹⁵`, which
//! keeps every later sum within 32 bits and costs about 10⁻⁴ of precision.
//!
//! Positions are taken in tiles; a tile's values lie as `[groups, positions, columns of a group]`.

use super::{
    hadamard::{CHUNK, registers, rotate_in},
    levels::NORM_LIMIT,
    matrix::CodeBits,
    simd::{Isa, LANES, Simd, kernel},
    vector::load_part,
};

/// What a kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The values themselves, for dense matrices; taken in groups all the same.
    Plain,
    /// Rotated in groups of this size.
    Rotated(usize),
    /// Rotated in groups of this size, then in 16 bits, paired for codes of these bits.
    Sixteen(usize, CodeBits),
}

/// The usual size of a group, for which kernels are compiled with constant distances.
pub(super) const USUAL: usize = 128;

impl Form {
    /// Columns of a group.
    pub(super) fn group(self) -> usize {
        match self {
            Self::Plain => USUAL,
            Self::Rotated(group) | Self::Sixteen(group, _) => group,
        }
    }
}

/// The activations of some positions in one form.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    form: Option<Form>,
    tokens: usize,
    /// Positions of the widest tile.
    widest: usize,
    group: usize,
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
    /// Positions that it computes: 1, 4, 8 or 12.
    pub(super) width: usize,
    /// Positions that count; the others are zero.
    pub(super) live: usize,
}

impl Tile {
    fn at(first: usize, tokens: usize, widest: usize) -> Self {
        let live = (tokens - first).min(widest);
        let width = match live {
            1 => 1,
            2..=4 => 4,
            5..=8 => 8,
            _ => 12,
        };
        Self { first, width, live }
    }
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
        self.form = Some(form);
        self.tokens = tokens;
        self.group = form.group();
        // Unusual groups have no kernels for wide tiles.
        self.widest = if self.group == USUAL { isa.widest() } else { 4 };
        self.width = cols.next_multiple_of(self.group);
        for first in (0..tokens).step_by(self.widest) {
            let tile = Tile::at(first, tokens, self.widest);
            for at in 0..tile.width {
                let x = if at < tile.live {
                    &x[(first + at) * cols..][..cols]
                } else {
                    &[]
                };
                self.keep(isa, form, (tile, at), x);
            }
        }
    }

    /// The tiles of what it holds.
    pub(super) fn tiles(&self) -> impl Iterator<Item = Tile> {
        let (tokens, widest) = (self.tokens, self.widest);
        (0..tokens)
            .step_by(widest)
            .map(move |first| Tile::at(first, tokens, widest))
    }

    /// A tile's values.
    pub(super) fn floats(&self, tile: Tile) -> &[f32] {
        &self.floats[tile.first * self.width..][..tile.width * self.width]
    }

    /// A tile's pairs.
    pub(super) fn pairs(&self, tile: Tile) -> &[i32] {
        &self.pairs[tile.first * self.width / 2..][..tile.width * self.width / 2]
    }

    /// A tile's scales: `[groups, positions]`.
    pub(super) fn scales(&self, tile: Tile) -> &[f32] {
        let groups = self.width / self.group;
        &self.scales[tile.first * groups..][..tile.width * groups]
    }

    /// Position `at` of a tile; `x` is empty for one that does not count.
    fn keep(&mut self, isa: Isa, form: Form, (tile, at): (Tile, usize), x: &[f32]) {
        let (group, groups) = (self.group, self.width / self.group);
        let floats = &mut self.floats[tile.first * self.width..][..tile.width * self.width];
        let pairs = &mut self.pairs[tile.first * self.width / 2..][..tile.width * self.width / 2];
        let scales = &mut self.scales[tile.first * groups..][..tile.width * groups];
        let to = To {
            width: tile.width,
            at,
            group,
        };
        match form {
            Form::Plain => copy_row(x, to, floats),
            Form::Rotated(_) => rotate_row(isa, x, to, floats),
            Form::Sixteen(_, CodeBits::Two) => round_2(isa, x, to, pairs, scales, &mut self.row),
            Form::Sixteen(_, CodeBits::Four) => round_4(isa, x, to, pairs, scales, &mut self.row),
        }
    }
}

/// Where a position's values go within its tile.
#[derive(Clone, Copy)]
struct To {
    /// Positions of the tile.
    width: usize,
    at: usize,
    group: usize,
}

/// Copies a row into its place in each group, zeros after its end.
fn copy_row(x: &[f32], to: To, tile: &mut [f32]) {
    let mut rest = x;
    for places in tile.chunks_exact_mut(to.width * to.group) {
        let (x, later) = rest.split_at(to.group.min(rest.len()));
        rest = later;
        let place = &mut places[to.at * to.group..][..to.group];
        place[..x.len()].copy_from_slice(x);
        place[x.len()..].fill(0.0);
    }
}

kernel!(fn rotate_row = rotate_row_in(x: &[f32], to: To, tile: &mut [f32]));

#[inline(always)]
fn rotate_row_in<S: Simd>(s: S, x: &[f32], to: To, tile: &mut [f32]) {
    let scale = 1.0 / (to.group as f32).sqrt();
    let mut rest = x;
    for places in tile.chunks_exact_mut(to.width * to.group) {
        let (x, later) = rest.split_at(to.group.min(rest.len()));
        rest = later;
        let place = &mut places[to.at * to.group..][..to.group];
        if to.group == CHUNK {
            let v = registers::<S, 8>(s, x, scale);
            for (v, place) in v.iter().zip(place.as_chunks_mut().0) {
                s.store(*v, place);
            }
        } else {
            place[..x.len()].copy_from_slice(x);
            place[x.len()..].fill(0.0);
            rotate_in(s, place);
        }
    }
}

kernel!(
    fn round_2 = round_row_2(x: &[f32], to: To, pairs: &mut [i32], scales: &mut [f32], row: &mut [f32])
);
kernel!(
    fn round_4 = round_row_4(x: &[f32], to: To, pairs: &mut [i32], scales: &mut [f32], row: &mut [f32])
);

#[inline(always)]
fn round_row_2<S: Simd>(s: S, x: &[f32], to: To, pairs: &mut [i32], scales: &mut [f32], row: &mut [f32]) {
    round_row::<S, 2>(s, x, to, pairs, scales, row);
}

#[inline(always)]
fn round_row_4<S: Simd>(s: S, x: &[f32], to: To, pairs: &mut [i32], scales: &mut [f32], row: &mut [f32]) {
    round_row::<S, 4>(s, x, to, pairs, scales, row);
}

#[inline(always)]
fn round_row<S: Simd, const BITS: i32>(
    s: S,
    x: &[f32],
    to: To,
    pairs: &mut [i32],
    scales: &mut [f32],
    row: &mut [f32],
) {
    let group = to.group;
    let mut rest = x;
    let places = pairs.chunks_exact_mut(to.width * group / 2);
    for (places, scales) in places.zip(scales.chunks_exact_mut(to.width)) {
        let (x, later) = rest.split_at(group.min(rest.len()));
        rest = later;
        let place = &mut places[to.at * group / 2..][..group / 2];
        scales[to.at] = if group == CHUNK {
            round_group::<S, BITS>(s, &registers::<S, 8>(s, x, 1.0 / (group as f32).sqrt()), place)
        } else {
            let row = &mut row[..group];
            row[..x.len()].copy_from_slice(x);
            row[x.len()..].fill(0.0);
            rotate_in(s, row);
            round_any::<S, BITS>(s, row, place)
        };
    }
}

/// A rotated group in 16 bits; its scale.
#[inline(always)]
fn round_group<S: Simd, const BITS: i32>(s: S, x: &[S::F], pairs: &mut [i32]) -> f32 {
    let mut squares = s.splat(0.0);
    for x in x {
        squares = s.fma(*x, *x, squares);
    }
    let norm = s.sum(squares).sqrt();
    let scale = s.splat(if norm > 0.0 { NORM_LIMIT / norm } else { 0.0 });
    for (x, pairs) in x.iter().zip(pairs.as_chunks_mut().0) {
        *pairs = s.pairs::<BITS>(s.round(s.mul(*x, scale)));
    }
    norm / NORM_LIMIT
}

/// The same for a group of any size.
#[inline(always)]
fn round_any<S: Simd, const BITS: i32>(s: S, x: &[f32], pairs: &mut [i32]) -> f32 {
    let mut squares = s.splat(0.0);
    for x in x.chunks(LANES) {
        let x = load_part(s, x);
        squares = s.fma(x, x, squares);
    }
    let norm = s.sum(squares).sqrt();
    let scale = s.splat(if norm > 0.0 { NORM_LIMIT / norm } else { 0.0 });
    for (x, pairs) in x.chunks(LANES).zip(pairs.chunks_mut(LANES / 2)) {
        let found = s.pairs::<BITS>(s.round(s.mul(load_part(s, x), scale)));
        let count = pairs.len();
        pairs.copy_from_slice(&found[..count]);
    }
    norm / NORM_LIMIT
}
