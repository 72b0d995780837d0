// A stack of its own for every GPU thread, and the switch between two of them. The processor's calling convention says
// which registers a function must keep; those and the stack pointer are all there is to save. Elsewhere ucontext does it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace nk {

constexpr size_t kStackBytes = 64 * 1024;

#if defined(__x86_64__) && !defined(_WIN32)

extern "C" void nk_switch(void** save, void* load) __asm__("nk_switch");
__asm__(
    ".text\n.weak nk_switch\n"
    "nk_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n");

struct Context {
    void* sp = nullptr;
};
inline void start(Context& c, char* stack, void (*entry)()) {
    auto top = reinterpret_cast<uintptr_t>(stack + kStackBytes) & ~uintptr_t(15);
    auto* p = reinterpret_cast<uintptr_t*>(top);
    *--p = 0;                                    // the stack is off by 8 where a function begins
    *--p = reinterpret_cast<uintptr_t>(entry);
    for (int i = 0; i < 6; ++i) *--p = 0;
    c.sp = p;
}
inline void change(Context& from, Context& to) { nk_switch(&from.sp, to.sp); }

#else

}  // namespace nk
#include <ucontext.h>
namespace nk {

struct Context {
    ucontext_t u;
};
inline void start(Context& c, char* stack, void (*entry)()) {
    getcontext(&c.u);
    c.u.uc_stack.ss_sp = stack;
    c.u.uc_stack.ss_size = kStackBytes;
    c.u.uc_link = nullptr;
    makecontext(&c.u, entry, 0);
}
inline void change(Context& from, Context& to) { swapcontext(&from.u, &to.u); }

#endif

}  // namespace nk
