//! Dot products in one fixed order, with whatever vector unit the processor has.
//!
//! Every product keeps [`LANES`] partial sums, element `i` going to lane `i mod LANES`, which are added up at the end in one
//! fixed tree. Tiles of several rows only interleave independent products; they change no order of additions. The
//! instruction set is chosen at run time.

/// Partial sums of one product.
const LANES: usize = 8;

/// `out[r·stride + c] = ⟨x_r, w_c⟩` for all `rows` rows of `x` and `cols` rows of `w`, both of length `k`.
pub(super) fn products(x: &[f32], w: &[f32], k: usize, out: &mut [f32], stride: usize) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the features were just found.
        return unsafe { products_avx2(x, w, k, out, stride) };
    }
    products_in_lanes::<{ cfg!(target_arch = "aarch64") }>(x, w, k, out, stride);
}

/// `⟨x, w⟩` in the same order of additions as [`products`].
#[cfg(test)]
pub(super) fn dot(x: &[f32], w: &[f32]) -> f32 {
    let mut out = [0.0];
    products(x, w, x.len(), &mut out, 1);
    out[0]
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn products_avx2(x: &[f32], w: &[f32], k: usize, out: &mut [f32], stride: usize) {
    products_in_lanes::<true>(x, w, k, out, stride);
}

#[inline(always)]
fn products_in_lanes<const FUSED: bool>(x: &[f32], w: &[f32], k: usize, out: &mut [f32], stride: usize) {
    let (rows, cols) = (x.len() / k, w.len() / k);
    let mut r = 0;
    while r < rows {
        let tall = rows - r >= 4;
        let mut c = 0;
        while c < cols {
            c += match (tall, cols - c) {
                (true, 2..) => tile::<4, 2, FUSED>(&x[r * k..], &w[c * k..], k, &mut out[r * stride + c..], stride),
                (true, _) => tile::<4, 1, FUSED>(&x[r * k..], &w[c * k..], k, &mut out[r * stride + c..], stride),
                (false, 8..) => tile::<1, 8, FUSED>(&x[r * k..], &w[c * k..], k, &mut out[r * stride + c..], stride),
                (false, _) => tile::<1, 1, FUSED>(&x[r * k..], &w[c * k..], k, &mut out[r * stride + c..], stride),
            };
        }
        r += if tall { 4 } else { 1 };
    }
}

#[inline(always)]
fn tile<const R: usize, const C: usize, const FUSED: bool>(
    x: &[f32],
    w: &[f32],
    k: usize,
    out: &mut [f32],
    stride: usize,
) -> usize {
    let mut sums = [[[0.0f32; LANES]; C]; R];
    let whole = k / LANES * LANES;
    let x_rows: [&[f32]; R] = std::array::from_fn(|r| &x[r * k..][..k]);
    let w_rows: [&[f32]; C] = std::array::from_fn(|c| &w[c * k..][..k]);
    let mut i = 0;
    while i < whole {
        let x_lanes: [[f32; LANES]; R] = std::array::from_fn(|r| load(&x_rows[r][i..]));
        for c in 0..C {
            let w_lanes = load(&w_rows[c][i..]);
            for r in 0..R {
                for lane in 0..LANES {
                    sums[r][c][lane] = multiply_add::<FUSED>(x_lanes[r][lane], w_lanes[lane], sums[r][c][lane]);
                }
            }
        }
        i += LANES;
    }
    for r in 0..R {
        for c in 0..C {
            for i in whole..k {
                sums[r][c][i - whole] = multiply_add::<FUSED>(x_rows[r][i], w_rows[c][i], sums[r][c][i - whole]);
            }
            let [a, b, c_, d, e, f, g, h] = sums[r][c];
            out[r * stride + c] = ((a + e) + (c_ + g)) + ((b + f) + (d + h));
        }
    }
    C
}

#[inline(always)]
fn load(values: &[f32]) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    lanes.copy_from_slice(&values[..LANES]);
    lanes
}

#[inline(always)]
fn multiply_add<const FUSED: bool>(x: f32, y: f32, sum: f32) -> f32 {
    if FUSED { x.mul_add(y, sum) } else { x * y + sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(n: usize, step: f32) -> Vec<f32> {
        (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) * step).collect()
    }

    #[test]
    fn a_product_does_not_depend_on_its_neighbours() {
        for k in [1, 7, 8, 9, 64, 100] {
            let (x, w) = (ramp(7 * k, 0.01), ramp(11 * k, 0.02));
            let mut all = vec![0.0; 7 * 11];
            products(&x, &w, k, &mut all, 11);
            for r in 0..7 {
                for c in 0..11 {
                    let alone = dot(&x[r * k..][..k], &w[c * k..][..k]);
                    assert_eq!(all[r * 11 + c].to_bits(), alone.to_bits(), "k {k}, row {r}, column {c}");
                }
            }
        }
    }

    #[test]
    fn portable_lanes_agree_with_the_vector_unit() {
        let (x, w) = (ramp(512, 0.01), ramp(512, 0.01));
        let mut out = [0.0];
        products_in_lanes::<false>(&x, &w, 512, &mut out, 1);
        assert!(
            (out[0] - dot(&x, &w)).abs() < 1e-4 * out[0].abs(),
            "{} and {}",
            out[0],
            dot(&x, &w)
        );
    }
}
