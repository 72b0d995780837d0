// Zero-centred RMS norm, one block a row:
//     rms_norm       y = (1 + s) x / sqrt(mean(x^2) + eps)
//     rms_norm_add   y = skip + gate (1 + s) x / sqrt(mean(x^2) + eps)
// x, skip, y: [rows][d]; s: [d]; gate: [1].

#define NK_ROW_THREADS 128u
#define NK_ROW_SIMDS (NK_ROW_THREADS / NK_SIMD)

struct RmsNormParams {
    nk_u32 d;
    float eps;
};

template <typename S>
NK_FN float nk_row_factor(NK_GPTR(const typename S::raw) x, NK_CONST(RmsNormParams) p, NK_SPTR(float) red, nk_u32 tid,
                          nk_u32 base) {
    float ss = 0.0f;
    for (nk_u32 i = tid; i < p.d; i += NK_ROW_THREADS) {
        const float a = S::to(x[base + i]);
        ss += a * a;
    }
    return nk_rms_factor(nk_block_sum(ss, red, tid, NK_ROW_SIMDS), p.d, p.eps);
}

template <typename S>
NK_FN void nk_rms_norm(NK_GPTR(const typename S::raw) x, NK_GPTR(const float) s, NK_GPTR(typename S::raw) y,
                       NK_CONST(RmsNormParams) p, NK_SPTR(float) red, nk_u32 tid, nk_u32 row) {
    const nk_u32 base = row * p.d;
    const float r = nk_row_factor<S>(x, p, red, tid, base);
    for (nk_u32 i = tid; i < p.d; i += NK_ROW_THREADS) y[base + i] = S::from((1.0f + s[i]) * S::to(x[base + i]) * r);
}

template <typename S>
NK_FN void nk_rms_norm_add(NK_GPTR(const typename S::raw) x, NK_GPTR(const float) s, NK_GPTR(const float) gate,
                           NK_GPTR(const typename S::raw) skip, NK_GPTR(typename S::raw) y, NK_CONST(RmsNormParams) p,
                           NK_SPTR(float) red, nk_u32 tid, nk_u32 row) {
    const nk_u32 base = row * p.d;
    const float r = gate[0] * nk_row_factor<S>(x, p, red, tid, base);
    for (nk_u32 i = tid; i < p.d; i += NK_ROW_THREADS) {
        y[base + i] = S::from(S::to(skip[base + i]) + (1.0f + s[i]) * S::to(x[base + i]) * r);
    }
}

#define NK_RMS_NORM(SUFFIX, S)                                                                                  \
    NK_KERNEL(rms_norm_##SUFFIX, NK_ROW_THREADS)                                                                \
    (NK_IN(S::raw, x, 0), NK_IN(float, s, 1), NK_OUT(S::raw, y, 2), NK_PARAMS(RmsNormParams, p, 3) NK_BUILTINS) { \
        NK_SHARED(float, red, NK_ROW_SIMDS);                                                                    \
        nk_rms_norm<S>(x, s, y, p, red, NK_TID, NK_BID_X);                                                      \
    }                                                                                                           \
    NK_END(rms_norm_##SUFFIX)                                                                                   \
    NK_KERNEL(rms_norm_add_##SUFFIX, NK_ROW_THREADS)                                                            \
    (NK_IN(S::raw, x, 0), NK_IN(float, s, 1), NK_IN(float, gate, 2), NK_IN(S::raw, skip, 3), NK_OUT(S::raw, y, 4), \
     NK_PARAMS(RmsNormParams, p, 5) NK_BUILTINS) {                                                              \
        NK_SHARED(float, red, NK_ROW_SIMDS);                                                                    \
        nk_rms_norm_add<S>(x, s, gate, skip, y, p, red, NK_TID, NK_BID_X);                                      \
    }                                                                                                           \
    NK_END(rms_norm_add_##SUFFIX)
NK_RMS_NORM(f32, NkF32)
NK_RMS_NORM(bf16, NkBF16)
NK_RMS_NORM(f16, NkF16)
