// CUDA prelude, for nvcc and NVRTC; needs no header. With clang_cuda.h in front of it, clang compiles the text too.
typedef unsigned int nk_u32;
typedef unsigned short nk_u16;
typedef unsigned char nk_u8;

// One block a multiprocessor is enough: these kernels wait for memory, not for their turn, and registers help them wait.
#define NK_FN __device__ __forceinline__
#define NK_KERNEL(NAME, THREADS) extern "C" __global__ void __launch_bounds__(THREADS, 1) NAME
#define NK_END(NAME)
#define NK_GPTR(T) T* __restrict__
#define NK_SPTR(T) T*
#define NK_NULL(T) ((const T*)0)
#define NK_CONST(T) const T&
#define NK_REG
#define NK_IN(T, NAME, SLOT) const T* __restrict__ NAME
#define NK_OUT(T, NAME, SLOT) T* __restrict__ NAME
#define NK_INOUT(T, NAME, SLOT) T* __restrict__ NAME
#define NK_PARAMS(T, NAME, SLOT) const T NAME
#define NK_BUILTINS
#define NK_SHARED(T, NAME, N) __shared__ T NAME[N]
#define NK_TID (threadIdx.x)
#define NK_BID_X (blockIdx.x)
#define NK_BID_Y (blockIdx.y)
#define NK_BARRIER() __syncthreads()
#define NK_SIMD_XOR(V, M) __shfl_xor_sync(0xffffffffu, (V), (M))
#define NK_F32_FROM_BITS(U) __uint_as_float(U)
#define NK_BITS_FROM_F32(F) __float_as_uint(F)
#define NK_F32_FROM_F16(H) nk_f32_from_f16(H)
#define NK_F16_FROM_F32(F) nk_f16_from_f32(F)
#define NK_EXP(X) expf(X)
#define NK_LOG(X) logf(X)
#define NK_SQRT(X) sqrtf(X)
#define NK_MAX(A, B) fmaxf((A), (B))
#define NK_UNROLL _Pragma("unroll")

NK_FN float nk_f32_from_f16(nk_u16 h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
NK_FN nk_u16 nk_f16_from_f32(float f) {
    nk_u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
