//! The Walsh-Hadamard rotation of one group.

/// `x ← x·H` in place, with `H` the orthonormal Walsh-Hadamard matrix in Sylvester order: `H_1 = [1]`,
/// `H_2m = [[H_m, H_m], [H_m, −H_m]] / sqrt(2)`. `H` is symmetric and its own inverse.
///
/// # Panics
/// When the length is not a power of two.
pub fn walsh_hadamard(x: &mut [f32]) {
    butterflies(x);
    let scale = 1.0 / (x.len() as f32).sqrt();
    x.iter_mut().for_each(|value| *value *= scale);
}

/// The rotation without its factor `1/sqrt(length)`.
pub(super) fn butterflies(x: &mut [f32]) {
    assert!(x.len().is_power_of_two(), "a rotation of length {}", x.len());
    let mut half = 1;
    // The first three rounds at once: eight values stay in registers.
    if x.len() >= 8 {
        for eight in x.as_chunks_mut::<8>().0 {
            let [a, b, c, d, e, f, g, h] = *eight;
            let (a, b, c, d, e, f, g, h) = (a + b, a - b, c + d, c - d, e + f, e - f, g + h, g - h);
            let (a, b, c, d, e, f, g, h) = (a + c, b + d, a - c, b - d, e + g, f + h, e - g, f - h);
            *eight = [a + e, b + f, c + g, d + h, a - e, b - f, c - g, d - h];
        }
        half = 8;
    }
    while half < x.len() {
        for pair in x.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}
