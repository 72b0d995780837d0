// Kernels that are wrong on purpose, to see that the emulator says so. In no module: they never reach a GPU.

struct WrongParams {
    nk_u32 n;
};

#define NK_WRONG(NAME) \
    NK_KERNEL(NAME, 64) (NK_IN(float, x, 0), NK_OUT(float, y, 1), NK_PARAMS(WrongParams, p, 2) NK_BUILTINS)

NK_WRONG(wrong_divergent_barrier) {          // half of the block never comes to the barrier
    NK_SHARED(float, s, 64);
    s[NK_TID] = x[NK_TID];
    if (NK_TID < 32u) NK_BARRIER();
    y[NK_BID_X * 64u + NK_TID] = p.n > 0u ? (float)s[NK_TID] : 0.0f;
}
NK_END(wrong_divergent_barrier)
NK_WRONG(wrong_divergent_shuffle) {          // half of a SIMD group shuffles
    float v = x[NK_TID];
    if (NK_TID < 16u) v += NK_SIMD_XOR(v, 1u);
    y[NK_BID_X * 64u + NK_TID] = p.n > 0u ? v : 0.0f;
}
NK_END(wrong_divergent_shuffle)
NK_WRONG(wrong_lane) {                       // a shuffle that reaches out of the SIMD group
    const float v = x[NK_TID];
    y[NK_BID_X * 64u + NK_TID] = NK_SIMD_XOR(v, 32u);
}
NK_END(wrong_lane)
NK_WRONG(wrong_early_return) {               // a bounds check that returns before a barrier
    NK_SHARED(float, s, 64);
    if (NK_TID >= p.n - 1u) return;
    s[NK_TID] = x[NK_TID];
    NK_BARRIER();
    y[NK_BID_X * 64u + NK_TID] = s[NK_TID];
}
NK_END(wrong_early_return)
NK_WRONG(wrong_blocks_share) {               // a block reads what the other one writes
    y[NK_BID_X * 64u + NK_TID] = x[NK_TID];
    if (p.n > 0u && NK_TID == 0u) y[NK_BID_X * 64u] = (float)y[64u - NK_BID_X * 64u];
}
NK_END(wrong_blocks_share)
NK_WRONG(wrong_double_write) {               // two threads write one element
    y[NK_BID_X * 64u + NK_TID / 2u] = p.n > 0u ? x[NK_TID] : 0.0f;
}
NK_END(wrong_double_write)
NK_WRONG(wrong_shared_reuse) {               // shared memory used again before all have read it
    NK_SHARED(float, s, 64);
    s[NK_TID] = x[NK_TID];
    NK_BARRIER();
    const float v = s[63u - NK_TID];
    s[NK_TID] = v;
    NK_BARRIER();
    y[NK_BID_X * 64u + NK_TID] = p.n > 0u ? (float)s[NK_TID] : 0.0f;
}
NK_END(wrong_shared_reuse)
NK_WRONG(wrong_buffer_barrier) {             // a barrier does not order buffers
    y[NK_BID_X * 64u + NK_TID] = x[NK_TID];
    NK_BARRIER();
    const float v = y[NK_BID_X * 64u + 63u - NK_TID];
    NK_BARRIER();
    y[NK_BID_X * 64u + NK_TID] = v;
}
NK_END(wrong_buffer_barrier)
NK_WRONG(wrong_undefined_shared) {           // shared memory read before anything is written
    NK_SHARED(float, s, 64);
    y[NK_BID_X * 64u + NK_TID] = s[NK_TID];
}
NK_END(wrong_undefined_shared)
NK_WRONG(wrong_undefined_buffer) {           // a result read before it is written
    y[NK_BID_X * 64u + NK_TID] = (float)y[NK_BID_X * 64u + NK_TID] + x[NK_TID];
}
NK_END(wrong_undefined_buffer)
NK_WRONG(wrong_bounds) {                     // one element too far
    y[NK_BID_X * 64u + NK_TID] = x[NK_TID + 1u];
}
NK_END(wrong_bounds)
