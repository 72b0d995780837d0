// What every kernel text stands on: storage types, reductions, Walsh-Hadamard butterflies. No #include here: a prelude
// (cuda.h, metal.h or emulator/prelude.h) is placed in front and gives the NK_* words their meaning.
//
// Rules that keep one text valid for CUDA C++17, MSL and the emulator:
//  * pointers only through NK_GPTR / NK_SPTR, references to arrays through NK_REG (Metal needs the address space);
//  * thread and block indices are read in the kernel and handed to helpers;
//  * NK_SIMD_XOR and NK_BARRIER only where every thread of the SIMD group / block comes by;
//  * shared memory is declared in the kernel, never in a helper;
//  * kernel arguments: buffers, then one plain struct of 4-byte fields; no buffer is bound twice if one of them is written;
//  * what one thread writes to a buffer no other thread of the launch reads: barriers order shared memory alone.

#define NK_SIMD 32u

// Storage types; the arithmetic is always float. A `word` is what one load brings: one float, or two 16-bit values, the
// first in the low half.
struct NkF32 {
    typedef float raw;
    typedef float word;
    enum { per = 1 };
    static NK_FN float to(raw v) { return v; }
    static NK_FN raw from(float v) { return v; }
    static NK_FN float part(word w, nk_u32 j) { return w; }
    static NK_FN word join(float a, float b) { return a; }
};
struct NkBF16 {
    typedef nk_u16 raw;
    typedef nk_u32 word;
    enum { per = 2 };
    static NK_FN float to(raw v) { return NK_F32_FROM_BITS(((nk_u32)v) << 16); }
    static NK_FN raw from(float v) {
        const nk_u32 u = NK_BITS_FROM_F32(v);
        if ((u & 0x7fffffffu) > 0x7f800000u) return (raw)((u >> 16) | 0x40u);  // a NaN stays one
        return (raw)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);                  // to nearest, ties to even
    }
    static NK_FN float part(word w, nk_u32 j) { return NK_F32_FROM_BITS(j == 0u ? w << 16 : w & 0xffff0000u); }
    static NK_FN word join(float a, float b) { return (nk_u32)from(a) | ((nk_u32)from(b) << 16); }
};
struct NkF16 {
    typedef nk_u16 raw;
    typedef nk_u32 word;
    enum { per = 2 };
    static NK_FN float to(raw v) { return NK_F32_FROM_F16(v); }
    static NK_FN raw from(float v) { return NK_F16_FROM_F32(v); }
    static NK_FN float part(word w, nk_u32 j) { return to((raw)(j == 0u ? w & 0xffffu : w >> 16)); }
    static NK_FN word join(float a, float b) { return (nk_u32)from(a) | ((nk_u32)from(b) << 16); }
};
#define NK_PER(S) ((nk_u32)S::per)

// What of a row's state (`needle_kernels::RowState`) lies where.
#define NK_STATE 4u
#define NK_STATE_TOKEN 0u
#define NK_STATE_POSITION 1u
#define NK_STATE_SLOT 2u
#define NK_STATE_FILLED 3u

NK_FN float nk_sigmoid(float z) { return 1.0f / (1.0f + NK_EXP(-z)); }
NK_FN float nk_silu(float z) { return z / (1.0f + NK_EXP(-z)); }

NK_FN float nk_simd_sum(float v) {
    NK_UNROLL for (nk_u32 m = NK_SIMD / 2u; m > 0u; m >>= 1) v += NK_SIMD_XOR(v, m);
    return v;
}

// Sum over the block; every thread gets it. `red` holds one float a SIMD group and serves one sum only.
NK_FN float nk_block_sum(float v, NK_SPTR(float) red, nk_u32 tid, nk_u32 simds) {
    v = nk_simd_sum(v);
    if ((tid & (NK_SIMD - 1u)) == 0u) red[tid / NK_SIMD] = v;
    NK_BARRIER();
    float t = 0.0f;
    for (nk_u32 s = 0u; s < simds; ++s) t += red[s];
    return t;
}

// 1 / sqrt(mean + eps)
NK_FN float nk_rms_factor(float square_sum, nk_u32 n, float eps) { return 1.0f / NK_SQRT(square_sum / (float)n + eps); }

// Butterflies over the register index, from stride `lo` up.
template <int E>
NK_FN void nk_wht_regs(NK_REG float (&v)[E], int lo) {
    NK_UNROLL for (int h = lo; h < E; h <<= 1) {
        NK_UNROLL for (int e = 0; e < E; ++e) {
            if ((e & h) == 0) {
                const float a = v[e];
                const float b = v[e + h];
                v[e] = a + b;
                v[e + h] = a - b;
            }
        }
    }
}

// Butterflies over one bit of the lane index.
template <int E>
NK_FN void nk_wht_lane(NK_REG float (&v)[E], nk_u32 lane, nk_u32 m) {
    NK_UNROLL for (int e = 0; e < E; ++e) {
        const float o = NK_SIMD_XOR(v[e], m);
        v[e] = (lane & m) != 0u ? o - v[e] : v[e] + o;
    }
}

// 128 values, four consecutive ones a lane, rotated group by group: H / sqrt(group) for groups of 32, 64 or 128.
NK_FN void nk_rotate(NK_REG float (&v)[4], nk_u32 lane, nk_u32 group_shift) {
    nk_wht_regs<4>(v, 1);
    for (nk_u32 m = 1u; m < (1u << group_shift) / 4u; m <<= 1) nk_wht_lane<4>(v, lane, m);
    const float scale = 1.0f / NK_SQRT((float)(1u << group_shift));
    NK_UNROLL for (int e = 0; e < 4; ++e) v[e] *= scale;
}
