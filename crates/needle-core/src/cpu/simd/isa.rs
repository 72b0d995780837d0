//! Which instruction sets there are, and how a kernel comes to run on one.

use std::fmt;

#[cfg(target_arch = "aarch64")]
use super::neon::Neon;
use super::{Simd, portable::Portable};
#[cfg(target_arch = "x86_64")]
use super::{avx2::Avx2, avx512::Avx512};

/// An instruction set that this processor has. There is no other way to get one than to look for it.
#[derive(Clone, Copy, Debug)]
pub struct Isa(pub(in crate::cpu) Set);

/// The sets, each with its proof.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) enum Set {
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(Avx512<true>),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512<false>),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    Portable(Portable),
}

impl Isa {
    /// The fastest set of this processor.
    pub fn detect() -> Self {
        Self::all().into_iter().next().unwrap_or(Self(Set::Portable(Portable)))
    }

    /// Every set of this processor, the fastest first; the portable one is always there.
    pub fn all() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let vectors = [
            Avx512::detect().map(|s| Self(Set::Avx512Vnni(s))),
            Avx512::detect().map(|s| Self(Set::Avx512(s))),
            Avx2::detect().map(|s| Self(Set::Avx2(s))),
        ];
        #[cfg(target_arch = "aarch64")]
        let vectors = [Neon::detect().map(|s| Self(Set::Neon(s)))];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let vectors: [Option<Self>; 0] = [];
        let portable = Self(Set::Portable(Portable));
        vectors.into_iter().flatten().chain([portable]).collect()
    }

    /// Positions of the widest tile.
    pub(in crate::cpu) fn widest(self) -> usize {
        fn of<S: Simd>(_: S) -> usize {
            S::WIDEST
        }
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512Vnni(s) => of(s),
            #[cfg(target_arch = "x86_64")]
            Set::Avx512(s) => of(s),
            #[cfg(target_arch = "x86_64")]
            Set::Avx2(s) => of(s),
            #[cfg(target_arch = "aarch64")]
            Set::Neon(s) => of(s),
            Set::Portable(s) => of(s),
        }
    }

    /// Its name, as in `avx512-vnni`, `avx512`, `avx2`, `neon`, `portable`.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512Vnni(_) => "avx512-vnni",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2(_) => "avx2",
            #[cfg(target_arch = "aarch64")]
            Set::Neon(_) => "neon",
            Set::Portable(_) => "portable",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Compiles a generic function `$generic(s: impl Simd, …)` for every instruction set, and makes a function that runs the one
/// for `isa`. The fused integer products of VNNI make no difference here; see [`integer_kernel!`].
macro_rules! kernel {
    ($(#[$doc:meta])* $vis:vis fn $name:ident = $generic:ident($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)?) => {
        $(#[$doc])*
        $vis fn $name(isa: $crate::cpu::simd::Isa, $($arg: $type),*) $(-> $out)? {
            use $crate::cpu::simd::Set;
            $crate::cpu::simd::compile!(avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", $generic($($arg: $type),*) $(-> $out)?);
            $crate::cpu::simd::compile!(avx2, "avx2,fma,f16c", $generic($($arg: $type),*) $(-> $out)?);
            match isa.0 {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the value in hand proves that the instructions are there.
                Set::Avx512Vnni(s) => unsafe { avx512(s.plain(), $($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Set::Avx512(s) => unsafe { avx512(s, $($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Set::Avx2(s) => unsafe { avx2(s, $($arg),*) },
                #[cfg(target_arch = "aarch64")]
                // Part of the target's base: nothing has to be compiled twice.
                Set::Neon(s) => $generic(s, $($arg),*),
                Set::Portable(s) => $generic(s, $($arg),*),
            }
        }
    };
}
pub(in crate::cpu) use kernel;

/// The same for a function that uses [`Simd::dot`]: compiled with VNNI and without.
macro_rules! integer_kernel {
    ($(#[$doc:meta])* $vis:vis fn $name:ident = $generic:ident($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)?) => {
        $(#[$doc])*
        $vis fn $name(isa: $crate::cpu::simd::Isa, $($arg: $type),*) $(-> $out)? {
            use $crate::cpu::simd::Set;
            $crate::cpu::simd::compile!(vnni, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma", $generic($($arg: $type),*) $(-> $out)?);
            $crate::cpu::simd::compile!(avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", $generic($($arg: $type),*) $(-> $out)?);
            $crate::cpu::simd::compile!(avx2, "avx2,fma,f16c", $generic($($arg: $type),*) $(-> $out)?);
            match isa.0 {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the value in hand proves that the instructions are there.
                Set::Avx512Vnni(s) => unsafe { vnni(s, $($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Set::Avx512(s) => unsafe { avx512(s, $($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Set::Avx2(s) => unsafe { avx2(s, $($arg),*) },
                #[cfg(target_arch = "aarch64")]
                // Part of the target's base: nothing has to be compiled twice.
                Set::Neon(s) => $generic(s, $($arg),*),
                Set::Portable(s) => $generic(s, $($arg),*),
            }
        }
    };
}
pub(in crate::cpu) use integer_kernel;

/// A generic function compiled for some features of x86-64.
macro_rules! compile {
    ($name:ident, $features:literal, $generic:ident($($arg:ident: $type:ty),*) $(-> $out:ty)?) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        fn $name(s: impl $crate::cpu::simd::Simd, $($arg: $type),*) $(-> $out)? {
            $generic(s, $($arg),*)
        }
    };
}
pub(in crate::cpu) use compile;
