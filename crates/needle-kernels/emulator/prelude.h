// Emulator prelude: runs the same kernel text on the host with real block and SIMD-group semantics, and watches it.
// One fiber per GPU thread; a barrier or a shuffle parks the fiber until its whole block / SIMD group has arrived. Every
// access to a buffer or to shared memory goes through a proxy that checks bounds, undefined reads and data races (two
// threads, one of them writing, same element, no barrier in between). A barrier orders shared memory and nothing else, as
// Metal's mem_threadgroup does; a shuffle orders registers.
#pragma once
#include "fiber.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

typedef unsigned int nk_u32;
typedef unsigned short nk_u16;
typedef unsigned char nk_u8;

namespace nk {

constexpr nk_u32 kSimd = 32;

enum class Kind : int { None, Usage, Bounds, Undefined, Race, Divergence };

struct Access {              // the last write and the last reads of one element
    uint32_t w_epoch = 0, w_thread = 0;
    uint32_t r_epoch = 0, r_thread = 0;
    bool written = false, read = false, r_many = false;
};

enum class State { Ready, Barrier, Simd, Done };

struct Site {
    const char* file = "";
    int line = 0;
    bool operator==(const Site& o) const { return line == o.line && (file == o.file || !std::strcmp(file, o.file)); }
};

struct Fiber {
    Context context;
    char* stack = nullptr;
    State state = State::Ready;
    nk_u32 tid = 0, barriers = 0, source = 0;   // source: lane read by the pending shuffle
    Site site;
    float value = 0, result = 0;
};

struct SharedArray {
    std::vector<char> bytes;
    std::vector<Access> shadow;
};

struct Machine {
    uint64_t seed = 0;           // 0: threads and blocks in order, else shuffled
    int64_t skip_barrier = -1;   // on purpose: every thread walks through its k-th barrier
    uint64_t barriers = 0, shuffles = 0, loads = 0, stores = 0, shared_bytes = 0;
    Kind kind = Kind::None;
    std::string message;
    Context home;
    std::vector<Fiber> fibers;
    Fiber* current = nullptr;
    nk_u32 block_x = 0, block_y = 0, grid_x = 0, grid_y = 0, threads = 0;
    uint32_t epoch = 1;          // barriers passed, over the whole launch
    std::map<std::string, SharedArray> shared;
    std::set<std::pair<std::string, int>> sites;
    std::function<void()> body;

    [[noreturn]] void fail(Kind k, const std::string& m);
    void yield() { change(current->context, home); }
    uint32_t thread() const { return (block_y * grid_x + block_x) * threads + current->tid; }
};

extern thread_local Machine* M;

// --- checked element access ---------------------------------------------------------------------------------------------

struct Region {                  // what a pointer points into
    const char* name = "?";
    size_t length = 0;
    Access* shadow = nullptr;    // null where nothing writes
    nk_u8* defined = nullptr;    // null where everything is; a flag a byte
    bool is_shared = false;
    std::string at(size_t i) const { return std::string(name) + "[" + std::to_string(i) + "]"; }
};

void note_read(const Region& r, size_t i, size_t size);
void note_write(const Region& r, size_t i, size_t size);

template <typename T>
struct Ref {                     // an lvalue in checked memory
    T* p;
    const Region* r;
    size_t i;
    operator T() const { note_read(*r, i, sizeof(T)); return *p; }
    T operator=(T v) const { note_write(*r, i, sizeof(T)); return *p = v; }
    T operator=(const Ref& o) const { return *this = (T)o; }
};

template <typename T>
struct Ptr {                     // stands for a device or threadgroup pointer
    using V = std::remove_const_t<T>;
    V* p = nullptr;
    const Region* r = nullptr;
    size_t offset = 0;
    Ptr() = default;
    Ptr(V* p, const Region* r, size_t offset = 0) : p(p), r(r), offset(offset) {}
    template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
    Ptr(const Ptr<U>& o) : p(o.p), r(o.r), offset(o.offset) {}
    Ptr operator+(size_t n) const { return Ptr(p, r, offset + n); }
    size_t check(size_t i) const {
        if (!r) M->fail(Kind::Usage, "access through a null pointer");
        if (offset + i >= r->length) M->fail(Kind::Bounds, r->at(offset + i) + " of " + std::to_string(r->length));
        return offset + i;
    }
    std::conditional_t<std::is_const_v<T>, V, Ref<V>> operator[](size_t i) const {
        const size_t at = check(i);
        if constexpr (std::is_const_v<T>) return (V)Ref<V>{p + at, r, at};
        else return Ref<V>{p + at, r, at};
    }
};

struct SharedRegion {
    Region region;
    void* bytes;
};
SharedRegion shared_region(const char* name, size_t length, size_t size);

template <typename T>
struct Shared {                  // lives in the kernel's frame, as the pointers into it do
    SharedRegion s;
    Shared(const char* name, size_t length) : s(shared_region(name, length, sizeof(T))) {}
    operator Ptr<T>() const { return Ptr<T>((T*)s.bytes, &s.region); }
    operator Ptr<const T>() const { return Ptr<const T>((T*)s.bytes, &s.region); }
    Ref<T> operator[](size_t i) const { return Ptr<T>(*this)[i]; }
    Ptr<T> operator+(size_t n) const { return Ptr<T>(*this) + n; }
};

// --- synchronisation ----------------------------------------------------------------------------------------------------

void barrier(const char* file, int line);
float shuffle(float v, nk_u32 source, const char* file, int line);
inline nk_u32 tid() { return M->current->tid; }
inline nk_u32 lane() { return tid() % kSimd; }

// --- kernel table -------------------------------------------------------------------------------------------------------

struct Buffer {
    void* data;
    Region region;
};
struct Args {
    std::vector<Buffer> buffers;
    const void* params;
};

// What one kernel argument is. A struct by value is the parameters.
template <typename A>
struct Take {
    static A get(const Args& a, size_t) { A v; std::memcpy(&v, a.params, sizeof(A)); return v; }
    static constexpr size_t params_bytes = sizeof(A), element = 0;
    static constexpr bool is_written = false;
};
template <typename T>
struct Take<Ptr<T>> {
    static Ptr<T> get(const Args& a, size_t i) {
        return Ptr<T>((std::remove_const_t<T>*)a.buffers[i].data, &a.buffers[i].region);
    }
    static constexpr size_t params_bytes = 0, element = sizeof(T);
    static constexpr bool is_written = !std::is_const_v<T>;
};

struct Kernel {
    nk_u32 threads = 0;
    size_t params_bytes = 0;
    std::vector<size_t> elements;    // size of an element of each buffer
    std::vector<bool> written;
    std::function<void(const Args&)> call;
};
std::map<std::string, Kernel>& kernels();

struct Register {
    template <typename... A>
    Register(const char* name, nk_u32 threads, void (*f)(A...)) {
        add(name, threads, f, std::index_sequence_for<A...>{});
    }
    template <typename... A, size_t... I>
    static void add(const char* name, nk_u32 threads, void (*f)(A...), std::index_sequence<I...>) {
        Kernel k;
        k.threads = threads;
        k.params_bytes = (0 + ... + Take<A>::params_bytes);
        (..., (Take<A>::element ? (k.elements.push_back(Take<A>::element), k.written.push_back(Take<A>::is_written))
                                : void()));
        k.call = [f](const Args& a) { f(Take<A>::get(a, I)...); };
        kernels()[name] = k;
    }
};

inline float f32_from_bits(nk_u32 u) { float f; std::memcpy(&f, &u, 4); return f; }
inline nk_u32 bits_from_f32(float f) { nk_u32 u; std::memcpy(&u, &f, 4); return u; }
float f32_from_f16(nk_u16 h);
nk_u16 f16_from_f32(float f);

}  // namespace nk

#define NK_FN inline
#define NK_KERNEL(NAME, THREADS) static constexpr nk_u32 NAME##_threads = THREADS; static void NAME
#define NK_END(NAME) static ::nk::Register NAME##_register(#NAME, NAME##_threads, &NAME);
#define NK_GPTR(T) ::nk::Ptr<T>
#define NK_SPTR(T) ::nk::Ptr<T>
#define NK_NULL(T) ::nk::Ptr<const T>()
#define NK_CONST(T) const T&
#define NK_REG
#define NK_IN(T, NAME, SLOT) ::nk::Ptr<const T> NAME
#define NK_OUT(T, NAME, SLOT) ::nk::Ptr<T> NAME
#define NK_INOUT(T, NAME, SLOT) ::nk::Ptr<T> NAME
#define NK_PARAMS(T, NAME, SLOT) T NAME
#define NK_BUILTINS
#define NK_SHARED(T, NAME, N) ::nk::Shared<T> NAME(#NAME, N)
#define NK_TID (::nk::tid())
#define NK_BID_X (::nk::M->block_x)
#define NK_BID_Y (::nk::M->block_y)
#define NK_BARRIER() ::nk::barrier(__FILE__, __LINE__)
#define NK_SIMD_XOR(V, M_) ::nk::shuffle((V), ::nk::lane() ^ (M_), __FILE__, __LINE__)
#define NK_F32_FROM_BITS(U) ::nk::f32_from_bits(U)
#define NK_BITS_FROM_F32(F) ::nk::bits_from_f32(F)
#define NK_F32_FROM_F16(H) ::nk::f32_from_f16(H)
#define NK_F16_FROM_F32(F) ::nk::f16_from_f32(F)
#define NK_EXP(X) std::exp((float)(X))
#define NK_LOG(X) std::log((float)(X))
#define NK_SQRT(X) std::sqrt((float)(X))
#define NK_MAX(A, B) std::max((float)(A), (float)(B))
#define NK_UNROLL
