// y = x W^T for a few rows of x: NB rows of x against RO rows of W a SIMD group, eight SIMD groups a block. The columns go
// by in chunks: NB rows of a chunk are staged in shared memory (averaged over lanes, normalised, rotated, as asked), then
// every SIMD group reads its rows of W once and uses them for all NB rows of x.
//
// A weight type W says what a lane reads at once: a `unit` of 1, 2 or 8 columns. Column i of a chunk is staged at
// (i % unit) * (chunk / unit) + i / unit, so that the lanes of a SIMD group read consecutive floats.

#define NK_LINEAR_SIMDS 8u
#define NK_LINEAR_THREADS (NK_LINEAR_SIMDS * NK_SIMD)
#define NK_CHUNK 512u
#define NK_TILE 128u    // columns that a SIMD group stages at once

struct LinearParams {
    nk_u32 rows;
    nk_u32 n_in;
    nk_u32 n_out;
    nk_u32 lanes;         // x is the mean of so many rows
    nk_u32 padded;        // columns of W: n_in, or for packed weights whole groups
    nk_u32 group_shift;   // packed: log2 of the group; dense: 0
    float eps;
};

// Dense weights of storage S.
template <typename S>
struct NkDense {
    typedef typename S::word store;
    typedef typename S::word bundle;
    enum { unit = S::per, packed = 0 };
    static NK_FN bundle load(NK_GPTR(const store) w, nk_u32 at) { return w[at]; }
    static NK_FN float value(bundle b, nk_u32 j, NK_SPTR(const float) book) { return S::part(b, j); }
};

// Codes of 2, 3 or 4 bits, eight to a bundle, the lowest bits first. Ternary is two bits with a codebook of its own.
template <int BITS>
struct NkCodes {};
template <>
struct NkCodes<2> {
    typedef nk_u16 store;
    typedef nk_u32 bundle;
    enum { unit = 8, packed = 1 };
    static NK_FN bundle load(NK_GPTR(const nk_u16) w, nk_u32 at) { return (nk_u32)w[at]; }
    static NK_FN float value(bundle b, nk_u32 j, NK_SPTR(const float) book) { return book[(b >> (2u * j)) & 3u]; }
};
template <>
struct NkCodes<3> {
    typedef nk_u8 store;
    typedef nk_u32 bundle;
    enum { unit = 8, packed = 1 };
    static NK_FN bundle load(NK_GPTR(const nk_u8) w, nk_u32 at) {
        return (nk_u32)w[3u * at] | ((nk_u32)w[3u * at + 1u] << 8) | ((nk_u32)w[3u * at + 2u] << 16);
    }
    static NK_FN float value(bundle b, nk_u32 j, NK_SPTR(const float) book) { return book[(b >> (3u * j)) & 7u]; }
};
template <>
struct NkCodes<4> {
    typedef nk_u32 store;
    typedef nk_u32 bundle;
    enum { unit = 8, packed = 1 };
    static NK_FN bundle load(NK_GPTR(const nk_u32) w, nk_u32 at) { return w[at]; }
    static NK_FN float value(bundle b, nk_u32 j, NK_SPTR(const float) book) { return book[(b >> (4u * j)) & 15u]; }
};

// Stages 128 columns from `column` on of one row: four consecutive values a lane.
template <typename W>
NK_FN void nk_stage(NK_REG float (&v)[4], NK_SPTR(float) a, nk_u32 column, nk_u32 lane, nk_u32 group_shift) {
    if (W::packed) nk_rotate(v, lane, group_shift);
    NK_UNROLL for (int e = 0; e < 4; ++e) {
        const nk_u32 i = column + lane * 4u + e;
        a[(i % (nk_u32)W::unit) * (NK_CHUNK / (nk_u32)W::unit) + i / (nk_u32)W::unit] = v[e];
    }
}

// acc[r NB + b] += W[row0 + r] . a[b] over the staged columns from `chunk` on.
template <typename W, int NB, int RO>
NK_FN void nk_multiply(NK_REG float (&acc)[NB * RO], NK_GPTR(const typename W::store) w, NK_GPTR(const nk_u16) norms,
                       NK_SPTR(const float) book, NK_SPTR(const float) a, NK_CONST(LinearParams) p, nk_u32 chunk,
                       nk_u32 row0, nk_u32 lane) {
    const nk_u32 unit = (nk_u32)W::unit;
    const nk_u32 left = p.padded - chunk;
    const nk_u32 units = (left < NK_CHUNK ? left : NK_CHUNK) / unit;
    for (nk_u32 u = lane; u < units; u += NK_SIMD) {
        NK_UNROLL for (nk_u32 r = 0u; r < RO; ++r) {
            const nk_u32 o = row0 + r;
            if (o < p.n_out) {
                const typename W::bundle bundle = W::load(w, (o * p.padded + chunk) / unit + u);
                float t[NB];
                NK_UNROLL for (int b = 0; b < NB; ++b) t[b] = 0.0f;
                NK_UNROLL for (nk_u32 j = 0u; j < unit; ++j) {
                    const float value = W::value(bundle, j, book);
                    NK_UNROLL for (int b = 0; b < NB; ++b) t[b] += value * a[b * NK_CHUNK + j * (NK_CHUNK / unit) + u];
                }
                float scale = 1.0f;
                if (W::packed) {
                    const nk_u32 groups = p.padded >> p.group_shift;
                    scale = NK_F32_FROM_F16(norms[o * groups + ((chunk + u * unit) >> p.group_shift)]);
                }
                NK_UNROLL for (int b = 0; b < NB; ++b) acc[r * NB + b] += scale * t[b];
            }
        }
    }
}

// Element i of row `row` of x: the mean of its lanes.
template <typename S>
NK_FN float nk_input(NK_GPTR(const typename S::raw) x, NK_CONST(LinearParams) p, nk_u32 row, nk_u32 i) {
    float t = 0.0f;
    for (nk_u32 l = 0u; l < p.lanes; ++l) t += S::to(x[(row * p.lanes + l) * p.n_in + i]);
    return t / (float)p.lanes;
}

// The whole product. With NORM x is first normalised: (1 + s) x / sqrt(mean(x^2) + eps).
template <typename S, typename W, int NB, int RO, int NORM>
NK_FN void nk_linear(NK_GPTR(const typename S::raw) x, NK_GPTR(const float) s, NK_GPTR(const typename W::store) w,
                     NK_GPTR(const nk_u16) norms, NK_GPTR(const float) levels, nk_u32 level_count,
                     NK_GPTR(typename S::raw) y, NK_CONST(LinearParams) p, NK_SPTR(float) a, NK_SPTR(float) red,
                     NK_SPTR(float) book, nk_u32 tid, nk_u32 part, nk_u32 batch) {
    const nk_u32 lane = tid & (NK_SIMD - 1u);
    const nk_u32 simd = tid / NK_SIMD;
    const nk_u32 first = batch * NB;
    if (tid < level_count) book[tid] = levels[tid];
    if (NORM) {
        // Each of the NB rows is summed by 8 / NB SIMD groups.
        const nk_u32 share = NK_LINEAR_SIMDS / NB;
        const nk_u32 row = first + simd / share;
        float ss = 0.0f;
        for (nk_u32 i = simd % share * NK_SIMD + lane; i < p.n_in && row < p.rows; i += share * NK_SIMD) {
            const float t = nk_input<S>(x, p, row, i);
            ss += t * t;
        }
        ss = nk_simd_sum(ss);
        if (lane == 0u) red[simd] = ss;
        NK_BARRIER();
    }
    const nk_u32 row0 = (part * NK_LINEAR_SIMDS + simd) * RO;
    float acc[NB * RO];
    NK_UNROLL for (int i = 0; i < NB * RO; ++i) acc[i] = 0.0f;
    for (nk_u32 chunk = 0u; chunk < p.padded; chunk += NK_CHUNK) {
        if (chunk > 0u) NK_BARRIER();
        for (nk_u32 tile = simd; tile < NB * (NK_CHUNK / NK_TILE); tile += NK_LINEAR_SIMDS) {
            const nk_u32 b = tile / (NK_CHUNK / NK_TILE);
            const nk_u32 column = tile % (NK_CHUNK / NK_TILE) * NK_TILE;
            const nk_u32 row = first + b;
            float r = 1.0f;
            if (NORM) {
                const nk_u32 share = NK_LINEAR_SIMDS / NB;
                float ss = 0.0f;
                for (nk_u32 k = 0u; k < share; ++k) ss += red[b * share + k];
                r = nk_rms_factor(ss, p.n_in, p.eps);
            }
            float v[4];
            NK_UNROLL for (int e = 0; e < 4; ++e) {
                const nk_u32 i = chunk + column + lane * 4u + e;
                v[e] = row < p.rows && i < p.n_in ? nk_input<S>(x, p, row, i) : 0.0f;
                if (NORM && i < p.n_in) v[e] *= (1.0f + s[i]) * r;
            }
            nk_stage<W>(v, a + b * NK_CHUNK, column, lane, p.group_shift);
        }
        NK_BARRIER();
        nk_multiply<W, NB, RO>(acc, w, norms, book, a, p, chunk, row0, lane);
    }
    NK_UNROLL for (int i = 0; i < NB * RO; ++i) {
        const float t = nk_simd_sum(acc[i]);
        const nk_u32 o = row0 + i / NB;
        const nk_u32 row = first + i % NB;
        if (lane == 0u && o < p.n_out && row < p.rows) y[row * p.n_out + o] = S::from(t);
    }
}

// Rows of W a SIMD group takes: one where there is one row of x, so that many blocks share the work.
#define NK_ROWS_OUT(NB) (NB == 1 ? 1 : 2)
