// Hashed n-gram memory.
//     engram_gather   e = the hashed rows of all tables; one block a row of the pass
//     engram_recall   the same, then [k | v] = e [Wk; Wv]^T; v joins the ring of the last values; grid (2 d / 8, rows)
// history: [sequences][history_ring]; state: one a row; tables: [tables * slots][cols] in any storage; e: [rows][d];
// W: [2 d][d], dense or packed; k: [rows][d]; values: [sequences][value_ring][d], at position % value_ring.

#define NK_GATHER_SIMDS 4u
#define NK_ENGRAM_MAX 1024   // d at most

template <typename S>
NK_FN void nk_gather(NK_GPTR(const nk_u32) history, NK_GPTR(const nk_u32) state, NK_GPTR(const nk_u8) tables,
                     NK_GPTR(const nk_u16) norms, NK_GPTR(const float) levels, NK_GPTR(typename S::raw) e,
                     NK_CONST(EngramParams) p, nk_u32 tid, nk_u32 row) {
    const nk_u32 lane = tid & (NK_SIMD - 1u);
    const nk_u32 position = state[row * NK_STATE + NK_STATE_POSITION];
    const nk_u32 base = row / p.rows_a_sequence * p.history_ring;
    const nk_u32 tiles = (p.table.padded + 127u) / 128u;
    const nk_u32 count = p.n_orders * p.heads;
    for (nk_u32 t = tid / NK_SIMD; t < count * tiles; t += NK_GATHER_SIMDS) {
        const nk_u32 column = t % tiles * 128u;
        float v[4];
        nk_recall_row(v, history, tables, norms, levels, p, t / tiles, column, position, base, lane);
        NK_UNROLL for (nk_u32 k = 0u; k < 4u; ++k) {
            const nk_u32 i = column + lane * 4u + k;
            if (i < p.table.cols) e[(row * count + t / tiles) * p.table.cols + i] = S::from(v[k]);
        }
    }
}

#define NK_GATHER(NAME, S)                                                                                           \
    NK_KERNEL(NAME, (NK_GATHER_SIMDS * NK_SIMD))                                                                     \
    (NK_IN(nk_u32, history, 0), NK_IN(nk_u32, state, 1), NK_IN(nk_u8, tables, 2), NK_IN(nk_u16, norms, 3),           \
     NK_IN(float, levels, 4), NK_OUT(S::raw, e, 5), NK_PARAMS(EngramParams, p, 6) NK_BUILTINS) {                     \
        nk_gather<S>(history, state, tables, norms, levels, e, p, NK_TID, NK_BID_X);                        \
    }                                                                                                                \
    NK_END(NAME)
NK_GATHER(engram_gather_f32, NkF32)
NK_GATHER(engram_gather_bf16, NkBF16)
NK_GATHER(engram_gather_f16, NkF16)

template <typename W>
NK_FN void nk_engram_recall(NK_GPTR(const nk_u32) history, NK_GPTR(const nk_u32) state, NK_GPTR(const nk_u8) tables,
                            NK_GPTR(const nk_u16) table_norms, NK_GPTR(const float) table_levels,
                            NK_GPTR(const typename W::store) w, NK_GPTR(const nk_u16) norms,
                            NK_GPTR(const float) levels, nk_u32 level_count, NK_GPTR(float) key, NK_GPTR(float) values,
                            NK_CONST(EngramParams) p, NK_CONST(LinearParams) product,
                            NK_SPTR(float) e, NK_SPTR(float) a, NK_SPTR(float) book, nk_u32 tid, nk_u32 part,
                            nk_u32 row) {
    const nk_u32 lane = tid & (NK_SIMD - 1u);
    const nk_u32 simd = tid / NK_SIMD;
    const nk_u32 position = state[row * NK_STATE + NK_STATE_POSITION];
    const nk_u32 sequence = row / p.rows_a_sequence;
    const nk_u32 tiles = (p.table.padded + 127u) / 128u;
    if (tid < level_count) book[tid] = levels[tid];
    for (nk_u32 t = simd; t < p.n_orders * p.heads * tiles; t += NK_LINEAR_SIMDS) {
        const nk_u32 column = t % tiles * 128u;
        float v[4];
        nk_recall_row(v, history, tables, table_norms, table_levels, p, t / tiles, column, position,
                      sequence * p.history_ring, lane);
        NK_UNROLL for (nk_u32 k = 0u; k < 4u; ++k) {
            const nk_u32 i = column + lane * 4u + k;
            if (i < p.table.cols) e[t / tiles * p.table.cols + i] = v[k];
        }
    }
    NK_BARRIER();
    const nk_u32 o = part * NK_LINEAR_SIMDS + simd;
    float acc[1];
    acc[0] = 0.0f;
    for (nk_u32 chunk = 0u; chunk < product.padded; chunk += NK_CHUNK) {
        if (chunk > 0u) NK_BARRIER();
        for (nk_u32 tile = simd; tile < NK_CHUNK / NK_TILE; tile += NK_LINEAR_SIMDS) {
            float v[4];
            NK_UNROLL for (nk_u32 k = 0u; k < 4u; ++k) {
                const nk_u32 i = chunk + tile * NK_TILE + lane * 4u + k;
                v[k] = i < product.n_in ? e[i] : 0.0f;
            }
            nk_stage<W>(v, a, tile * NK_TILE, lane, product.group_shift);
        }
        NK_BARRIER();
        nk_multiply<W, 1, 1>(acc, w, norms, book, a, product, chunk, o, lane);
    }
    const float y = nk_simd_sum(acc[0]);
    const nk_u32 d = product.n_in;
    if (lane == 0u && o < d) key[row * d + o] = y;
    if (lane == 0u && o >= d && o < 2u * d) values[(sequence * p.value_ring + position % p.value_ring) * d + o - d] = y;
}

struct RecallParams {
    EngramParams engram;
    LinearParams product;
};

#define NK_ENGRAM_RECALL_SHARED(LEVELS)   \
    NK_SHARED(float, e, NK_ENGRAM_MAX);   \
    NK_SHARED(float, a, NK_CHUNK);        \
    NK_SHARED(float, book, LEVELS);
#define NK_ENGRAM_RECALL(NAME, W)                                                                                     \
    NK_KERNEL(NAME, NK_LINEAR_THREADS)                                                                                \
    (NK_IN(nk_u32, history, 0), NK_IN(nk_u32, state, 1), NK_IN(nk_u8, tables, 2), NK_IN(nk_u16, table_norms, 3),      \
     NK_IN(float, table_levels, 4), NK_IN(W::word, w, 5), NK_OUT(float, key, 6), NK_INOUT(float, values, 7),            \
     NK_PARAMS(RecallParams, p, 8) NK_BUILTINS) {                                                                     \
        NK_ENGRAM_RECALL_SHARED(1)                                                                                    \
        nk_engram_recall<NkDense<W> >(history, state, tables, table_norms, table_levels, w, table_norms, table_levels, \
                                      0u, key, values, p.engram, p.product, e, a, book, NK_TID,       \
                                      NK_BID_X, NK_BID_Y);                                                            \
    }                                                                                                                 \
    NK_END(NAME)
#define NK_ENGRAM_RECALL_PACKED(NAME, BITS)                                                                           \
    NK_KERNEL(NAME, NK_LINEAR_THREADS)                                                                                \
    (NK_IN(nk_u32, history, 0), NK_IN(nk_u32, state, 1), NK_IN(nk_u8, tables, 2), NK_IN(nk_u16, table_norms, 3),      \
     NK_IN(float, table_levels, 4), NK_IN(NkCodes<BITS>::store, codes, 5), NK_IN(nk_u16, norms, 6),                   \
     NK_IN(float, levels, 7), NK_OUT(float, key, 8), NK_INOUT(float, values, 9),                                        \
     NK_PARAMS(RecallParams, p, 10) NK_BUILTINS) {                                                                    \
        NK_ENGRAM_RECALL_SHARED(1 << BITS)                                                                            \
        nk_engram_recall<NkCodes<BITS> >(history, state, tables, table_norms, table_levels, codes, norms, levels,     \
                                         1u << BITS, key, values, p.engram, p.product, e, a, book,    \
                                         NK_TID, NK_BID_X, NK_BID_Y);                                                 \
    }                                                                                                                 \
    NK_END(NAME)
NK_ENGRAM_RECALL(engram_recall_f32, NkF32)
NK_ENGRAM_RECALL(engram_recall_bf16, NkBF16)
NK_ENGRAM_RECALL(engram_recall_f16, NkF16)
NK_ENGRAM_RECALL_PACKED(engram_recall_packed_2, 2)
NK_ENGRAM_RECALL_PACKED(engram_recall_packed_3, 3)
NK_ENGRAM_RECALL_PACKED(engram_recall_packed_4, 4)
