/* Finds CUDA functions when they are first called: the C half of trampolines.S.
 *
 * Without the library, or without the function in it, a call returns what its library returns where there is no device, so
 * that the caller gets an error as from a driver. Nothing here allocates, and two threads may resolve the same function. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { CUDA, CUBLAS, CUBLASLT, CURAND, CUDART, NVRTC, LIBRARIES };

/* The names under which the toolkit that this program is built with installs them; CUDA's is the driver's. */
static const char *const sonames[LIBRARIES] = {
    "libcuda.so.1", NEEDLE_CUBLAS, NEEDLE_CUBLASLT, NEEDLE_CURAND, NEEDLE_CUDART, NEEDLE_NVRTC,
};

/* Where installers leave a toolkit that the loader was not told of. */
static const char *const folders[] = { "", "/usr/local/cuda/lib64/", "/opt/cuda/lib64/", "/usr/lib/wsl/lib/" };

struct function {
    const char *name;
    uint64_t library;
};

extern const struct function needle_lazy_functions[];
extern void *needle_lazy_slots[];

static void *handles[LIBRARIES];

static void *library(uint64_t number) {
    void *handle = __atomic_load_n(&handles[number], __ATOMIC_ACQUIRE);
    for (size_t i = 0; handle == NULL && i < sizeof folders / sizeof *folders; i++) {
        char path[128];
        strcpy(path, folders[i]);
        strcat(path, sonames[number]);
        handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    if (handle != NULL) {
        __atomic_store_n(&handles[number], handle, __ATOMIC_RELEASE);
    }
    return handle;
}

/* What a function of each library returns where there is no device, or no driver. */
static int no_device(void) { return 100; }
static int not_initialized(void) { return 1; }
static int initialization_failed(void) { return 203; }
static int insufficient_driver(void) { return 35; }
static int internal_error(void) { return 11; }
static uintptr_t nothing(void) { return 0; }
static const char *no_text(void) { return "the CUDA library is missing"; }
/* The program registers its kernels before main, with a handle that nobody looks into. */
static void **no_handle(void) {
    static void *handle;
    return &handle;
}

typedef void any(void);

static any *missing(const struct function *function) {
    static any *const by_library[LIBRARIES] = {
        (any *)no_device,           (any *)not_initialized,     (any *)not_initialized,
        (any *)initialization_failed, (any *)insufficient_driver, (any *)internal_error,
    };
    static const struct {
        const char *name;
        any *instead;
    } special[] = {
        { "__cudaRegisterFatBinary", (any *)no_handle },
        { "cublasGetStatusName", (any *)no_text },
        { "cublasGetStatusString", (any *)no_text },
        { "cublasLtGetStatusName", (any *)no_text },
        { "cublasLtGetStatusString", (any *)no_text },
        { "cudaGetErrorName", (any *)no_text },
        { "cudaGetErrorString", (any *)no_text },
        { "nvrtcGetErrorString", (any *)no_text },
        { "cublasGetCudartVersion", (any *)nothing },
        { "cublasLtGetCudartVersion", (any *)nothing },
        { "cublasLtGetVersion", (any *)nothing },
    };
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        if (strcmp(function->name, special[i].name) == 0) {
            return special[i].instead;
        }
    }
    return by_library[function->library];
}

/* The address of a function, which its slot keeps. */
__attribute__((visibility("hidden"))) void *needle_lazy_resolve(uint32_t number) {
    const struct function *function = &needle_lazy_functions[number];
    void *handle = library(function->library);
    void *address = handle == NULL ? NULL : dlsym(handle, function->name);
    if (address == NULL) {
        any *instead = missing(function);
        memcpy(&address, &instead, sizeof address);
    }
    __atomic_store_n(&needle_lazy_slots[number], address, __ATOMIC_RELEASE);
    return address;
}

/* The first library that a model needs and that is not there; NULL where all are. */
const char *needle_lazy_missing(void) {
    static const uint64_t needed[] = { CUDA, CUDART, CUBLAS, CURAND };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (library(needed[i]) == NULL) {
            return sonames[needed[i]];
        }
    }
    return NULL;
}
