// Products with packed weights (Cactus Quants), read where they lie. Row o of W is cut into groups of 32, 64 or 128:
//     W_o . x = sum_g norm[o][g] sum_k level[code[o][g][k]] (H x_g)[k],   H = Walsh-Hadamard / sqrt(group)
// so a block rotates its rows of x once and every row of W is a dot product with codebook levels.
// x: [rows][lanes][n_in]; s: [n_in]; codes: [n_out][padded] of 2, 3 or 4 bits, lowest bits first, padded to whole groups;
// norms: [n_out][padded / group] f16; levels: [2^bits], by stored code; y: [rows][n_out]. Grid as in linear.h.

#define NK_PACKED_LINEAR(NAME, S, BITS, NB)                                                                         \
    NK_KERNEL(NAME, NK_LINEAR_THREADS)                                                                              \
    (NK_IN(S::raw, x, 0), NK_IN(NkCodes<BITS>::store, codes, 1), NK_IN(nk_u16, norms, 2), NK_IN(float, levels, 3),  \
     NK_OUT(S::raw, y, 4), NK_PARAMS(LinearParams, p, 5) NK_BUILTINS) {                                             \
        NK_SHARED(float, a, NB * NK_CHUNK);                                                                         \
        NK_SHARED(float, red, NK_LINEAR_SIMDS);                                                                     \
        NK_SHARED(float, book, 1 << BITS);                                                                          \
        nk_linear<S, NkCodes<BITS>, NB, NK_ROWS_OUT(NB), 0>(x, levels, codes, norms, levels, 1u << BITS, y, p, a, red, \
                                                            book, NK_TID, NK_BID_X, NK_BID_Y);                      \
    }                                                                                                               \
    NK_END(NAME)
#define NK_PACKED_NORM_LINEAR(NAME, BITS, NB)                                                                       \
    NK_KERNEL(NAME, NK_LINEAR_THREADS)                                                                              \
    (NK_IN(float, x, 0), NK_IN(float, s, 1), NK_IN(NkCodes<BITS>::store, codes, 2), NK_IN(nk_u16, norms, 3),        \
     NK_IN(float, levels, 4), NK_OUT(float, y, 5), NK_PARAMS(LinearParams, p, 6) NK_BUILTINS) {                     \
        NK_SHARED(float, a, NB * NK_CHUNK);                                                                         \
        NK_SHARED(float, red, NK_LINEAR_SIMDS);                                                                     \
        NK_SHARED(float, book, 1 << BITS);                                                                          \
        nk_linear<NkF32, NkCodes<BITS>, NB, NK_ROWS_OUT(NB), 1>(x, s, codes, norms, levels, 1u << BITS, y, p, a, red, \
                                                                book, NK_TID, NK_BID_X, NK_BID_Y);                  \
    }                                                                                                               \
    NK_END(NAME)
#define NK_PACKED(BITS)                                                 \
    NK_PACKED_LINEAR(packed_##BITS##_f32_x1, NkF32, BITS, 1)            \
    NK_PACKED_LINEAR(packed_##BITS##_f32_x8, NkF32, BITS, 8)            \
    NK_PACKED_LINEAR(packed_##BITS##_bf16_x8, NkBF16, BITS, 8)          \
    NK_PACKED_LINEAR(packed_##BITS##_f16_x8, NkF16, BITS, 8)            \
    NK_PACKED_NORM_LINEAR(norm_packed_##BITS##_f32_x1, BITS, 1)         \
    NK_PACKED_NORM_LINEAR(norm_packed_##BITS##_f32_x8, BITS, 8)
NK_PACKED(2)
NK_PACKED(3)
NK_PACKED(4)
