// q/k norm, rotary positions and cache write for the rows of a pass. One SIMD group a head, four heads a block, grid
// (rows, ceil((h + 2g) / 4)): query heads, key heads, then value heads, which are only written to the cache.
//     q' = rope(zcrms(q; q_norm)),  k' = rope(zcrms(k; k_norm)),  cache[slot] = k', v
// qkv: [rows][stride], q at 0, k at h k, v at (h + g) k; q_norm, k_norm: [k]; angles: [positions][k]; state: one a row;
// q': [rows][h][k]; k': [rows][g][k]; k_cache: [sequences][slots][g][k]; v_cache: [sequences][slots][g][v].
// A slot of 0xffffffff is not written.

#define NK_ROPE_SIMDS 4u

struct RopeParams {
    nk_u32 stride;
    nk_u32 h;
    nk_u32 g;
    nk_u32 k;
    nk_u32 v;
    nk_u32 slots;
    nk_u32 rows_a_sequence;
    float eps;
};

template <typename S, typename C>
NK_FN void nk_rope(NK_GPTR(const typename S::raw) qkv, NK_GPTR(const float) q_norm, NK_GPTR(const float) k_norm,
                   NK_GPTR(const float) angles, NK_GPTR(const nk_u32) state, NK_GPTR(typename S::raw) q,
                   NK_GPTR(typename S::raw) k, NK_GPTR(typename C::word) k_cache, NK_GPTR(typename C::word) v_cache,
                   NK_CONST(RopeParams) p, NK_SPTR(float) head, nk_u32 tid, nk_u32 row, nk_u32 part) {
    const nk_u32 lane = tid & (NK_SIMD - 1u);
    const nk_u32 simd = tid / NK_SIMD;
    const nk_u32 item = part * NK_ROPE_SIMDS + simd;
    const nk_u32 position = state[row * NK_STATE + NK_STATE_POSITION];
    const nk_u32 slot = state[row * NK_STATE + NK_STATE_SLOT];
    const nk_u32 cached = (row / p.rows_a_sequence * p.slots + slot) * p.g;
    const nk_u32 at = row * p.stride;
    const nk_u32 to = simd * NK_HEAD_MAX;
    if (item < p.h) {
        nk_norm_rope<S, NkF32>(qkv, at + item * p.k, q_norm, angles, position, p.k, p.eps, head, to, lane);
    } else if (item < p.h + p.g) {
        nk_norm_rope<S, NkF32>(qkv, at + item * p.k, k_norm, angles, position, p.k, p.eps, head, to, lane);
    } else if (item < p.h + 2u * p.g) {
        const nk_u32 from = at + (p.h + p.g) * p.k + (item - p.h - p.g) * p.v;
        for (nk_u32 i = lane; i < p.v; i += NK_SIMD) head[to + i] = S::to(qkv[from + i]);
    }
    NK_BARRIER();
    if (item < p.h) {
        for (nk_u32 i = lane; i < p.k; i += NK_SIMD) q[(row * p.h + item) * p.k + i] = S::from(head[to + i]);
    } else if (item < p.h + p.g) {
        const nk_u32 g = item - p.h;
        for (nk_u32 i = lane; i < p.k; i += NK_SIMD) k[(row * p.g + g) * p.k + i] = S::from(head[to + i]);
        for (nk_u32 w = lane; w < p.k / NK_PER(C) && slot != 0xffffffffu; w += NK_SIMD) {
            const nk_u32 i = to + w * NK_PER(C);
            k_cache[(cached + g) * (p.k / NK_PER(C)) + w] = C::join(head[i], head[i + NK_PER(C) - 1u]);
        }
    } else if (item < p.h + 2u * p.g) {
        const nk_u32 g = item - p.h - p.g;
        for (nk_u32 w = lane; w < p.v / NK_PER(C) && slot != 0xffffffffu; w += NK_SIMD) {
            const nk_u32 i = to + w * NK_PER(C);
            v_cache[(cached + g) * (p.v / NK_PER(C)) + w] = C::join(head[i], head[i + NK_PER(C) - 1u]);
        }
    }
}

#define NK_ROPE(NAME, S, C)                                                                                        \
    NK_KERNEL(NAME, (NK_ROPE_SIMDS * NK_SIMD))                                                                     \
    (NK_IN(S::raw, qkv, 0), NK_IN(float, q_norm, 1), NK_IN(float, k_norm, 2), NK_IN(float, angles, 3),             \
     NK_IN(nk_u32, state, 4), NK_OUT(S::raw, q, 5), NK_OUT(S::raw, k, 6), NK_INOUT(C::word, k_cache, 7),             \
     NK_INOUT(C::word, v_cache, 8), NK_PARAMS(RopeParams, p, 9) NK_BUILTINS) {                                       \
        NK_SHARED(float, head, NK_ROPE_SIMDS * NK_HEAD_MAX);                                                       \
        nk_rope<S, C>(qkv, q_norm, k_norm, angles, state, q, k, k_cache, v_cache, p, head, NK_TID, NK_BID_X,       \
                      NK_BID_Y);                                                                                   \
    }                                                                                                              \
    NK_END(NAME)
NK_ROPE(rope_f32_f32, NkF32, NkF32)
NK_ROPE(rope_f32_bf16, NkF32, NkBF16)
NK_ROPE(rope_f32_f16, NkF32, NkF16)
NK_ROPE(rope_bf16_bf16, NkBF16, NkBF16)
NK_ROPE(rope_f16_f16, NkF16, NkF16)
