// The start of the residual stream, one block a row: X_i = E[token] sqrt(d) for each of n lanes; and the token joins the
// history that the engram hashes.
// state: one a row; E: [vocabulary][d] in any storage; X: [rows][n][d]; history: [sequences][ring], at position % ring.

#define NK_EMBED_SIMDS 4u

struct EmbedParams {
    TableParams table;
    nk_u32 n;
    nk_u32 ring;              // 0: no history
    nk_u32 rows_a_sequence;
    float scale;
};

#define NK_EMBED(NAME, S)                                                                                         \
    NK_KERNEL(NAME, (NK_EMBED_SIMDS * NK_SIMD))                                                                   \
    (NK_IN(nk_u32, state, 0), NK_IN(nk_u8, e, 1), NK_IN(nk_u16, norms, 2), NK_IN(float, levels, 3),               \
     NK_OUT(S::raw, x, 4), NK_INOUT(nk_u32, history, 5), NK_PARAMS(EmbedParams, p, 6) NK_BUILTINS) {                \
        nk_embed<S>(state, e, norms, levels, x, history, p, NK_TID, NK_BID_X);                           \
    }                                                                                                             \
    NK_END(NAME)

template <typename S>
NK_FN void nk_embed(NK_GPTR(const nk_u32) state, NK_GPTR(const nk_u8) e, NK_GPTR(const nk_u16) norms,
                    NK_GPTR(const float) levels, NK_GPTR(typename S::raw) x, NK_GPTR(nk_u32) history,
                    NK_CONST(EmbedParams) p, nk_u32 tid, nk_u32 row) {
    const nk_u32 lane = tid & (NK_SIMD - 1u);
    const nk_u32 token = state[row * NK_STATE + NK_STATE_TOKEN];
    for (nk_u32 column = tid / NK_SIMD * 128u; column < p.table.padded; column += NK_EMBED_SIMDS * 128u) {
        float v[4];
        nk_fetch(v, e, norms, levels, p.table, token, column, lane);
        NK_UNROLL for (nk_u32 k = 0u; k < 4u; ++k) {
            const nk_u32 i = column + lane * 4u + k;
            for (nk_u32 l = 0u; l < p.n && i < p.table.cols; ++l) {
                x[(row * p.n + l) * p.table.cols + i] = S::from(v[k] * p.scale);
            }
        }
    }
    if (tid == 0u && p.ring > 0u) {
        const nk_u32 position = state[row * NK_STATE + NK_STATE_POSITION];
        history[row / p.rows_a_sequence * p.ring + position % p.ring] = token;
    }
}
NK_EMBED(embed_f32, NkF32)
NK_EMBED(embed_bf16, NkBF16)
NK_EMBED(embed_f16, NkF16)
