// One trampoline a CUDA function, so that no CUDA library is needed to link or to start a program.
//
// A call jumps through the function's slot. At first the slot leads on to `first`, which asks `needle_lazy_resolve` of
// lazy.c for the real address, with every register that may carry an argument kept, and jumps there; from then on the slot
// holds that address. x86-64 with the System V calling convention.

.macro function library, name
    .text
    .globl \name
    .hidden \name
    .type \name, @function
\name:
    jmp *.Lslot_\name(%rip)
.Lfirst_\name:
    movl $number, %r11d
    jmp first
    .size \name, . - \name

    .data
.Lslot_\name:
    .quad .Lfirst_\name

    .section .rodata
.Ltext_\name:
    .asciz "\name"

    .section .data.rel.ro, "aw"
    .quad .Ltext_\name, \library
    .set number, number + 1
.endm

    .data
    .balign 8
    .globl needle_lazy_slots
    .hidden needle_lazy_slots
needle_lazy_slots:

    .section .data.rel.ro, "aw"
    .balign 8
    .globl needle_lazy_functions
    .hidden needle_lazy_functions
needle_lazy_functions:

    .set number, 0
#define CUDA(name) function 0, name;
#define CUBLAS(name) function 1, name;
#define CUBLASLT(name) function 2, name;
#define CURAND(name) function 3, name;
#define CUDART(name) function 4, name;
#define NVRTC(name) function 5, name;
#include "functions.h"

    .text
    .type first, @function
first:
    pushq %rbp
    movq %rsp, %rbp
    andq $-16, %rsp
    subq $192, %rsp
    movq %rdi, 0(%rsp)
    movq %rsi, 8(%rsp)
    movq %rdx, 16(%rsp)
    movq %rcx, 24(%rsp)
    movq %r8, 32(%rsp)
    movq %r9, 40(%rsp)
    movq %rax, 48(%rsp)
    movups %xmm0, 64(%rsp)
    movups %xmm1, 80(%rsp)
    movups %xmm2, 96(%rsp)
    movups %xmm3, 112(%rsp)
    movups %xmm4, 128(%rsp)
    movups %xmm5, 144(%rsp)
    movups %xmm6, 160(%rsp)
    movups %xmm7, 176(%rsp)
    movl %r11d, %edi
    call needle_lazy_resolve
    movq %rax, %r11
    movq 0(%rsp), %rdi
    movq 8(%rsp), %rsi
    movq 16(%rsp), %rdx
    movq 24(%rsp), %rcx
    movq 32(%rsp), %r8
    movq 40(%rsp), %r9
    movq 48(%rsp), %rax
    movups 64(%rsp), %xmm0
    movups 80(%rsp), %xmm1
    movups 96(%rsp), %xmm2
    movups 112(%rsp), %xmm3
    movups 128(%rsp), %xmm4
    movups 144(%rsp), %xmm5
    movups 160(%rsp), %xmm6
    movups 176(%rsp), %xmm7
    leave
    jmp *%r11
    .size first, . - first

    .section .note.GNU-stack, "", @progbits
