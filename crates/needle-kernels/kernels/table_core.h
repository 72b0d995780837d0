// One row of a matrix in whatever storage it has, for operations that fetch few rows and do not care for speed in doing so:
// embeddings and engram tables. The matrix comes as bytes, and its format is a number that the host gives
// (`needle_kernels::Format::number`).

#define NK_FORMAT_F32 0u
#define NK_FORMAT_BF16 1u
#define NK_FORMAT_F16 2u
#define NK_FORMAT_BITS(F) ((F) - 1u)   // greater numbers: packed, 3 for two bits and so on

struct TableParams {
    nk_u32 format;
    nk_u32 cols;
    nk_u32 padded;        // packed: columns in whole groups; dense: cols
    nk_u32 group_shift;   // packed: log2 of the group
};

NK_FN float nk_dense_value(NK_GPTR(const nk_u8) m, nk_u32 format, nk_u32 at) {
    if (format == NK_FORMAT_F32) {
        const nk_u32 b = at * 4u;
        return NK_F32_FROM_BITS((nk_u32)m[b] | ((nk_u32)m[b + 1u] << 8) | ((nk_u32)m[b + 2u] << 16) |
                                ((nk_u32)m[b + 3u] << 24));
    }
    const nk_u32 half_word = (nk_u32)m[at * 2u] | ((nk_u32)m[at * 2u + 1u] << 8);
    return format == NK_FORMAT_BF16 ? NkBF16::to((nk_u16)half_word) : NkF16::to((nk_u16)half_word);
}

// Columns column + 4 lane + e of a row, by one whole SIMD group; `column` is a multiple of 128. Zero beyond the row.
NK_FN void nk_fetch(NK_REG float (&v)[4], NK_GPTR(const nk_u8) m, NK_GPTR(const nk_u16) norms,
                    NK_GPTR(const float) levels, NK_CONST(TableParams) p, nk_u32 row, nk_u32 column, nk_u32 lane) {
    const nk_u32 i0 = column + lane * 4u;
    if (p.format <= NK_FORMAT_F16) {
        NK_UNROLL for (nk_u32 e = 0u; e < 4u; ++e) {
            v[e] = i0 + e < p.cols ? nk_dense_value(m, p.format, row * p.cols + i0 + e) : 0.0f;
        }
        return;
    }
    const nk_u32 bits = NK_FORMAT_BITS(p.format);
    const nk_u32 row_bytes = p.padded / 8u * bits;
    NK_UNROLL for (nk_u32 e = 0u; e < 4u; ++e) {
        v[e] = 0.0f;
        if (i0 + e < p.padded) {
            const nk_u32 at = (i0 + e) * bits;
            const nk_u32 shift = at & 7u;
            nk_u32 code = (nk_u32)m[row * row_bytes + at / 8u];
            if (shift + bits > 8u) code |= (nk_u32)m[row * row_bytes + at / 8u + 1u] << 8;
            const nk_u32 group = row * (p.padded >> p.group_shift) + ((i0 + e) >> p.group_shift);
            v[e] = levels[(code >> shift) & ((1u << bits) - 1u)] * NK_F32_FROM_F16(norms[group]);
        }
    }
    nk_rotate(v, lane, p.group_shift);
}
