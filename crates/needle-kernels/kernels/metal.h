// Metal prelude (MSL 2.3 or later). MSL compiled from a string has no include path: the host joins this text, the base and
// an operation's text into one string.
#include <metal_stdlib>
using namespace metal;
typedef uint nk_u32;
typedef ushort nk_u16;
typedef uchar nk_u8;

#define NK_FN inline
#define NK_KERNEL(NAME, THREADS) [[max_total_threads_per_threadgroup(THREADS)]] kernel void NAME
#define NK_END(NAME)
#define NK_GPTR(T) device T*
#define NK_SPTR(T) threadgroup T*
#define NK_NULL(T) ((device const T*)0)
#define NK_CONST(T) constant T&
#define NK_REG thread
#define NK_IN(T, NAME, SLOT) device const T* NAME [[buffer(SLOT)]]
#define NK_OUT(T, NAME, SLOT) device T* NAME [[buffer(SLOT)]]
#define NK_INOUT(T, NAME, SLOT) device T* NAME [[buffer(SLOT)]]
#define NK_PARAMS(T, NAME, SLOT) constant T& NAME [[buffer(SLOT)]]
#define NK_BUILTINS                                     \
    , uint3 nk_tid3 [[thread_position_in_threadgroup]], \
        uint3 nk_bid3 [[threadgroup_position_in_grid]]
#define NK_SHARED(T, NAME, N) threadgroup T NAME[N]
#define NK_TID (nk_tid3.x)
#define NK_BID_X (nk_bid3.x)
#define NK_BID_Y (nk_bid3.y)
#define NK_BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)
#define NK_SIMD_XOR(V, M) simd_shuffle_xor((V), (ushort)(M))
#define NK_F32_FROM_BITS(U) as_type<float>((uint)(U))
#define NK_BITS_FROM_F32(F) as_type<uint>((float)(F))
#define NK_F32_FROM_F16(H) ((float)as_type<half>((ushort)(H)))
#define NK_F16_FROM_F32(F) as_type<ushort>((half)(F))
#define NK_EXP(X) exp(X)
#define NK_LOG(X) log(X)
#define NK_SQRT(X) sqrt(X)
#define NK_MAX(A, B) max((A), (B))
#define NK_UNROLL _Pragma("unroll")
