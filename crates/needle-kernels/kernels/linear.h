// Products with dense weights for decoding: y = x W^T, and with the norm in front y = zcrms(mean of lanes(x); s) W^T.
// x: [rows][lanes][n_in]; s: [n_in]; W: [n_out][n_in] in f32, bf16 or f16; y: [rows][n_out]. n_in even for 16 bits.
// Grid (ceil(n_out / rows of W a block), ceil(rows / NB)); NB, the rows of x a block, is the last part of the name.

#define NK_LINEAR(NAME, W, NB)                                                                                      \
    NK_KERNEL(linear_##NAME, NK_LINEAR_THREADS)                                                                     \
    (NK_IN(float, x, 0), NK_IN(W::word, w, 1), NK_OUT(float, y, 2), NK_PARAMS(LinearParams, p, 3) NK_BUILTINS) {    \
        NK_SHARED(float, a, NB * NK_CHUNK);                                                                         \
        NK_SHARED(float, red, NK_LINEAR_SIMDS);                                                                     \
        NK_SHARED(float, book, 1);                                                                                  \
        nk_linear<NkF32, NkDense<W>, NB, NK_ROWS_OUT(NB), 0>(x, x, w, NK_NULL(nk_u16), x, 0u, y, p, a, red, book, NK_TID, \
                                                             NK_BID_X, NK_BID_Y);                                   \
    }                                                                                                               \
    NK_END(linear_##NAME)                                                                                           \
    NK_KERNEL(norm_linear_##NAME, NK_LINEAR_THREADS)                                                                \
    (NK_IN(float, x, 0), NK_IN(float, s, 1), NK_IN(W::word, w, 2), NK_OUT(float, y, 3),                             \
     NK_PARAMS(LinearParams, p, 4) NK_BUILTINS) {                                                                   \
        NK_SHARED(float, a, NB * NK_CHUNK);                                                                         \
        NK_SHARED(float, red, NK_LINEAR_SIMDS);                                                                     \
        NK_SHARED(float, book, 1);                                                                                  \
        nk_linear<NkF32, NkDense<W>, NB, NK_ROWS_OUT(NB), 1>(x, s, w, NK_NULL(nk_u16), x, 0u, y, p, a, red, book, NK_TID, \
                                                             NK_BID_X, NK_BID_Y);                                   \
    }                                                                                                               \
    NK_END(norm_linear_##NAME)
NK_LINEAR(f32_x1, NkF32, 1)
NK_LINEAR(f32_x8, NkF32, 8)
NK_LINEAR(bf16_x1, NkBF16, 1)
NK_LINEAR(bf16_x8, NkBF16, 8)
NK_LINEAR(f16_x1, NkF16, 1)
NK_LINEAR(f16_x8, NkF16, 8)
