// The Hadamard MLP between its outer diagonals, for one row of m = E * SIMDS * 32 values in the registers of a block:
//     v <- H_m silu(d2 H_m v),  H_m the Walsh-Hadamard matrix / sqrt(m)
//
// Layout A: thread t holds elements t*E + e.  Layout B: thread t holds e*threads + t.  A transform does its register bits,
// then five lane bits by shuffle; the bits that number the SIMD groups become register bits in the other layout, reached
// through shared memory, which costs one barrier a transform. v comes and goes in layout A. E must be at least SIMDS.

// Padding that keeps both layouts free of bank conflicts (32 banks of 4 bytes).
NK_FN nk_u32 nk_pad(nk_u32 i) { return i + (i >> 5); }
#define NK_MIX_SHARED(E, SIMDS) (SIMDS == 1 ? 1 : E * SIMDS * 33)

template <int E, int SIMDS>
NK_FN void nk_hadamard_core(NK_REG float (&v)[E], NK_GPTR(const float) d2, NK_SPTR(float) s0, NK_SPTR(float) s1,
                            nk_u32 tid) {
    const nk_u32 lane = tid & (NK_SIMD - 1u);
    const nk_u32 threads = (nk_u32)SIMDS * NK_SIMD;
    const float scale = 1.0f / NK_SQRT((float)(E * SIMDS * 32));
    nk_wht_regs<E>(v, 1);
    NK_UNROLL for (nk_u32 m = 1u; m < NK_SIMD; m <<= 1) nk_wht_lane<E>(v, lane, m);
    if (SIMDS == 1) {
        NK_UNROLL for (int e = 0; e < E; ++e) v[e] = nk_silu(d2[tid * E + e] * v[e] * scale);
    } else {
        NK_UNROLL for (int e = 0; e < E; ++e) s0[nk_pad(tid * E + e)] = v[e];
        NK_BARRIER();
        NK_UNROLL for (int e = 0; e < E; ++e) v[e] = s0[nk_pad(e * threads + tid)];
        nk_wht_regs<E>(v, E / SIMDS);
        NK_UNROLL for (int e = 0; e < E; ++e) v[e] = nk_silu(d2[e * threads + tid] * v[e] * scale);
    }
    nk_wht_regs<E>(v, 1);
    NK_UNROLL for (nk_u32 m = 1u; m < NK_SIMD; m <<= 1) nk_wht_lane<E>(v, lane, m);
    if (SIMDS > 1) {
        NK_UNROLL for (int e = 0; e < E; ++e) s1[nk_pad(e * threads + tid)] = v[e];
        NK_BARRIER();
        NK_UNROLL for (int e = 0; e < E; ++e) v[e] = s1[nk_pad(tid * E + e)];
        NK_UNROLL for (nk_u32 b = 1u; b < (nk_u32)SIMDS; b <<= 1) nk_wht_lane<E>(v, lane, b * NK_SIMD / E);
    }
    NK_UNROLL for (int e = 0; e < E; ++e) v[e] *= scale;
}
