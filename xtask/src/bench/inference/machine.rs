//! What one core can do at most: reading and multiplying.

use std::hint::black_box;

use crate::bench::timing::processor_ns;

/// Times each limit is measured; the best counts, being the machine's.
const TRIES: usize = 9;

/// Prints the processor and its limits.
pub(super) fn print() {
    println!(
        "{}, {} cores",
        processor(),
        std::thread::available_parallelism().map_or(1, usize::from)
    );
    for megabytes in [4, 16, 64] {
        let memory = vec![1u64; megabytes << 17];
        let gigabytes = best(|| {
            black_box(sum(&memory));
            (memory.len() * 8) as f64 / 1e9
        });
        println!("read {megabytes:>3} MB            {gigabytes:>7.0} GB/s a core");
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the instructions are there.
        let gigaflops = best(|| unsafe { x86::multiply() });
        println!("float32 multiply-adds  {:>7.0} G/s a core", gigaflops);
        if is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the instructions are there.
            let gigaops = best(|| unsafe { x86::multiply_16() });
            println!("16-bit multiply-adds   {gigaops:>7.0} G/s a core");
        }
    }
}

/// Billions a processor second of `work`, which says how many it did.
fn best(mut work: impl FnMut() -> f64) -> f64 {
    work();
    let rates = (0..TRIES).map(|_| {
        let start = processor_ns();
        let done = work();
        done / ((processor_ns() - start) as f64 / 1e9)
    });
    rates.fold(0.0, f64::max)
}

/// Reads everything, in sums that do not wait for each other.
fn sum(memory: &[u64]) -> u64 {
    let mut sums = [0u64; 64];
    for part in memory.as_chunks::<64>().0 {
        for (sum, number) in sums.iter_mut().zip(part) {
            *sum = sum.wrapping_add(*number);
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

fn processor() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = about.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split(": ").nth(1)).unwrap_or("a processor");
    name.to_owned()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::{arch::x86_64::*, hint::black_box};

    const ROUNDS: usize = 2_000_000;
    /// Sums in flight.
    const SUMS: usize = 12;

    #[target_feature(enable = "avx512f")]
    pub(super) fn multiply() -> f64 {
        let (a, b) = (_mm512_set1_ps(black_box(1.001)), _mm512_set1_ps(black_box(1e-6)));
        let mut sums = [_mm512_setzero_ps(); SUMS];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, a, b);
            }
        }
        black_box(sums.map(|sum| _mm512_reduce_add_ps(sum)));
        (ROUNDS * SUMS * 16) as f64 / 1e9
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn multiply_16() -> f64 {
        let (a, mut b) = (_mm512_set1_epi16(black_box(3)), _mm512_set1_epi16(black_box(5)));
        let mut sums = [_mm512_setzero_si512(); SUMS];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm512_dpwssd_epi32(*sum, a, b);
            }
            b = _mm512_add_epi32(b, a);
        }
        black_box(sums.map(|sum| _mm512_reduce_add_epi32(sum)));
        (ROUNDS * SUMS * 32) as f64 / 1e9
    }
}
