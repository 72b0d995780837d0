// Hyper-connections: n lanes (1 to 4) of width d, read, decided upon and mixed, for every row by itself.
//     nx   = X / sqrt(mean over all lanes(X^2) + eps)
//     pre  = sigmoid(a_pre nx.Phi_pre + b_pre)        post = 2 sigmoid(a_post nx.Phi_post + b_post)
//     R    = sinkhorn(a_res nx.Phi_res + b_res)
//     lanes_front    u = sum_i pre_i X_i
//     lanes_recall   u = sum_i pre_i X_i, then x = u + alpha value,
//                    alpha = sigmoid(<rms_unit(u), rms_unit(key)> / sqrt(d)),  value = sum_j taps_j v[t - j dilation]
//     lanes_mix      X_i <- sum_j R_ij X_j + post_i (y - u), in place; u is computed again from X and pre
// X: [rows][n][d]; phi: [n + n + n n][n d], rows pre, post, res; bias: the same rows, with the home lane's offsets added;
// scale: [3], a_pre, a_post, a_res; mix: [rows][n + n + n n] holds pre, post, R.

#define NK_LANES 4u
#define NK_LANES_MAX 4096   // n d at most
#define NK_FRONT_THREADS 512u
#define NK_FRONT_SIMDS (NK_FRONT_THREADS / NK_SIMD)
#define NK_MIX_THREADS 128u
#define NK_TAPS 4u

struct LanesParams {
    nk_u32 d;
    nk_u32 n;
    float eps;
    nk_u32 rounds;      // of rows, then columns
    nk_u32 ring;        // positions in the ring of engram values
    nk_u32 dilation;
    nk_u32 rows_a_sequence;
};

// log(sum exp) of four numbers, one of which at least is not far below zero.
NK_FN float nk_lse4(float a, float b, float c, float d) {
    const float m = NK_MAX(NK_MAX(a, b), NK_MAX(c, d));
    return m + NK_LOG(NK_EXP(a - m) + NK_EXP(b - m) + NK_EXP(c - m) + NK_EXP(d - m));
}

// A 4x4 matrix of logits made doubly stochastic. The first round is in the log domain, where nothing overflows; after it
// every row and column has an entry of 1/16 or more, and the other rounds are products with potentials: k_ij r_i c_j.
NK_FN void nk_sinkhorn(NK_REG float (&k)[16], nk_u32 rounds) {
    NK_UNROLL for (int i = 0; i < 4; ++i) {
        const float t = nk_lse4(k[4 * i], k[4 * i + 1], k[4 * i + 2], k[4 * i + 3]);
        NK_UNROLL for (int j = 0; j < 4; ++j) k[4 * i + j] -= t;
    }
    NK_UNROLL for (int j = 0; j < 4; ++j) {
        const float t = nk_lse4(k[j], k[4 + j], k[8 + j], k[12 + j]);
        NK_UNROLL for (int i = 0; i < 4; ++i) k[4 * i + j] = NK_EXP(k[4 * i + j] - t);
    }
    float r[4];
    float c[4];
    NK_UNROLL for (int i = 0; i < 4; ++i) {
        r[i] = 1.0f;
        c[i] = 1.0f;
    }
    for (nk_u32 round = 1u; round < rounds; ++round) {
        NK_UNROLL for (int i = 0; i < 4; ++i) {
            r[i] = 1.0f / (k[4 * i] * c[0] + k[4 * i + 1] * c[1] + k[4 * i + 2] * c[2] + k[4 * i + 3] * c[3]);
        }
        NK_UNROLL for (int j = 0; j < 4; ++j) {
            c[j] = 1.0f / (k[j] * r[0] + k[4 + j] * r[1] + k[8 + j] * r[2] + k[12 + j] * r[3]);
        }
    }
    NK_UNROLL for (int i = 0; i < 4; ++i) {
        NK_UNROLL for (int j = 0; j < 4; ++j) k[4 * i + j] *= r[i] * c[j];
    }
}

// The lanes to shared memory, the projections to `z`; returns when all threads may read both.
template <typename S, typename W>
NK_FN void nk_lanes_project(NK_GPTR(const typename S::raw) x, NK_GPTR(const typename W::word) phi,
                            NK_GPTR(const float) bias, NK_GPTR(const float) scale, NK_CONST(LanesParams) p,
                            NK_SPTR(float) xs, NK_SPTR(float) z, NK_SPTR(float) red, nk_u32 tid, nk_u32 row) {
    const nk_u32 lane = tid & (NK_SIMD - 1u);
    const nk_u32 simd = tid / NK_SIMD;
    const nk_u32 nd = p.n * p.d;
    float ss = 0.0f;
    for (nk_u32 i = tid; i < nd; i += NK_FRONT_THREADS) {
        const float a = S::to(x[row * nd + i]);
        xs[i] = a;
        ss += a * a;
    }
    const float r = nk_rms_factor(nk_block_sum(ss, red, tid, NK_FRONT_SIMDS), nd, p.eps);
    const nk_u32 words = nd / NK_PER(W);
    for (nk_u32 o = simd; o < p.n * (p.n + 2u); o += NK_FRONT_SIMDS) {
        float acc = 0.0f;
        for (nk_u32 w = lane; w < words; w += NK_SIMD) {
            const typename W::word bundle = phi[o * words + w];
            NK_UNROLL for (nk_u32 j = 0u; j < NK_PER(W); ++j) acc += W::part(bundle, j) * xs[w * NK_PER(W) + j];
        }
        acc = nk_simd_sum(acc);
        if (lane == 0u) z[o] = (o < p.n ? scale[0] : (o < 2u * p.n ? scale[1] : scale[2])) * acc * r + bias[o];
    }
    NK_BARRIER();
}

// pre and post by the first SIMD group, R by the last, each lane of which computes the whole matrix.
NK_FN void nk_lanes_decide(NK_SPTR(const float) z, NK_GPTR(float) mix, NK_CONST(LanesParams) p, nk_u32 tid, nk_u32 row) {
    const nk_u32 lane = tid & (NK_SIMD - 1u);
    const nk_u32 simd = tid / NK_SIMD;
    const nk_u32 base = row * p.n * (p.n + 2u);
    if (tid < 2u * p.n) mix[base + tid] = (tid < p.n ? 1.0f : 2.0f) * nk_sigmoid(z[tid]);
    if (simd == NK_FRONT_SIMDS - 1u) {
        float k[16];
        NK_UNROLL for (nk_u32 i = 0u; i < NK_LANES; ++i) {
            NK_UNROLL for (nk_u32 j = 0u; j < NK_LANES; ++j) {
                // lanes that are not there: a block of its own on the diagonal
                k[4u * i + j] = i < p.n && j < p.n ? z[2u * p.n + i * p.n + j] : (i == j ? 0.0f : -1.0e30f);
            }
        }
        nk_sinkhorn(k, p.rounds);
        NK_UNROLL for (nk_u32 i = 0u; i < NK_LANES; ++i) {
            NK_UNROLL for (nk_u32 j = 0u; j < NK_LANES; ++j) {
                if (lane == 4u * i + j && i < p.n && j < p.n) mix[base + 2u * p.n + i * p.n + j] = k[4u * i + j];
            }
        }
    }
}

// sum_i pre_i X_i of one column
NK_FN float nk_lanes_read(NK_SPTR(const float) xs, NK_REG const float (&pre)[4], NK_CONST(LanesParams) p, nk_u32 i) {
    float u = 0.0f;
    NK_UNROLL for (nk_u32 l = 0u; l < NK_LANES; ++l) {
        if (l < p.n) u += pre[l] * xs[l * p.d + i];
    }
    return u;
}

#define NK_LANES_PRE(pre, z)                                                    \
    float pre[4];                                                               \
    NK_UNROLL for (nk_u32 l = 0u; l < NK_LANES; ++l) pre[l] = l < p.n ? nk_sigmoid(z[l]) : 0.0f;

#define NK_LANES_FRONT(NAME, S, W)                                                                                \
    NK_KERNEL(NAME, NK_FRONT_THREADS)                                                                             \
    (NK_IN(S::raw, x, 0), NK_IN(W::word, phi, 1), NK_IN(float, bias, 2), NK_IN(float, scale, 3),                  \
     NK_OUT(S::raw, u, 4), NK_OUT(float, mix, 5), NK_PARAMS(LanesParams, p, 6) NK_BUILTINS) {                     \
        NK_SHARED(float, xs, NK_LANES_MAX);                                                                       \
        NK_SHARED(float, z, NK_LANES * (NK_LANES + 2u));                                                          \
        NK_SHARED(float, red, NK_FRONT_SIMDS);                                                                    \
        const nk_u32 tid = NK_TID;                                                                                \
        const nk_u32 row = NK_BID_X;                                                                              \
        nk_lanes_project<S, W>(x, phi, bias, scale, p, xs, z, red, tid, row);                                     \
        NK_LANES_PRE(pre, z)                                                                                      \
        for (nk_u32 i = tid; i < p.d; i += NK_FRONT_THREADS) u[row * p.d + i] = S::from(nk_lanes_read(xs, pre, p, i)); \
        nk_lanes_decide(z, mix, p, tid, row);                                                                     \
    }                                                                                                             \
    NK_END(NAME)
NK_LANES_FRONT(lanes_front_f32_f32, NkF32, NkF32)
NK_LANES_FRONT(lanes_front_f32_bf16, NkF32, NkBF16)
NK_LANES_FRONT(lanes_front_f32_f16, NkF32, NkF16)
NK_LANES_FRONT(lanes_front_bf16_bf16, NkBF16, NkBF16)
NK_LANES_FRONT(lanes_front_f16_f16, NkF16, NkF16)

// The engram's part: two columns a thread at most, so that u stays in registers between the sums and the use of them.
#define NK_RECALL_COLUMNS 2

NK_FN void nk_recall(NK_GPTR(const float) key, NK_GPTR(const float) values, NK_GPTR(const float) taps,
                     NK_GPTR(const nk_u32) state, NK_GPTR(float) x, NK_CONST(LanesParams) p, NK_SPTR(const float) xs,
                     NK_REG const float (&pre)[4], NK_SPTR(float) red, nk_u32 tid, nk_u32 row) {
    float u[NK_RECALL_COLUMNS];
    float uu = 0.0f;
    float kk = 0.0f;
    float uk = 0.0f;
    NK_UNROLL for (nk_u32 e = 0u; e < NK_RECALL_COLUMNS; ++e) {
        const nk_u32 i = tid + e * NK_FRONT_THREADS;
        u[e] = i < p.d ? nk_lanes_read(xs, pre, p, i) : 0.0f;
        const float k = i < p.d ? key[row * p.d + i] : 0.0f;
        uu += u[e] * u[e];
        kk += k * k;
        uk += u[e] * k;
    }
    uu = nk_simd_sum(uu);
    kk = nk_simd_sum(kk);
    uk = nk_simd_sum(uk);
    if ((tid & (NK_SIMD - 1u)) == 0u) {
        red[tid / NK_SIMD] = uu;
        red[NK_FRONT_SIMDS + tid / NK_SIMD] = kk;
        red[2u * NK_FRONT_SIMDS + tid / NK_SIMD] = uk;
    }
    NK_BARRIER();
    uu = 0.0f;
    kk = 0.0f;
    uk = 0.0f;
    for (nk_u32 s = 0u; s < NK_FRONT_SIMDS; ++s) {
        uu += red[s];
        kk += red[NK_FRONT_SIMDS + s];
        uk += red[2u * NK_FRONT_SIMDS + s];
    }
    const float agreement = uk * nk_rms_factor(uu, p.d, p.eps) * nk_rms_factor(kk, p.d, p.eps);
    const float alpha = nk_sigmoid(agreement / NK_SQRT((float)p.d));
    const nk_u32 position = state[row * NK_STATE + NK_STATE_POSITION];
    const nk_u32 base = row / p.rows_a_sequence * p.ring;
    NK_UNROLL for (nk_u32 e = 0u; e < NK_RECALL_COLUMNS; ++e) {
        const nk_u32 i = tid + e * NK_FRONT_THREADS;
        if (i < p.d) {
            float v = 0.0f;
            for (nk_u32 j = 0u; j < NK_TAPS && j * p.dilation <= position; ++j) {
                v += taps[j * p.d + i] * values[(base + (position - j * p.dilation) % p.ring) * p.d + i];
            }
            x[row * p.d + i] = u[e] + alpha * v;
        }
    }
}

// lanes_recall: key: [rows][d]; values: [sequences][ring][d]; taps: [4][d]; state: one a row.
#define NK_LANES_RECALL(NAME, W)                                                                                  \
    NK_KERNEL(NAME, NK_FRONT_THREADS)                                                                             \
    (NK_IN(float, x, 0), NK_IN(W::word, phi, 1), NK_IN(float, bias, 2), NK_IN(float, scale, 3),                   \
     NK_IN(float, key, 4), NK_IN(float, values, 5), NK_IN(float, taps, 6), NK_IN(nk_u32, state, 7),               \
     NK_OUT(float, y, 8), NK_OUT(float, mix, 9), NK_PARAMS(LanesParams, p, 10) NK_BUILTINS) {                     \
        NK_SHARED(float, xs, NK_LANES_MAX);                                                                       \
        NK_SHARED(float, z, NK_LANES * (NK_LANES + 2u));                                                          \
        NK_SHARED(float, red, NK_FRONT_SIMDS);                                                                    \
        NK_SHARED(float, red3, 3u * NK_FRONT_SIMDS);                                                              \
        const nk_u32 tid = NK_TID;                                                                                \
        const nk_u32 row = NK_BID_X;                                                                              \
        nk_lanes_project<NkF32, W>(x, phi, bias, scale, p, xs, z, red, tid, row);                                 \
        NK_LANES_PRE(pre, z)                                                                                      \
        nk_recall(key, values, taps, state, y, p, xs, pre, red3, tid, row);                                       \
        nk_lanes_decide(z, mix, p, tid, row);                                                                     \
    }                                                                                                             \
    NK_END(NAME)
NK_LANES_RECALL(lanes_recall_f32, NkF32)
NK_LANES_RECALL(lanes_recall_bf16, NkBF16)
NK_LANES_RECALL(lanes_recall_f16, NkF16)

#define NK_LANES_MIX(NAME, S)                                                                                     \
    NK_KERNEL(NAME, NK_MIX_THREADS)                                                                               \
    (NK_INOUT(S::raw, x, 0), NK_IN(S::raw, y, 1), NK_IN(float, mix, 2), NK_PARAMS(LanesParams, p, 3) NK_BUILTINS) { \
        const nk_u32 row = NK_BID_X;                                                                              \
        for (nk_u32 i = NK_TID; i < p.d; i += NK_MIX_THREADS) {                                                   \
            nk_mix_column<S>(x, mix, S::to(y[row * p.d + i]), p.n, p.d, row, i);                                  \
        }                                                                                                         \
    }                                                                                                             \
    NK_END(NAME)
NK_LANES_MIX(lanes_mix_f32, NkF32)
NK_LANES_MIX(lanes_mix_bf16, NkBF16)
NK_LANES_MIX(lanes_mix_f16, NkF16)
