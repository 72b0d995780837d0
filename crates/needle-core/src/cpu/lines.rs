//! One head's stored keys and values, as lines of sixteen numbers.

use super::{
    simd::{LANES, Simd},
    stored::SCALE_GROUP,
};

/// Stored keys and values as lines of sixteen.
pub(super) trait Store: Copy {
    type Line;
    /// Whether lines are to be multiplied by scales.
    const SCALED: bool;

    /// Keys of a block, `[K]` lines.
    fn keys(&self, block: usize) -> &[Self::Line];
    /// Scales of sixteen slots' keys, of the entries from `d` on.
    fn key_scales(&self, block: usize, d: usize) -> &[f32; LANES];
    /// Values of a block's sixteen slots, `[16, lines of a value]`.
    fn values(&self, block: usize) -> &[Self::Line];
    /// Scale of line `line` of a slot's value.
    fn value_scale(&self, slot: usize, line: usize) -> f32;
    fn load<S: Simd>(s: S, line: &Self::Line) -> S::F;
}

#[derive(Clone, Copy)]
pub(super) struct Floats<'a> {
    pub(super) keys: &'a [[f32; LANES]],
    pub(super) values: &'a [[f32; LANES]],
    pub(super) key_width: usize,
    pub(super) value_lines: usize,
}

impl Store for Floats<'_> {
    type Line = [f32; LANES];
    const SCALED: bool = false;

    #[inline(always)]
    fn keys(&self, block: usize) -> &[Self::Line] {
        &self.keys[block * self.key_width..][..self.key_width]
    }
    #[inline(always)]
    fn key_scales(&self, _: usize, _: usize) -> &[f32; LANES] {
        &[1.0; LANES]
    }
    #[inline(always)]
    fn values(&self, block: usize) -> &[Self::Line] {
        &self.values[block * LANES * self.value_lines..][..LANES * self.value_lines]
    }
    #[inline(always)]
    fn value_scale(&self, _: usize, _: usize) -> f32 {
        1.0
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, line: &Self::Line) -> S::F {
        s.load(line)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Halves<'a> {
    pub(super) keys: &'a [[u16; LANES]],
    pub(super) values: &'a [[u16; LANES]],
    pub(super) key_width: usize,
    pub(super) value_lines: usize,
}

impl Store for Halves<'_> {
    type Line = [u16; LANES];
    const SCALED: bool = false;

    #[inline(always)]
    fn keys(&self, block: usize) -> &[Self::Line] {
        &self.keys[block * self.key_width..][..self.key_width]
    }
    #[inline(always)]
    fn key_scales(&self, _: usize, _: usize) -> &[f32; LANES] {
        &[1.0; LANES]
    }
    #[inline(always)]
    fn values(&self, block: usize) -> &[Self::Line] {
        &self.values[block * LANES * self.value_lines..][..LANES * self.value_lines]
    }
    #[inline(always)]
    fn value_scale(&self, _: usize, _: usize) -> f32 {
        1.0
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, line: &Self::Line) -> S::F {
        s.load_f16(line)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Bytes<'a> {
    pub(super) keys: &'a [[i8; LANES]],
    pub(super) key_scales: &'a [[f32; LANES]],
    pub(super) values: &'a [[i8; LANES]],
    pub(super) value_scales: &'a [f32],
    pub(super) key_width: usize,
    pub(super) value_lines: usize,
}

impl Store for Bytes<'_> {
    type Line = [i8; LANES];
    const SCALED: bool = true;

    #[inline(always)]
    fn keys(&self, block: usize) -> &[Self::Line] {
        &self.keys[block * self.key_width..][..self.key_width]
    }
    #[inline(always)]
    fn key_scales(&self, block: usize, d: usize) -> &[f32; LANES] {
        &self.key_scales[block * self.key_width.div_ceil(SCALE_GROUP) + d / SCALE_GROUP]
    }
    #[inline(always)]
    fn values(&self, block: usize) -> &[Self::Line] {
        &self.values[block * LANES * self.value_lines..][..LANES * self.value_lines]
    }
    #[inline(always)]
    fn value_scale(&self, slot: usize, line: usize) -> f32 {
        const LINES: usize = SCALE_GROUP / LANES;
        self.value_scales[slot * self.value_lines.div_ceil(LINES) + line / LINES]
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, line: &Self::Line) -> S::F {
        s.load_i8(line)
    }
}
