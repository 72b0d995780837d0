//! Loops over floats in whatever vector unit the processor has, chosen at run time.
//!
//! `vectorised!` compiles a function a second time for AVX2 and calls that form where the processor has it. What it calls must
//! be `#[inline(always)]`, so that it is compiled along. Sums keep [`WIDTH`] partial sums in one fixed order.

/// Partial sums of a reduction; positions that are treated together.
pub(super) const WIDTH: usize = 16;

macro_rules! vectorised {
    ($(#[$note:meta])* $visibility:vis fn $name:ident($($argument:ident : $type:ty),* $(,)?) $(-> $result:ty)? $body:block) => {
        $(#[$note])*
        #[allow(clippy::too_many_arguments)]
        $visibility fn $name($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn portable($($argument: $type),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                fn wide($($argument: $type),*) $(-> $result)? {
                    portable($($argument),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the features were just found.
                    return unsafe { wide($($argument),*) };
                }
            }
            portable($($argument),*)
        }
    };
}
pub(super) use vectorised;

/// `Σ x·y`.
#[inline(always)]
pub(super) fn dot(x: &[f32], y: &[f32]) -> f32 {
    let mut sums = [0.0f32; WIDTH];
    let (x_whole, x_rest) = x.as_chunks::<WIDTH>();
    let (y_whole, y_rest) = y.as_chunks::<WIDTH>();
    for (x, y) in x_whole.iter().zip(y_whole) {
        for i in 0..WIDTH {
            sums[i] += x[i] * y[i];
        }
    }
    let rest: f32 = x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum();
    total(&sums) + rest
}

/// `Σ x`.
#[inline(always)]
pub(super) fn sum(x: &[f32]) -> f32 {
    let mut sums = [0.0f32; WIDTH];
    let (whole, rest) = x.as_chunks::<WIDTH>();
    for x in whole {
        for i in 0..WIDTH {
            sums[i] += x[i];
        }
    }
    total(&sums) + rest.iter().sum::<f32>()
}

#[inline(always)]
fn total(sums: &[f32; WIDTH]) -> f32 {
    let mut sums = *sums;
    let mut half = WIDTH / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
        half /= 2;
    }
    sums[0]
}

/// `y += a·x`.
#[inline(always)]
pub(super) fn add_scaled(y: &mut [f32], a: f32, x: &[f32]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
}

/// The largest entry.
#[inline(always)]
pub(super) fn peak(x: &[f32]) -> f32 {
    let mut peaks = [f32::NEG_INFINITY; WIDTH];
    let (whole, rest) = x.as_chunks::<WIDTH>();
    for x in whole {
        for i in 0..WIDTH {
            peaks[i] = if x[i] > peaks[i] { x[i] } else { peaks[i] };
        }
    }
    peaks.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max)
}

/// `eˣ` to about one unit in the last place; below −87 it stays at `e⁻⁸⁷`.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // 1.5·2²³: adding it rounds to a whole number, which is left in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let r = (x - whole * LN2_HIGH) - whole * LN2_LOW;
    let mut p = 1.987_569_1e-4f32;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let fraction = p * r * r + r + 1.0;
    fraction * f32::from_bits(shifted.to_bits().wrapping_add(127) << 23)
}

/// `1/(1 + e⁻ˣ)`.
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials() {
        for i in -8700..8800 {
            let x = i as f32 / 100.0;
            let (found, expected) = (f64::from(exp(x)), f64::from(x).exp());
            assert!(
                (found - expected).abs() <= 3e-7 * expected,
                "{x}: {found:e}, {expected:e}"
            );
        }
        assert!(exp(f32::NEG_INFINITY) < 2e-38);
        assert_eq!(sigmoid(0.0), 0.5);
    }

    #[test]
    fn sums_of_every_length() {
        for n in [0, 1, 15, 16, 17, 100] {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let squares: f32 = x.iter().map(|x| x * x).sum();
            assert_eq!(dot(&x, &x), squares);
            assert_eq!(sum(&x), x.iter().sum::<f32>());
        }
        assert_eq!(peak(&[1.0, 5.0, -2.0]), 5.0);
    }
}
