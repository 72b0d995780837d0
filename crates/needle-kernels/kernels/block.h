// The second half of a layer, one block a row, m the next power of two from d on:
//     x <- x + gate zcrms(a; post_norm)          a: what the attention's output projection gave
//     x <- x + (d3 H silu(d2 H (d1 zcrms(x; pre_norm))))[..d]
//     X_i <- sum_j R_ij X_j + post_i (x - u)     in place; u as in lanes.h
// X: [rows][n][d]; x, a: [rows][d]; post_norm, pre_norm: [d]; gate: [1]; d1, d2, d3: [m]; mix: [rows][n + n + n n].

struct BlockParams {
    nk_u32 d;
    nk_u32 n;
    float eps;
};

template <typename S, int E, int SIMDS>
NK_FN void nk_block_back(NK_GPTR(typename S::raw) lanes, NK_GPTR(const typename S::raw) x,
                         NK_GPTR(const typename S::raw) a, NK_GPTR(const float) post_norm, NK_GPTR(const float) gate,
                         NK_GPTR(const float) pre_norm, NK_GPTR(const float) d1, NK_GPTR(const float) d2,
                         NK_GPTR(const float) d3, NK_GPTR(const float) mix, NK_CONST(BlockParams) p,
                         NK_SPTR(float) red_a, NK_SPTR(float) red_x, NK_SPTR(float) s0, NK_SPTR(float) s1, nk_u32 tid,
                         nk_u32 row) {
    const nk_u32 base = row * p.d;
    float v[E];
    float xr[E];
    float ss = 0.0f;
    NK_UNROLL for (int e = 0; e < E; ++e) {
        const nk_u32 i = tid * E + e;
        v[e] = i < p.d ? S::to(a[base + i]) : 0.0f;
        ss += v[e] * v[e];
    }
    const float ra = gate[0] * nk_rms_factor(nk_block_sum(ss, red_a, tid, SIMDS), p.d, p.eps);
    ss = 0.0f;
    NK_UNROLL for (int e = 0; e < E; ++e) {
        const nk_u32 i = tid * E + e;
        xr[e] = i < p.d ? S::to(x[base + i]) + (1.0f + post_norm[i]) * v[e] * ra : 0.0f;
        ss += xr[e] * xr[e];
    }
    const float rx = nk_rms_factor(nk_block_sum(ss, red_x, tid, SIMDS), p.d, p.eps);
    NK_UNROLL for (int e = 0; e < E; ++e) {
        const nk_u32 i = tid * E + e;
        v[e] = i < p.d ? d1[i] * (1.0f + pre_norm[i]) * xr[e] * rx : 0.0f;
    }
    nk_hadamard_core<E, SIMDS>(v, d2, s0, s1, tid);
    NK_UNROLL for (int e = 0; e < E; ++e) {
        const nk_u32 i = tid * E + e;
        if (i < p.d) nk_mix_column<S>(lanes, mix, xr[e] + d3[i] * v[e], p.n, p.d, row, i);
    }
}

#define NK_BLOCK_BACK(NAME, S, E, SIMDS)                                                                          \
    NK_KERNEL(NAME, (SIMDS * NK_SIMD))                                                                            \
    (NK_INOUT(S::raw, lanes, 0), NK_IN(S::raw, x, 1), NK_IN(S::raw, a, 2), NK_IN(float, post_norm, 3),            \
     NK_IN(float, gate, 4), NK_IN(float, pre_norm, 5), NK_IN(float, d1, 6), NK_IN(float, d2, 7),                  \
     NK_IN(float, d3, 8), NK_IN(float, mix, 9), NK_PARAMS(BlockParams, p, 10) NK_BUILTINS) {                      \
        NK_SHARED(float, red_a, SIMDS);                                                                           \
        NK_SHARED(float, red_x, SIMDS);                                                                           \
        NK_SHARED(float, s0, NK_MIX_SHARED(E, SIMDS));                                                            \
        NK_SHARED(float, s1, NK_MIX_SHARED(E, SIMDS));                                                            \
        nk_block_back<S, E, SIMDS>(lanes, x, a, post_norm, gate, pre_norm, d1, d2, d3, mix, p, red_a, red_x, s0, s1, \
                                   NK_TID, NK_BID_X);                                                             \
    }                                                                                                             \
    NK_END(NAME)
#define NK_BLOCK_BACKS(SUFFIX, S)                      \
    NK_BLOCK_BACK(block_back_64_##SUFFIX, S, 2, 1)     \
    NK_BLOCK_BACK(block_back_128_##SUFFIX, S, 4, 1)    \
    NK_BLOCK_BACK(block_back_256_##SUFFIX, S, 4, 2)    \
    NK_BLOCK_BACK(block_back_512_##SUFFIX, S, 4, 4)    \
    NK_BLOCK_BACK(block_back_1024_##SUFFIX, S, 8, 4)
NK_BLOCK_BACKS(f32, NkF32)
NK_BLOCK_BACKS(bf16, NkBF16)
NK_BLOCK_BACKS(f16, NkF16)
