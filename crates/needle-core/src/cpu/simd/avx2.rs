//! AVX2 with fused multiply-add and half-precision conversion: a vector of sixteen lanes is two registers.

use std::arch::x86_64::*;

use super::{LANES, Line, Simd};

/// Proof that the instructions are there.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Avx2(());

impl Avx2 {
    /// The proof, where the processor and the system have the instructions.
    pub(super) fn detect() -> Option<Self> {
        let all =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        all.then_some(Self(()))
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

/// An instruction on both halves.
macro_rules! both {
    ($f:ident $(::<$c:literal>)? ($($a:ident),*)) => {
        proven!([$f $(::<$c>)? ($($a[0]),*), $f $(::<$c>)? ($($a[1]),*)])
    };
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
const BIT: [i32; LANES] = {
    let mut bits = [0; LANES];
    let mut i = 0;
    while i < LANES {
        bits[i] = 1 << i;
        i += 1;
    }
    bits
};

/// Within eight words: pairs (0, 2), (4, 6), (1, 3), (5, 7), as bytes.
const PAIRS_4: [i8; 16] = [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15];
/// Within eight words: pairs (0, 4), (1, 5), (2, 6), (3, 7), as bytes.
const PAIRS_2: [i8; 16] = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];
/// The first half's pairs and the second half's in turn.
const IN_TURN: [i32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

impl Simd for Avx2 {
    type F = [__m256; 2];
    type I = [__m256i; 2];
    type Levels = [__m256; 2];
    /// Low bytes of the levels, then their high bytes.
    type Levels16 = [__m256i; 2];
    /// For each half of the rows, the levels of its rows 0, 1, 4, 5 and of its rows 2, 3, 6, 7, four columns a row.
    type Step = [[__m256i; 2]; 2];
    type Sums = [[__m256i; 2]; 2];

    const STEP_PAIRS: usize = 2;
    const WIDEST: usize = 4;
    const BLOCKS_16: usize = 1;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        let x = proven!(_mm256_set1_ps(x));
        [x, x]
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::F {
        proven!([_mm256_loadu_ps(x.as_ptr()), _mm256_loadu_ps(x.as_ptr().add(8))])
    }
    #[inline(always)]
    fn store(self, v: Self::F, x: &mut [f32; LANES]) {
        proven!({
            _mm256_storeu_ps(x.as_mut_ptr(), v[0]);
            _mm256_storeu_ps(x.as_mut_ptr().add(8), v[1]);
        });
    }
    #[inline(always)]
    fn load_bits(self, line: &Line) -> Self::F {
        let p: *const f32 = line.0.as_ptr().cast();
        proven!([_mm256_load_ps(p), _mm256_load_ps(p.add(8))])
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_min_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        both!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn swap<const H: usize>(self, v: Self::F) -> Self::F {
        match H {
            1 => both!(_mm256_permute_ps::<0b10_11_00_01>(v)),
            2 => both!(_mm256_permute_ps::<0b01_00_11_10>(v)),
            4 => proven!([
                _mm256_permute2f128_ps::<1>(v[0], v[0]),
                _mm256_permute2f128_ps::<1>(v[1], v[1])
            ]),
            _ => [v[1], v[0]],
        }
    }
    #[inline(always)]
    fn butterfly<const H: usize>(self, v: Self::F) -> Self::F {
        let signs = self.load(&const { signs(H) });
        self.fma(v, signs, self.swap::<H>(v))
    }
    #[inline(always)]
    fn keep(self, v: Self::F, bits: u16, other: f32) -> Self::F {
        proven!({
            let other = _mm256_set1_ps(other);
            let bits = _mm256_set1_epi32(i32::from(bits));
            let lane: *const __m256i = BIT.as_ptr().cast();
            let (low, high) = (_mm256_loadu_si256(lane), _mm256_loadu_si256(lane.add(1)));
            let low = _mm256_cmpeq_epi32(_mm256_and_si256(bits, low), low);
            let high = _mm256_cmpeq_epi32(_mm256_and_si256(bits, high), high);
            [
                _mm256_blendv_ps(other, v[0], _mm256_castsi256_ps(low)),
                _mm256_blendv_ps(other, v[1], _mm256_castsi256_ps(high)),
            ]
        })
    }
    #[inline(always)]
    fn round(self, v: Self::F) -> Self::I {
        both!(_mm256_cvtps_epi32(v))
    }
    #[inline(always)]
    fn to_f32(self, v: Self::I) -> Self::F {
        both!(_mm256_cvtepi32_ps(v))
    }
    #[inline(always)]
    fn scale_by_power(self, v: Self::F, n: Self::I) -> Self::F {
        let (v, n) = (both!(_mm256_castps_si256(v)), both!(_mm256_slli_epi32::<23>(n)));
        let scaled = both!(_mm256_add_epi32(v, n));
        both!(_mm256_castsi256_ps(scaled))
    }
    #[inline(always)]
    fn load_i8(self, x: &[i8; LANES]) -> Self::F {
        proven!({
            let x = _mm_loadu_si128(x.as_ptr().cast());
            [
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(x, x))),
            ]
        })
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; LANES]) -> Self::F {
        let p: *const __m128i = x.as_ptr().cast();
        proven!([
            _mm256_cvtph_ps(_mm_loadu_si128(p)),
            _mm256_cvtph_ps(_mm_loadu_si128(p.add(1)))
        ])
    }
    #[inline(always)]
    fn store_f16(self, v: Self::F, x: &mut [u16; LANES]) {
        let p: *mut __m128i = x.as_mut_ptr().cast();
        proven!({
            _mm_storeu_si128(p, _mm256_cvtps_ph::<0>(v[0]));
            _mm_storeu_si128(p.add(1), _mm256_cvtps_ph::<0>(v[1]));
        });
    }

    #[inline(always)]
    fn load_codes(self, line: &Line) -> Self::I {
        let p: *const __m256i = line.0.as_ptr().cast();
        proven!([_mm256_load_si256(p), _mm256_load_si256(p.add(1))])
    }
    #[inline(always)]
    fn prefetch<T>(self, place: &T, ahead: usize) {
        // SAFETY: fetching ahead reads nothing; an address that does not exist is ignored.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast::<i8>().wrapping_add(ahead)) }
    }
    #[inline(always)]
    fn shift<const BITS: i32>(self, codes: Self::I) -> Self::I {
        match BITS {
            2 => both!(_mm256_srli_epi32::<2>(codes)),
            _ => both!(_mm256_srli_epi32::<4>(codes)),
        }
    }
    #[inline(always)]
    fn levels(self, levels: &[f32; 16]) -> Self::Levels {
        self.load(levels)
    }
    #[inline(always)]
    fn look_up<const BITS: i32>(self, levels: Self::Levels, codes: Self::I) -> Self::F {
        let [low, high] = levels;
        if BITS == 2 {
            return proven!([_mm256_permutevar_ps(low, codes[0]), _mm256_permutevar_ps(low, codes[1])]);
        }
        // Three bits choose within a register, the fourth, moved to the sign, between the two.
        let choose = both!(_mm256_slli_epi32::<28>(codes));
        proven!([
            _mm256_blendv_ps(
                _mm256_permutevar8x32_ps(low, codes[0]),
                _mm256_permutevar8x32_ps(high, codes[0]),
                _mm256_castsi256_ps(choose[0])
            ),
            _mm256_blendv_ps(
                _mm256_permutevar8x32_ps(low, codes[1]),
                _mm256_permutevar8x32_ps(high, codes[1]),
                _mm256_castsi256_ps(choose[1])
            ),
        ])
    }

    #[inline(always)]
    fn levels16(self, levels: &[i16; 16]) -> Self::Levels16 {
        let (mut low, mut high) = ([0u8; 16], [0u8; 16]);
        for ((low, high), level) in low.iter_mut().zip(&mut high).zip(levels) {
            [*low, *high] = level.to_le_bytes();
        }
        proven!([
            _mm256_broadcastsi128_si256(_mm_loadu_si128(low.as_ptr().cast())),
            _mm256_broadcastsi128_si256(_mm_loadu_si128(high.as_ptr().cast())),
        ])
    }
    #[inline(always)]
    fn look_up16<const BITS: i32>(self, levels: Self::Levels16, codes: Self::I) -> Self::Step {
        let [low, high] = levels;
        proven!({
            let mask = _mm256_set1_epi8(if BITS == 2 { 3 } else { 15 });
            let (first, second) = (_mm256_and_si256(codes[0], mask), _mm256_and_si256(codes[1], mask));
            let (first_low, first_high) = (_mm256_shuffle_epi8(low, first), _mm256_shuffle_epi8(high, first));
            let (second_low, second_high) = (_mm256_shuffle_epi8(low, second), _mm256_shuffle_epi8(high, second));
            [
                [
                    _mm256_unpacklo_epi8(first_low, first_high),
                    _mm256_unpackhi_epi8(first_low, first_high),
                ],
                [
                    _mm256_unpacklo_epi8(second_low, second_high),
                    _mm256_unpackhi_epi8(second_low, second_high),
                ],
            ]
        })
    }
    #[inline(always)]
    fn zero_sums(self) -> Self::Sums {
        let zero = proven!(_mm256_setzero_si256());
        [[zero, zero], [zero, zero]]
    }
    #[inline(always)]
    fn dot(self, sums: Self::Sums, step: Self::Step, first: i32, last: i32) -> Self::Sums {
        let x = i64::from(first as u32) | i64::from(last) << 32;
        proven!({
            let x = _mm256_set1_epi64x(x);
            [
                [
                    _mm256_add_epi32(sums[0][0], _mm256_madd_epi16(step[0][0], x)),
                    _mm256_add_epi32(sums[0][1], _mm256_madd_epi16(step[0][1], x)),
                ],
                [
                    _mm256_add_epi32(sums[1][0], _mm256_madd_epi16(step[1][0], x)),
                    _mm256_add_epi32(sums[1][1], _mm256_madd_epi16(step[1][1], x)),
                ],
            ]
        })
    }
    #[inline(always)]
    fn add_sums(self, a: Self::Sums, b: Self::Sums) -> Self::Sums {
        let ([a, b], [c, d]) = (a, b);
        [both!(_mm256_add_epi32(a, c)), both!(_mm256_add_epi32(b, d))]
    }
    #[inline(always)]
    fn total(self, sums: Self::Sums) -> Self::I {
        proven!([
            _mm256_hadd_epi32(sums[0][0], sums[0][1]),
            _mm256_hadd_epi32(sums[1][0], sums[1][1])
        ])
    }
    #[inline(always)]
    fn pairs<const BITS: i32>(self, x: Self::I) -> [i32; 8] {
        let mut pairs = [0; 8];
        let order = if BITS == 2 { &PAIRS_2 } else { &PAIRS_4 };
        proven!({
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(x[0], x[1]));
            let order = _mm256_broadcastsi128_si256(_mm_loadu_si128(order.as_ptr().cast()));
            let mut ordered = _mm256_shuffle_epi8(words, order);
            if BITS == 2 {
                ordered = _mm256_permutevar8x32_epi32(ordered, _mm256_loadu_si256(IN_TURN.as_ptr().cast()));
            }
            _mm256_storeu_si256(pairs.as_mut_ptr().cast(), ordered);
        });
        pairs
    }
}
