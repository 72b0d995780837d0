// One column of the lanes: X_i <- sum_j R_ij X_j + post_i (y - sum_j pre_j X_j), in place. mix holds pre, post and R.
template <typename S>
NK_FN void nk_mix_column(NK_GPTR(typename S::raw) x, NK_GPTR(const float) mix, float y, nk_u32 n, nk_u32 d, nk_u32 row,
                         nk_u32 i) {
    const nk_u32 base = row * n * (n + 2u);
    float old[4];
    float u = 0.0f;
    NK_UNROLL for (nk_u32 l = 0u; l < 4u; ++l) {
        old[l] = l < n ? S::to(x[(row * n + l) * d + i]) : 0.0f;
        if (l < n) u += mix[base + l] * old[l];
    }
    NK_UNROLL for (nk_u32 l = 0u; l < 4u; ++l) {
        if (l < n) {
            float t = mix[base + n + l] * (y - u);
            NK_UNROLL for (nk_u32 j = 0u; j < 4u; ++j) {
                if (j < n) t += mix[base + 2u * n + l * n + j] * old[j];
            }
            x[(row * n + l) * d + i] = S::from(t);
        }
    }
}
