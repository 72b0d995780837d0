//! Sixteen lanes of arithmetic on whatever vector unit the processor has, chosen at run time.
//!
//! A kernel is a plain function over a value `s: impl Simd`. Holding such a value proves that its instructions are there, so
//! kernels need no `unsafe` of their own; [`kernel!`] compiles each one for every instruction set and picks at run time.
//!
//! In a kernel no closure may stand around these operations, not even that of a `for_each`: the compiler may leave it a
//! function of its own, compiled without the instructions.
//!
//! Every set has the same sixteen lanes and adds them up in the same order, so that with a fused multiply-add the results
//! are equal to the last bit on all of them.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod isa;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

pub use isa::Isa;
pub(super) use isa::{Set, compile, integer_kernel, kernel};

/// Lanes of a vector.
pub(super) const LANES: usize = 16;

/// Sixteen 32-bit words as they lie in memory: packed codes, or numbers.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u32; LANES]);

/// The operations of one instruction set.
pub(super) trait Simd: Copy {
    /// Sixteen f32.
    type F: Copy;
    /// Sixteen 32-bit integers.
    type I: Copy;
    /// A table of sixteen f32 levels, or of four repeated.
    type Levels: Copy;
    /// A table of sixteen i16 levels, or of four repeated.
    type Levels16: Copy;
    /// Sixteen rows' levels, times as many columns as one step takes.
    type Step: Copy;
    /// Sixteen rows' unfinished integer sums.
    type Sums: Copy;

    /// Pairs of activations that one step of [`Simd::dot`] takes, one or two.
    const STEP_PAIRS: usize;
    /// Activations in flight of the widest tile: as many as the registers hold.
    const WIDEST: usize;
    /// Row blocks that a matrix-vector product in integers takes side by side.
    const BLOCKS_16: usize;

    fn splat(self, x: f32) -> Self::F;
    fn load(self, x: &[f32; LANES]) -> Self::F;
    fn store(self, v: Self::F, x: &mut [f32; LANES]);
    fn load_bits(self, line: &Line) -> Self::F;
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a·b + c`, rounded once where the set can.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// Lane `i` takes the value of lane `i ⊕ H`, `H` one of 1, 2, 4, 8.
    fn swap<const H: usize>(self, v: Self::F) -> Self::F;
    /// One round of the Walsh-Hadamard transform inside the vector: lane `i` becomes `v[i] + v[i ⊕ H]` where bit `H` of `i`
    /// is clear and `v[i ⊕ H] − v[i]` where it is set.
    fn butterfly<const H: usize>(self, v: Self::F) -> Self::F;
    /// Lanes whose bit of `bits` is clear become `other`.
    fn keep(self, v: Self::F, bits: u16, other: f32) -> Self::F;
    /// To the nearest integer, of two equally near the even one.
    fn round(self, v: Self::F) -> Self::I;
    fn to_f32(self, v: Self::I) -> Self::F;
    /// `v·2^n` for results in the normal range.
    fn scale_by_power(self, v: Self::F, n: Self::I) -> Self::F;
    /// Signed bytes as numbers.
    fn load_i8(self, x: &[i8; LANES]) -> Self::F;
    /// Half-precision numbers, by their bits.
    fn load_f16(self, x: &[u16; LANES]) -> Self::F;
    /// To the nearest half-precision number, of two equally near the even one.
    fn store_f16(self, v: Self::F, x: &mut [u16; LANES]);

    fn load_codes(self, line: &Line) -> Self::I;
    /// Asks for the memory `ahead` bytes after this place; nothing happens where there is none.
    fn prefetch<T>(self, place: &T, ahead: usize);
    /// Shifts every word right.
    fn shift<const BITS: i32>(self, codes: Self::I) -> Self::I;
    fn levels(self, levels: &[f32; 16]) -> Self::Levels;
    /// The level of the lowest `BITS` bits of each word.
    fn look_up<const BITS: i32>(self, levels: Self::Levels, codes: Self::I) -> Self::F;

    fn levels16(self, levels: &[i16; 16]) -> Self::Levels16;
    /// The levels that one step takes from the shifted words; the next step's are reached by another shift by `BITS`.
    fn look_up16<const BITS: i32>(self, levels: Self::Levels16, codes: Self::I) -> Self::Step;
    /// The levels of two steps, one after the other, and the words shifted beyond them.
    #[inline(always)]
    fn look_up16_twice<const BITS: i32>(
        self,
        levels: Self::Levels16,
        codes: Self::I,
    ) -> (Self::Step, Self::Step, Self::I) {
        let next = self.shift::<BITS>(codes);
        let (first, second) = (
            self.look_up16::<BITS>(levels, codes),
            self.look_up16::<BITS>(levels, next),
        );
        (first, second, self.shift::<BITS>(next))
    }
    fn zero_sums(self) -> Self::Sums;
    /// `sums + Σ level·x` over the columns of one step: of the first of its pairs and the last, the same where a step takes one.
    fn dot(self, sums: Self::Sums, step: Self::Step, first: i32, last: i32) -> Self::Sums;
    fn add_sums(self, a: Self::Sums, b: Self::Sums) -> Self::Sums;
    fn total(self, sums: Self::Sums) -> Self::I;
    /// Sixteen consecutive activations as eight pairs of i16, in the order in which the steps of 32/`BITS` codes take them.
    fn pairs<const BITS: i32>(self, x: Self::I) -> [i32; 8];

    /// All lanes added, in one fixed tree.
    #[inline(always)]
    fn sum(self, v: Self::F) -> f32 {
        let v = self.add(v, self.swap::<8>(v));
        let v = self.add(v, self.swap::<4>(v));
        let v = self.add(v, self.swap::<2>(v));
        self.first(self.add(v, self.swap::<1>(v)))
    }

    /// The largest lane.
    #[inline(always)]
    fn largest(self, v: Self::F) -> f32 {
        let v = self.max(v, self.swap::<8>(v));
        let v = self.max(v, self.swap::<4>(v));
        let v = self.max(v, self.swap::<2>(v));
        self.first(self.max(v, self.swap::<1>(v)))
    }

    /// Lane 0.
    #[inline(always)]
    fn first(self, v: Self::F) -> f32 {
        let mut x = [0.0; LANES];
        self.store(v, &mut x);
        x[0]
    }
}
