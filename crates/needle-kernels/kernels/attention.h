// Decode attention: one new position a row, one block a query head, grid (h, rows).
//     q = rope(zcrms(q; q_norm)),  k = rope(zcrms(k; k_norm)),  cache[slot] = k, v
//     out = sigmoid(gate) softmax(q.K / sqrt(k)) V    over the first `filled` slots
// The cache holds the pinned first positions and a ring of the last ones, so every filled slot is in sight; which slot is
// the new position's, and how many are filled, is read from the row's state. The new key and value are taken from shared
// memory; the first query head of a key head writes them.
// qkvg: [rows][stride], q at 0, k at h k, v at (h + g) k, gate at (h + g) k + g v; out: [rows][h][v];
// k_cache: [rows][slots][g][k]; v_cache: [rows][slots][g][v]. k and v even, at most 64 or 128 by the kernel's name.
//
// Eight lanes share a key: four keys a SIMD group, 32 a block at a time. Softmax is online.

#define NK_ATTEND_SIMDS 8u
#define NK_ATTEND_THREADS (NK_ATTEND_SIMDS * NK_SIMD)
#define NK_KEYS_A_SIMD 4u
#define NK_LANES_A_KEY 8u
#define NK_UNSEEN (-1.0e30f)

struct AttentionParams {
    nk_u32 stride;
    nk_u32 h;
    nk_u32 g;
    nk_u32 k;
    nk_u32 v;
    nk_u32 slots;
    float eps;
    float scale;   // 1 / sqrt(k)
};

template <typename C, int MAX>
NK_FN void nk_attend(NK_GPTR(const float) qkvg, NK_GPTR(const float) q_norm, NK_GPTR(const float) k_norm,
                     NK_GPTR(const float) angles, NK_GPTR(const nk_u32) state, NK_GPTR(typename C::word) k_cache,
                     NK_GPTR(typename C::word) v_cache, NK_GPTR(float) out, NK_CONST(AttentionParams) p,
                     NK_SPTR(float) q, NK_SPTR(float) kn, NK_SPTR(float) vn, NK_SPTR(float) part, nk_u32 tid,
                     nk_u32 head, nk_u32 row) {
    const nk_u32 lane = tid & (NK_SIMD - 1u);
    const nk_u32 simd = tid / NK_SIMD;
    const nk_u32 group = p.h / p.g;
    const nk_u32 g = head / group;
    const nk_u32 at = row * p.stride;
    const nk_u32 position = state[row * NK_STATE + NK_STATE_POSITION];
    const nk_u32 slot = state[row * NK_STATE + NK_STATE_SLOT];
    const nk_u32 filled = state[row * NK_STATE + NK_STATE_FILLED];
    if (simd == 0u) {
        nk_norm_rope<NkF32, NkF32>(qkvg, at + head * p.k, q_norm, angles, position, p.k, p.eps, q, 0u, lane);
    } else if (simd == 1u) {
        nk_norm_rope<NkF32, C>(qkvg, at + (p.h + g) * p.k, k_norm, angles, position, p.k, p.eps, kn, 0u, lane);
    } else if (simd == 2u) {
        const nk_u32 from = at + (p.h + p.g) * p.k + g * p.v;
        for (nk_u32 i = lane; i < p.v; i += NK_SIMD) vn[i] = C::to(C::from(qkvg[from + i]));
    }
    NK_BARRIER();

    const nk_u32 k_words = p.k / NK_PER(C);
    const nk_u32 v_words = p.v / NK_PER(C);
    if (head == g * group) {
        const nk_u32 cached = (row * p.slots + slot) * p.g + g;
        for (nk_u32 w = tid; w < k_words; w += NK_ATTEND_THREADS) {
            k_cache[cached * k_words + w] = C::join(kn[w * NK_PER(C)], kn[w * NK_PER(C) + NK_PER(C) - 1u]);
        }
        for (nk_u32 w = tid; w < v_words; w += NK_ATTEND_THREADS) {
            v_cache[cached * v_words + w] = C::join(vn[w * NK_PER(C)], vn[w * NK_PER(C) + NK_PER(C) - 1u]);
        }
    }

    // Lane `sub` of a key holds the words sub, sub + 8, ... of query, key and value.
    const nk_u32 sub = lane & (NK_LANES_A_KEY - 1u);
    float qr[MAX / 8];
    float acc[MAX / 8];
    NK_UNROLL for (int e = 0; e < MAX / 8; ++e) {
        const nk_u32 w = sub + NK_LANES_A_KEY * (e / C::per);
        qr[e] = w < k_words ? q[w * NK_PER(C) + e % C::per] : 0.0f;
        acc[e] = 0.0f;
    }
    float top = NK_UNSEEN;
    float sum = 0.0f;
    for (nk_u32 first = simd * NK_KEYS_A_SIMD; first < filled; first += NK_ATTEND_SIMDS * NK_KEYS_A_SIMD) {
        const nk_u32 s = first + lane / NK_LANES_A_KEY;
        const nk_u32 cached = (row * p.slots + s) * p.g + g;
        float dot = 0.0f;
        NK_UNROLL for (int e = 0; e < MAX / 8; e += C::per) {
            const nk_u32 w = sub + NK_LANES_A_KEY * (e / C::per);
            if (s < filled && w < k_words) {
                if (s == slot) {
                    NK_UNROLL for (nk_u32 j = 0u; j < NK_PER(C); ++j) dot += qr[e + j] * kn[w * NK_PER(C) + j];
                } else {
                    const typename C::word bundle = k_cache[cached * k_words + w];
                    NK_UNROLL for (nk_u32 j = 0u; j < NK_PER(C); ++j) dot += qr[e + j] * C::part(bundle, j);
                }
            }
        }
        NK_UNROLL for (nk_u32 m = NK_LANES_A_KEY / 2u; m > 0u; m >>= 1) dot += NK_SIMD_XOR(dot, m);
        const float score = s < filled ? dot * p.scale : NK_UNSEEN;
        const float peak = NK_MAX(top, score);
        const float keep = NK_EXP(top - peak);
        const float weight = s < filled ? NK_EXP(score - peak) : 0.0f;
        top = peak;
        sum = sum * keep + weight;
        NK_UNROLL for (int e = 0; e < MAX / 8; e += C::per) {
            const nk_u32 w = sub + NK_LANES_A_KEY * (e / C::per);
            if (s < filled && w < v_words) {
                if (s == slot) {
                    NK_UNROLL for (nk_u32 j = 0u; j < NK_PER(C); ++j) {
                        acc[e + j] = acc[e + j] * keep + weight * vn[w * NK_PER(C) + j];
                    }
                } else {
                    const typename C::word bundle = v_cache[cached * v_words + w];
                    NK_UNROLL for (nk_u32 j = 0u; j < NK_PER(C); ++j) {
                        acc[e + j] = acc[e + j] * keep + weight * C::part(bundle, j);
                    }
                }
            }
        }
    }

    // The four keys of a SIMD group, then the SIMD groups, brought to one peak and summed.
    float peak = top;
    NK_UNROLL for (nk_u32 m = NK_LANES_A_KEY; m < NK_SIMD; m <<= 1) {
        const float other = NK_SIMD_XOR(peak, m);
        peak = NK_MAX(peak, other);
    }
    const float keep = NK_EXP(top - peak);
    sum *= keep;
    NK_UNROLL for (nk_u32 m = NK_LANES_A_KEY; m < NK_SIMD; m <<= 1) sum += NK_SIMD_XOR(sum, m);
    NK_UNROLL for (int e = 0; e < MAX / 8; ++e) {
        acc[e] *= keep;
        NK_UNROLL for (nk_u32 m = NK_LANES_A_KEY; m < NK_SIMD; m <<= 1) acc[e] += NK_SIMD_XOR(acc[e], m);
    }
    const nk_u32 mine = simd * (MAX + 2u);
    if (lane < NK_LANES_A_KEY) {
        NK_UNROLL for (int e = 0; e < MAX / 8; ++e) {
            part[mine + (sub + NK_LANES_A_KEY * (e / C::per)) * NK_PER(C) + e % C::per] = acc[e];
        }
    }
    if (lane == 0u) {
        part[mine + MAX] = peak;
        part[mine + MAX + 1u] = sum;
    }
    NK_BARRIER();
    for (nk_u32 i = tid; i < p.v; i += NK_ATTEND_THREADS) {
        float all = NK_UNSEEN;
        NK_UNROLL for (nk_u32 w = 0u; w < NK_ATTEND_SIMDS; ++w) all = NK_MAX(all, part[w * (MAX + 2u) + MAX]);
        float total = 0.0f;
        float value = 0.0f;
        NK_UNROLL for (nk_u32 w = 0u; w < NK_ATTEND_SIMDS; ++w) {
            const float f = NK_EXP(part[w * (MAX + 2u) + MAX] - all);
            total += f * part[w * (MAX + 2u) + MAX + 1u];
            value += f * part[w * (MAX + 2u) + i];
        }
        const float gate = qkvg[at + (p.h + p.g) * p.k + p.g * p.v + head * p.v + i];
        out[(row * p.h + head) * p.v + i] = nk_sigmoid(gate) * value / total;
    }
}

#define NK_ATTENTION(NAME, C, MAX)                                                                                  \
    NK_KERNEL(NAME, NK_ATTEND_THREADS)                                                                              \
    (NK_IN(float, qkvg, 0), NK_IN(float, q_norm, 1), NK_IN(float, k_norm, 2), NK_IN(float, angles, 3),              \
     NK_IN(nk_u32, state, 4), NK_INOUT(C::word, k_cache, 5), NK_INOUT(C::word, v_cache, 6), NK_OUT(float, out, 7),  \
     NK_PARAMS(AttentionParams, p, 8) NK_BUILTINS) {                                                                \
        NK_SHARED(float, q, MAX);                                                                                   \
        NK_SHARED(float, kn, MAX);                                                                                  \
        NK_SHARED(float, vn, MAX);                                                                                  \
        NK_SHARED(float, part, NK_ATTEND_SIMDS * (MAX + 2u));                                                       \
        nk_attend<C, MAX>(qkvg, q_norm, k_norm, angles, state, k_cache, v_cache, out, p, q, kn, vn, part, NK_TID,   \
                          NK_BID_X, NK_BID_Y);                                                                      \
    }                                                                                                               \
    NK_END(NAME)
NK_ATTENTION(attention_64_f32, NkF32, 64)
NK_ATTENTION(attention_64_bf16, NkBF16, 64)
NK_ATTENTION(attention_64_f16, NkF16, 64)
NK_ATTENTION(attention_128_f32, NkF32, 128)
NK_ATTENTION(attention_128_bf16, NkBF16, 128)
NK_ATTENTION(attention_128_f16, NkF16, 128)
