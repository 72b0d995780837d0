//! NEON, which every 64-bit Arm processor has: a vector of sixteen lanes is four registers.

use std::arch::{aarch64::*, asm};

use super::{LANES, Line, Simd};

/// Proof that the instructions are there.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Neon(());

impl Neon {
    /// The proof, where the processor and the system have the instructions.
    pub(super) fn detect() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }
}

// A value of this type exists only where the instructions were found, and memory is reached through references of exactly
// the length that is read or written.
macro_rules! proven {
    ($e:expr) => {
        // SAFETY: see above.
        unsafe { $e }
    };
}

/// An instruction on all four registers.
macro_rules! four {
    ($f:ident $(::<$c:literal>)? ($($a:expr),*)) => {
        proven!([
            $f $(::<$c>)? ($($a[0]),*),
            $f $(::<$c>)? ($($a[1]),*),
            $f $(::<$c>)? ($($a[2]),*),
            $f $(::<$c>)? ($($a[3]),*),
        ])
    };
}

/// The same constant for all four registers, to stand among [`four!`]'s arguments.
fn all<T: Copy>(x: T) -> [T; 4] {
    [x; 4]
}

/// Lanes whose bit `H` is set get the sign of minus.
const fn signs(h: usize) -> [f32; LANES] {
    let mut signs = [1.0; LANES];
    let mut i = 0;
    while i < LANES {
        if i & h != 0 {
            signs[i] = -1.0;
        }
        i += 1;
    }
    signs
}

/// Bit `i` alone in lane `i`.
const BIT: [u32; LANES] = {
    let mut bits = [0; LANES];
    let mut i = 0;
    while i < LANES {
        bits[i] = 1 << i;
        i += 1;
    }
    bits
};

/// Within eight words: pairs (0, 2), (4, 6), (1, 3), (5, 7), as bytes.
const PAIRS_4: [u8; 16] = [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15];
/// Within eight words: pairs (0, 4), (1, 5), (2, 6), (3, 7), as bytes.
const PAIRS_2: [u8; 16] = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];

/// Four half-precision numbers, by their bits, as float32.
#[inline(always)]
fn widen(half: uint16x4_t) -> float32x4_t {
    let wide: float32x4_t;
    // SAFETY: one instruction on registers, part of the base set.
    unsafe {
        asm!(
            "fcvtl {wide:v}.4s, {half:v}.4h",
            wide = out(vreg) wide,
            half = in(vreg) half,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    wide
}

/// To the nearest half-precision numbers.
#[inline(always)]
fn narrow(wide: float32x4_t) -> uint16x4_t {
    let half: uint16x4_t;
    // SAFETY: one instruction on registers, part of the base set.
    unsafe {
        asm!(
            "fcvtn {half:v}.4h, {wide:v}.4s",
            half = out(vreg) half,
            wide = in(vreg) wide,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    half
}

impl Simd for Neon {
    type F = [float32x4_t; 4];
    type I = [int32x4_t; 4];
    type Levels = uint8x16x4_t;
    /// Low bytes of the levels, then their high bytes.
    type Levels16 = [uint8x16_t; 2];
    /// Four columns, each of rows 0 to 7 and of rows 8 to 15.
    type Step = [[int16x8_t; 2]; 4];
    type Sums = [int32x4_t; 4];

    const STEP_PAIRS: usize = 2;
    const WIDEST: usize = 4;
    const BLOCKS_16: usize = 1;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        all(proven!(vdupq_n_f32(x)))
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::F {
        let p = x.as_ptr();
        proven!([
            vld1q_f32(p),
            vld1q_f32(p.add(4)),
            vld1q_f32(p.add(8)),
            vld1q_f32(p.add(12))
        ])
    }
    #[inline(always)]
    fn store(self, v: Self::F, x: &mut [f32; LANES]) {
        let p = x.as_mut_ptr();
        proven!({
            vst1q_f32(p, v[0]);
            vst1q_f32(p.add(4), v[1]);
            vst1q_f32(p.add(8), v[2]);
            vst1q_f32(p.add(12), v[3]);
        });
    }
    #[inline(always)]
    fn load_bits(self, line: &Line) -> Self::F {
        let words = self.load_codes(line);
        four!(vreinterpretq_f32_s32(words))
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        four!(vaddq_f32(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        four!(vsubq_f32(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        four!(vmulq_f32(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        four!(vdivq_f32(a, b))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        four!(vmaxq_f32(a, b))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        four!(vminq_f32(a, b))
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        four!(vfmaq_f32(c, a, b))
    }
    #[inline(always)]
    fn swap<const H: usize>(self, v: Self::F) -> Self::F {
        match H {
            1 => four!(vrev64q_f32(v)),
            2 => four!(vextq_f32::<2>(v, v)),
            4 => [v[1], v[0], v[3], v[2]],
            _ => [v[2], v[3], v[0], v[1]],
        }
    }
    #[inline(always)]
    fn butterfly<const H: usize>(self, v: Self::F) -> Self::F {
        let signs = self.load(&const { signs(H) });
        self.fma(v, signs, self.swap::<H>(v))
    }
    #[inline(always)]
    fn keep(self, v: Self::F, bits: u16, other: f32) -> Self::F {
        let (bits, other) = proven!((vdupq_n_u32(u32::from(bits)), vdupq_n_f32(other)));
        let lane = BIT.as_ptr();
        let lanes = proven!([
            vld1q_u32(lane),
            vld1q_u32(lane.add(4)),
            vld1q_u32(lane.add(8)),
            vld1q_u32(lane.add(12))
        ]);
        let (bits, other) = (all(bits), all(other));
        let kept = four!(vtstq_u32(bits, lanes));
        four!(vbslq_f32(kept, v, other))
    }
    #[inline(always)]
    fn round(self, v: Self::F) -> Self::I {
        four!(vcvtnq_s32_f32(v))
    }
    #[inline(always)]
    fn to_f32(self, v: Self::I) -> Self::F {
        four!(vcvtq_f32_s32(v))
    }
    #[inline(always)]
    fn scale_by_power(self, v: Self::F, n: Self::I) -> Self::F {
        let (v, n) = (four!(vreinterpretq_s32_f32(v)), four!(vshlq_n_s32::<23>(n)));
        let scaled = four!(vaddq_s32(v, n));
        four!(vreinterpretq_f32_s32(scaled))
    }
    #[inline(always)]
    fn load_i8(self, x: &[i8; LANES]) -> Self::F {
        let x = proven!({
            let x = vld1q_s8(x.as_ptr());
            let (low, high) = (vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x));
            [
                vmovl_s16(vget_low_s16(low)),
                vmovl_high_s16(low),
                vmovl_s16(vget_low_s16(high)),
                vmovl_high_s16(high),
            ]
        });
        self.to_f32(x)
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; LANES]) -> Self::F {
        let p = x.as_ptr();
        proven!([
            widen(vld1_u16(p)),
            widen(vld1_u16(p.add(4))),
            widen(vld1_u16(p.add(8))),
            widen(vld1_u16(p.add(12)))
        ])
    }
    #[inline(always)]
    fn store_f16(self, v: Self::F, x: &mut [u16; LANES]) {
        let p = x.as_mut_ptr();
        proven!({
            vst1_u16(p, narrow(v[0]));
            vst1_u16(p.add(4), narrow(v[1]));
            vst1_u16(p.add(8), narrow(v[2]));
            vst1_u16(p.add(12), narrow(v[3]));
        });
    }

    #[inline(always)]
    fn load_codes(self, line: &Line) -> Self::I {
        let p: *const i32 = line.0.as_ptr().cast();
        proven!([
            vld1q_s32(p),
            vld1q_s32(p.add(4)),
            vld1q_s32(p.add(8)),
            vld1q_s32(p.add(12))
        ])
    }
    #[inline(always)]
    fn prefetch<T>(self, place: &T, ahead: usize) {
        let place = std::ptr::from_ref(place).cast::<u8>().wrapping_add(ahead);
        // SAFETY: fetching ahead reads nothing; an address that does not exist is ignored.
        unsafe { asm!("prfm pldl1keep, [{place}]", place = in(reg) place, options(readonly, nostack, preserves_flags)) }
    }
    #[inline(always)]
    fn shift<const BITS: i32>(self, codes: Self::I) -> Self::I {
        let words = four!(vreinterpretq_u32_s32(codes));
        let words = match BITS {
            2 => four!(vshrq_n_u32::<2>(words)),
            _ => four!(vshrq_n_u32::<4>(words)),
        };
        four!(vreinterpretq_s32_u32(words))
    }
    #[inline(always)]
    fn levels(self, levels: &[f32; 16]) -> Self::Levels {
        let [a, b, c, d] = self.load(levels);
        proven!(uint8x16x4_t(
            vreinterpretq_u8_f32(a),
            vreinterpretq_u8_f32(b),
            vreinterpretq_u8_f32(c),
            vreinterpretq_u8_f32(d)
        ))
    }
    #[inline(always)]
    fn look_up<const BITS: i32>(self, levels: Self::Levels, codes: Self::I) -> Self::F {
        // The bytes of a level are looked up one by one: byte `i` of the level numbered `c` is byte `4c + i` of the table.
        let (mask, four_times, within) = proven!((
            vdupq_n_u32(if BITS == 2 { 3 } else { 15 }),
            vdupq_n_u32(0x0404_0404),
            vdupq_n_u32(0x0302_0100)
        ));
        let (mask, four_times, within) = (all(mask), all(four_times), all(within));
        let codes = four!(vreinterpretq_u32_s32(codes));
        let codes = four!(vandq_u32(codes, mask));
        let places = four!(vmlaq_u32(within, codes, four_times));
        let places = four!(vreinterpretq_u8_u32(places));
        let bytes = if BITS == 2 {
            let table = all(levels.0);
            four!(vqtbl1q_u8(table, places))
        } else {
            let table = all(levels);
            four!(vqtbl4q_u8(table, places))
        };
        four!(vreinterpretq_f32_u8(bytes))
    }

    #[inline(always)]
    fn levels16(self, levels: &[i16; 16]) -> Self::Levels16 {
        let (mut low, mut high) = ([0u8; 16], [0u8; 16]);
        for ((low, high), level) in low.iter_mut().zip(&mut high).zip(levels) {
            [*low, *high] = level.to_le_bytes();
        }
        proven!([vld1q_u8(low.as_ptr()), vld1q_u8(high.as_ptr())])
    }
    #[inline(always)]
    fn look_up16<const BITS: i32>(self, levels: Self::Levels16, codes: Self::I) -> Self::Step {
        let [low, high] = levels;
        let words = four!(vreinterpretq_u8_s32(codes));
        proven!({
            let mask = vdupq_n_u8(if BITS == 2 { 3 } else { 15 });
            // Byte 0 of all sixteen words, then byte 1 of all, 2 and 3: a column each.
            let (even, odd) = (vuzp1q_u8(words[0], words[1]), vuzp2q_u8(words[0], words[1]));
            let (later_even, later_odd) = (vuzp1q_u8(words[2], words[3]), vuzp2q_u8(words[2], words[3]));
            let columns = [
                vuzp1q_u8(even, later_even),
                vuzp1q_u8(odd, later_odd),
                vuzp2q_u8(even, later_even),
                vuzp2q_u8(odd, later_odd),
            ];
            let mut step = [[vdupq_n_s16(0); 2]; 4];
            let mut column = 0;
            while column < 4 {
                let codes = vandq_u8(columns[column], mask);
                let (low, high) = (vqtbl1q_u8(low, codes), vqtbl1q_u8(high, codes));
                step[column] = [
                    vreinterpretq_s16_u8(vzip1q_u8(low, high)),
                    vreinterpretq_s16_u8(vzip2q_u8(low, high)),
                ];
                column += 1;
            }
            step
        })
    }
    #[inline(always)]
    fn zero_sums(self) -> Self::Sums {
        all(proven!(vdupq_n_s32(0)))
    }
    #[inline(always)]
    fn dot(self, sums: Self::Sums, step: Self::Step, first: i32, last: i32) -> Self::Sums {
        /// Adds the column numbered `$c`.
        macro_rules! column {
            ($sums:expr, $x:ident, $c:literal) => {{
                let [low, high] = step[$c];
                [
                    vmlal_lane_s16::<$c>($sums[0], vget_low_s16(low), $x),
                    vmlal_high_lane_s16::<$c>($sums[1], low, $x),
                    vmlal_lane_s16::<$c>($sums[2], vget_low_s16(high), $x),
                    vmlal_high_lane_s16::<$c>($sums[3], high, $x),
                ]
            }};
        }
        proven!({
            let x = vcreate_s16(u64::from(first as u32) | u64::from(last as u32) << 32);
            let sums = column!(sums, x, 0);
            let sums = column!(sums, x, 1);
            let sums = column!(sums, x, 2);
            column!(sums, x, 3)
        })
    }
    #[inline(always)]
    fn add_sums(self, a: Self::Sums, b: Self::Sums) -> Self::Sums {
        four!(vaddq_s32(a, b))
    }
    #[inline(always)]
    fn total(self, sums: Self::Sums) -> Self::I {
        sums
    }
    #[inline(always)]
    fn pairs<const BITS: i32>(self, x: Self::I) -> [i32; 8] {
        let mut pairs = [0; 8];
        let order = if BITS == 2 { &PAIRS_2 } else { &PAIRS_4 };
        proven!({
            let order = vld1q_u8(order.as_ptr());
            let low = vmovn_high_s32(vmovn_s32(x[0]), x[1]);
            let high = vmovn_high_s32(vmovn_s32(x[2]), x[3]);
            let low = vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s16(low), order));
            let high = vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s16(high), order));
            let place: *mut i32 = pairs.as_mut_ptr();
            if BITS == 2 {
                vst1q_s32(place, vzip1q_s32(low, high));
                vst1q_s32(place.add(4), vzip2q_s32(low, high));
            } else {
                vst1q_s32(place, low);
                vst1q_s32(place.add(4), high);
            }
        });
        pairs
    }
}
