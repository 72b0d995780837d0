// Walsh-Hadamard MLP of generation 2, one block a row, m the next power of two from d on, the row zero-padded to m:
//     mlp(x) = (d3 H silu(d2 H (d1 x)))[..d]
//     y = mlp(x)                        when p.residual is 0
//     y = x + mlp(zcrms(x; s))          when p.residual is 1
// x, y: [rows][d]; s: [d]; d1, d2, d3: [m].

struct HadamardParams {
    nk_u32 d;
    float eps;
    nk_u32 residual;
};

template <typename S, int E, int SIMDS>
NK_FN void nk_hadamard(NK_GPTR(const typename S::raw) x, NK_GPTR(const float) s, NK_GPTR(const float) d1,
                       NK_GPTR(const float) d2, NK_GPTR(const float) d3, NK_GPTR(typename S::raw) y,
                       NK_CONST(HadamardParams) p, NK_SPTR(float) red, NK_SPTR(float) s0, NK_SPTR(float) s1, nk_u32 tid,
                       nk_u32 row) {
    const nk_u32 base = row * p.d;
    float skip[E];
    float v[E];
    float ss = 0.0f;
    NK_UNROLL for (int e = 0; e < E; ++e) {
        const nk_u32 i = tid * E + e;
        skip[e] = i < p.d ? S::to(x[base + i]) : 0.0f;
        ss += skip[e] * skip[e];
    }
    float r = 1.0f;
    if (p.residual != 0u) r = nk_rms_factor(nk_block_sum(ss, red, tid, SIMDS), p.d, p.eps);
    NK_UNROLL for (int e = 0; e < E; ++e) {
        const nk_u32 i = tid * E + e;
        v[e] = d1[i] * skip[e];
        if (p.residual != 0u && i < p.d) v[e] *= (1.0f + s[i]) * r;
    }
    nk_hadamard_core<E, SIMDS>(v, d2, s0, s1, tid);
    NK_UNROLL for (int e = 0; e < E; ++e) {
        const nk_u32 i = tid * E + e;
        if (i < p.d) y[base + i] = S::from((p.residual != 0u ? skip[e] : 0.0f) + d3[i] * v[e]);
    }
}

#define NK_HADAMARD(NAME, S, E, SIMDS)                                                                              \
    NK_KERNEL(NAME, (SIMDS * NK_SIMD))                                                                              \
    (NK_IN(S::raw, x, 0), NK_IN(float, s, 1), NK_IN(float, d1, 2), NK_IN(float, d2, 3), NK_IN(float, d3, 4),        \
     NK_OUT(S::raw, y, 5), NK_PARAMS(HadamardParams, p, 6) NK_BUILTINS) {                                           \
        NK_SHARED(float, red, SIMDS);                                                                               \
        NK_SHARED(float, s0, NK_MIX_SHARED(E, SIMDS));                                                              \
        NK_SHARED(float, s1, NK_MIX_SHARED(E, SIMDS));                                                              \
        nk_hadamard<S, E, SIMDS>(x, s, d1, d2, d3, y, p, red, s0, s1, NK_TID, NK_BID_X);                            \
    }                                                                                                               \
    NK_END(NAME)
#define NK_HADAMARDS(SUFFIX, S)                     \
    NK_HADAMARD(hadamard_64_##SUFFIX, S, 2, 1)      \
    NK_HADAMARD(hadamard_128_##SUFFIX, S, 4, 1)     \
    NK_HADAMARD(hadamard_256_##SUFFIX, S, 4, 2)     \
    NK_HADAMARD(hadamard_512_##SUFFIX, S, 4, 4)     \
    NK_HADAMARD(hadamard_1024_##SUFFIX, S, 8, 4)
NK_HADAMARDS(f32, NkF32)
NK_HADAMARDS(bf16, NkBF16)
NK_HADAMARDS(f16, NkF16)
