//! Sixteen lanes in plain Rust, for every processor.
//!
//! Loops of sixteen over arrays: the compiler makes of them what the target's baseline offers.

use half::f16;

use super::{LANES, Line, Simd};

#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Portable;

macro_rules! each {
    ($i:ident => $e:expr) => {{
        let mut y = [Default::default(); LANES];
        for ($i, y) in y.iter_mut().enumerate() {
            *y = $e;
        }
        y
    }};
}

impl Simd for Portable {
    type F = [f32; LANES];
    type I = [i32; LANES];
    type Levels = [f32; 16];
    type Levels16 = [i16; 16];
    /// Two columns a row.
    type Step = [[i16; 2]; LANES];
    type Sums = [i32; LANES];

    const STEP_PAIRS: usize = 1;
    const WIDEST: usize = 4;
    const BLOCKS_16: usize = 1;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::F {
        *x
    }
    #[inline(always)]
    fn store(self, v: Self::F, x: &mut [f32; LANES]) {
        *x = v;
    }
    #[inline(always)]
    fn load_bits(self, line: &Line) -> Self::F {
        each!(i => f32::from_bits(line.0[i]))
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        each!(i => a[i] + b[i])
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        each!(i => a[i] - b[i])
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        each!(i => a[i] * b[i])
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        each!(i => a[i] / b[i])
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        each!(i => if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        each!(i => if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // Where the baseline has no fused instruction, `mul_add` would be a call for every lane.
        if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
            each!(i => a[i].mul_add(b[i], c[i]))
        } else {
            each!(i => a[i] * b[i] + c[i])
        }
    }
    #[inline(always)]
    fn swap<const H: usize>(self, v: Self::F) -> Self::F {
        each!(i => v[i ^ H])
    }
    #[inline(always)]
    fn butterfly<const H: usize>(self, v: Self::F) -> Self::F {
        each!(i => if i & H == 0 { v[i] + v[i ^ H] } else { v[i ^ H] - v[i] })
    }
    #[inline(always)]
    fn keep(self, v: Self::F, bits: u16, other: f32) -> Self::F {
        each!(i => if bits >> i & 1 == 1 { v[i] } else { other })
    }
    #[inline(always)]
    fn round(self, v: Self::F) -> Self::I {
        each!(i => v[i].round_ties_even() as i32)
    }
    #[inline(always)]
    fn to_f32(self, v: Self::I) -> Self::F {
        each!(i => v[i] as f32)
    }
    #[inline(always)]
    fn scale_by_power(self, v: Self::F, n: Self::I) -> Self::F {
        each!(i => f32::from_bits(v[i].to_bits().wrapping_add((n[i] as u32) << 23)))
    }
    #[inline(always)]
    fn load_i8(self, x: &[i8; LANES]) -> Self::F {
        each!(i => f32::from(x[i]))
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; LANES]) -> Self::F {
        each!(i => f16::from_bits(x[i]).to_f32())
    }
    #[inline(always)]
    fn store_f16(self, v: Self::F, x: &mut [u16; LANES]) {
        *x = each!(i => f16::from_f32(v[i]).to_bits());
    }

    #[inline(always)]
    fn load_codes(self, line: &Line) -> Self::I {
        each!(i => line.0[i] as i32)
    }
    #[inline(always)]
    fn prefetch<T>(self, _: &T, _: usize) {}
    #[inline(always)]
    fn shift<const BITS: i32>(self, codes: Self::I) -> Self::I {
        each!(i => ((codes[i] as u32) >> BITS) as i32)
    }
    #[inline(always)]
    fn levels(self, levels: &[f32; 16]) -> Self::Levels {
        *levels
    }
    #[inline(always)]
    fn look_up<const BITS: i32>(self, levels: Self::Levels, codes: Self::I) -> Self::F {
        each!(i => levels[codes[i] as usize % 16])
    }

    #[inline(always)]
    fn levels16(self, levels: &[i16; 16]) -> Self::Levels16 {
        *levels
    }
    #[inline(always)]
    fn look_up16<const BITS: i32>(self, levels: Self::Levels16, codes: Self::I) -> Self::Step {
        each!(i => [levels[codes[i] as usize % 16], levels[(codes[i] >> 16) as usize % 16]])
    }
    #[inline(always)]
    fn zero_sums(self) -> Self::Sums {
        [0; LANES]
    }
    #[inline(always)]
    fn dot(self, sums: Self::Sums, step: Self::Step, first: i32, _: i32) -> Self::Sums {
        let (low, high) = (i32::from(first as i16), first >> 16);
        each!(i => {
            let [a, b] = step[i];
            sums[i].wrapping_add(i32::from(a) * low).wrapping_add(i32::from(b) * high)
        })
    }
    #[inline(always)]
    fn add_sums(self, a: Self::Sums, b: Self::Sums) -> Self::Sums {
        each!(i => a[i].wrapping_add(b[i]))
    }
    #[inline(always)]
    fn total(self, sums: Self::Sums) -> Self::I {
        sums
    }
    #[inline(always)]
    fn pairs<const BITS: i32>(self, x: Self::I) -> [i32; 8] {
        let mut pairs = [0; 8];
        for (i, pair) in pairs.iter_mut().enumerate() {
            let at = if BITS == 2 { i } else { i / 4 * 8 + i % 4 };
            let other = at + if BITS == 2 { 8 } else { 4 };
            *pair = (x[at] as u16 as i32) | x[other] << 16;
        }
        pairs
    }
}
