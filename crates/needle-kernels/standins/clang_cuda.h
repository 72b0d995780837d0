// In front of kernels/cuda.h when clang compiles the CUDA texts with none of NVIDIA's files
// (clang -x cuda --cuda-device-only -nocudainc -nocudalib -fdeclspec). For checks only.
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
struct nk_tid_t {
    __attribute__((device)) unsigned get_x() const { return __nvvm_read_ptx_sreg_tid_x(); }
    __declspec(property(get = get_x)) unsigned x;
};
struct nk_bid_t {
    __attribute__((device)) unsigned get_x() const { return __nvvm_read_ptx_sreg_ctaid_x(); }
    __attribute__((device)) unsigned get_y() const { return __nvvm_read_ptx_sreg_ctaid_y(); }
    __declspec(property(get = get_x)) unsigned x;
    __declspec(property(get = get_y)) unsigned y;
};
extern const __device__ __attribute__((weak)) nk_tid_t threadIdx;
extern const __device__ __attribute__((weak)) nk_bid_t blockIdx;
__device__ __forceinline__ float __shfl_xor_sync(unsigned mask, float v, unsigned m) {
    return __nvvm_shfl_sync_bfly_f32(mask, v, m, 31);
}
__device__ __forceinline__ float __uint_as_float(unsigned u) { return __builtin_bit_cast(float, u); }
__device__ __forceinline__ unsigned __float_as_uint(float f) { return __builtin_bit_cast(unsigned, f); }
__device__ __forceinline__ float expf(float x) { return __nvvm_ex2_approx_ftz_f(x * 1.4426950408889634f); }
__device__ __forceinline__ float logf(float x) { return __nvvm_lg2_approx_ftz_f(x) * 0.6931471805599453f; }
__device__ __forceinline__ float sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
__device__ __forceinline__ float fmaxf(float a, float b) { return __nvvm_fmax_f(a, b); }
