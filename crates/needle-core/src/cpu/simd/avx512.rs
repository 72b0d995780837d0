//! AVX-512 (F, BW, DQ, VL), with the integer dot products of VNNI or without.

use std::arch::{asm, x86_64::*};

use super::{LANES, Line, Simd};

/// Proof that the instructions are there; `VNNI` says whether the fused integer dot product is among them.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Avx512<const VNNI: bool>(());

impl<const VNNI: bool> Avx512<VNNI> {
    /// The proof, where the processor and the system have the instructions.
    pub(super) fn detect() -> Option<Self> {
        let basic = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma");
        (basic && (!VNNI || is_x86_feature_detected!("avx512vnni"))).then_some(Self(()))
    }
}

impl Avx512<true> {
    /// The same without VNNI, for kernels that have no use for it.
    pub(in crate::cpu) fn plain(self) -> Avx512<false> {
        Avx512(())
    }
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

/// `sums + low·low + high·high` in every lane.
///
/// The compiler takes its own intrinsic apart again where it sees one long sum: two instructions instead of one.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dpwssd(mut sums: __m512i, step: __m512i, x: __m512i) -> __m512i {
    // SAFETY: one instruction on registers.
    unsafe {
        asm!(
            "vpdpwssd {sums}, {step}, {x}",
            sums = inlateout(zmm_reg) sums,
            step = in(zmm_reg) step,
            x = in(zmm_reg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

/// Words of one step's pair `(j, half + j)`, from sixteen words in order.
const PAIRS_4: [i16; 16] = [0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15];
const PAIRS_2: [i16; 16] = [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15];

// SAFETY of every block below: a value of this type exists only where the instructions were found, and memory is reached
// through references of exactly the length that is read or written.
macro_rules! proven {
    ($e:expr) => {
        // SAFETY: see above.
        unsafe { $e }
    };
}

impl<const VNNI: bool> Simd for Avx512<VNNI> {
    type F = __m512;
    type I = __m512i;
    type Levels = __m512;
    /// By the lowest code of an index, and by the one above it where an index holds two.
    type Levels16 = [__m512i; 2];
    type Step = __m512i;
    type Sums = __m512i;

    const STEP_PAIRS: usize = 1;
    const WIDEST: usize = 12;
    const BLOCKS_16: usize = 4;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        proven!(_mm512_set1_ps(x))
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> __m512 {
        proven!(_mm512_loadu_ps(x.as_ptr()))
    }
    #[inline(always)]
    fn store(self, v: __m512, x: &mut [f32; LANES]) {
        proven!(_mm512_storeu_ps(x.as_mut_ptr(), v));
    }
    #[inline(always)]
    fn load_bits(self, line: &Line) -> __m512 {
        proven!(_mm512_load_ps(line.0.as_ptr().cast()))
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        proven!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn swap<const H: usize>(self, v: __m512) -> __m512 {
        proven!(match H {
            1 => _mm512_permute_ps::<0b10_11_00_01>(v),
            2 => _mm512_permute_ps::<0b01_00_11_10>(v),
            4 => _mm512_shuffle_f32x4::<0b10_11_00_01>(v, v),
            _ => _mm512_shuffle_f32x4::<0b01_00_11_10>(v, v),
        })
    }
    #[inline(always)]
    fn butterfly<const H: usize>(self, v: __m512) -> __m512 {
        let signs = self.load(&const { signs(H) });
        self.fma(v, signs, self.swap::<H>(v))
    }
    #[inline(always)]
    fn keep(self, v: __m512, bits: u16, other: f32) -> __m512 {
        proven!(_mm512_mask_mov_ps(_mm512_set1_ps(other), bits, v))
    }
    #[inline(always)]
    fn round(self, v: __m512) -> __m512i {
        proven!(_mm512_cvtps_epi32(v))
    }
    #[inline(always)]
    fn to_f32(self, v: __m512i) -> __m512 {
        proven!(_mm512_cvtepi32_ps(v))
    }
    #[inline(always)]
    fn scale_by_power(self, v: __m512, n: __m512i) -> __m512 {
        proven!(_mm512_castsi512_ps(_mm512_add_epi32(
            _mm512_castps_si512(v),
            _mm512_slli_epi32::<23>(n)
        )))
    }
    #[inline(always)]
    fn load_i8(self, x: &[i8; LANES]) -> __m512 {
        proven!(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(
            x.as_ptr().cast()
        ))))
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; LANES]) -> __m512 {
        proven!(_mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast())))
    }
    #[inline(always)]
    fn store_f16(self, v: __m512, x: &mut [u16; LANES]) {
        proven!(_mm256_storeu_si256(x.as_mut_ptr().cast(), _mm512_cvtps_ph::<0>(v)));
    }

    #[inline(always)]
    fn load_codes(self, line: &Line) -> __m512i {
        proven!(_mm512_load_si512(line.0.as_ptr().cast()))
    }
    #[inline(always)]
    fn prefetch<T>(self, place: &T, ahead: usize) {
        // SAFETY: fetching ahead reads nothing; an address that does not exist is ignored.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast::<i8>().wrapping_add(ahead)) }
    }
    #[inline(always)]
    fn shift<const BITS: i32>(self, codes: __m512i) -> __m512i {
        proven!(match BITS {
            2 => _mm512_srli_epi32::<2>(codes),
            _ => _mm512_srli_epi32::<4>(codes),
        })
    }
    #[inline(always)]
    fn levels(self, levels: &[f32; 16]) -> __m512 {
        self.load(levels)
    }
    #[inline(always)]
    fn look_up<const BITS: i32>(self, levels: __m512, codes: __m512i) -> __m512 {
        // The permutation reads four bits of each lane; of a 2-bit code the table repeats every four entries.
        proven!(_mm512_permutexvar_ps(codes, levels))
    }

    #[inline(always)]
    fn levels16(self, levels: &[i16; 16]) -> [__m512i; 2] {
        let mut above = [0; 16];
        for (i, above) in above.iter_mut().enumerate() {
            *above = levels[i >> 2];
        }
        proven!([
            _mm512_broadcast_i64x4(_mm256_loadu_si256(levels.as_ptr().cast())),
            _mm512_broadcast_i64x4(_mm256_loadu_si256(above.as_ptr().cast())),
        ])
    }
    #[inline(always)]
    fn look_up16<const BITS: i32>(self, levels: [__m512i; 2], codes: __m512i) -> __m512i {
        // Five bits of each 16-bit half: the table is there twice.
        proven!(_mm512_permutexvar_epi16(codes, levels[0]))
    }
    #[inline(always)]
    fn look_up16_twice<const BITS: i32>(self, levels: [__m512i; 2], codes: __m512i) -> (__m512i, __m512i, __m512i) {
        let first = self.look_up16::<BITS>(levels, codes);
        if BITS == 2 {
            // Four of the five bits are two codes: one shift serves both.
            let second = proven!(_mm512_permutexvar_epi16(codes, levels[1]));
            return (first, second, self.shift::<4>(codes));
        }
        let next = self.shift::<BITS>(codes);
        (first, self.look_up16::<BITS>(levels, next), self.shift::<BITS>(next))
    }
    #[inline(always)]
    fn zero_sums(self) -> __m512i {
        proven!(_mm512_setzero_si512())
    }
    #[inline(always)]
    fn dot(self, sums: __m512i, step: __m512i, first: i32, _: i32) -> __m512i {
        proven!({
            let x = _mm512_set1_epi32(first);
            if VNNI {
                dpwssd(sums, step, x)
            } else {
                _mm512_add_epi32(sums, _mm512_madd_epi16(step, x))
            }
        })
    }
    #[inline(always)]
    fn add_sums(self, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn total(self, sums: __m512i) -> __m512i {
        sums
    }
    #[inline(always)]
    fn pairs<const BITS: i32>(self, x: __m512i) -> [i32; 8] {
        let mut pairs = [0; 8];
        let order = if BITS == 2 { &PAIRS_2 } else { &PAIRS_4 };
        proven!({
            let words = _mm512_cvtepi32_epi16(x);
            let order = _mm256_loadu_si256(order.as_ptr().cast());
            _mm256_storeu_si256(pairs.as_mut_ptr().cast(), _mm256_permutexvar_epi16(order, words));
        });
        pairs
    }
}
