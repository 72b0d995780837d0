// One head by one SIMD group: zero-centred RMS norm of x[at .. at + k], then the rotation by its position's angles,
// y = [x1 cos - x2 sin, x2 cos + x1 sin] with x = [x1, x2], into shared memory at y[to ..].
// angles: [positions][k], a position's cosines, then its sines.
#define NK_HEAD_MAX 128u   // widest head

template <typename S, typename C>
NK_FN void nk_norm_rope(NK_GPTR(const typename S::raw) x, nk_u32 at, NK_GPTR(const float) s, NK_GPTR(const float) angles,
                        nk_u32 position, nk_u32 k, float eps, NK_SPTR(float) y, nk_u32 to, nk_u32 lane) {
    float ss = 0.0f;
    for (nk_u32 i = lane; i < k; i += NK_SIMD) {
        const float a = S::to(x[at + i]);
        ss += a * a;
    }
    const float r = nk_rms_factor(nk_simd_sum(ss), k, eps);
    const nk_u32 half_k = k / 2u;
    for (nk_u32 i = lane; i < half_k; i += NK_SIMD) {
        const float a = (1.0f + s[i]) * S::to(x[at + i]) * r;
        const float b = (1.0f + s[half_k + i]) * S::to(x[at + half_k + i]) * r;
        const float cos = angles[position * k + i];
        const float sin = angles[position * k + half_k + i];
        y[to + i] = C::to(C::from(a * cos - b * sin));
        y[to + half_k + i] = C::to(C::from(b * cos + a * sin));
    }
}
