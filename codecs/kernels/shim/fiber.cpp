// Switching from one stack to another.
#include "block.h"

extern "C" void mgc_shim_switch(void** save, void* load);

#if defined(__x86_64__)
// Saves what a called function must preserve, and takes the same off the other stack.
asm(R"(.text
.globl mgc_shim_switch
.type mgc_shim_switch,@function
mgc_shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size mgc_shim_switch, .-mgc_shim_switch
)");
#else
#error "mgc_shim_switch is written for x86-64 only"
#endif

namespace shim {

void prepare_fiber(Fiber& fiber, void (*entry)()) {
  // Six registers to pop, the entry to return to, and a zero where its caller would be. The stack pointer is
  // then 8 below a multiple of 16, as it is at the start of every function.
  void** top = (void**)((uint8_t*)fiber.stack + fiber.stack_len) - 8;
  memset(top, 0, 8 * sizeof *top);
  top[6] = (void*)entry;
  fiber.stack_pointer = top;
}

void switch_fiber(Fiber& from, Fiber& to, bool from_ends) {
  (void)from_ends;
#ifdef SHIM_ASAN
  __sanitizer_start_switch_fiber(from_ends ? nullptr : &from.asan_fake_stack, to.stack, to.stack_len);
#endif
#ifdef SHIM_TSAN
  __tsan_switch_to_fiber(to.tsan_fiber, 1);  // 1: the switch itself orders nothing
#endif
  mgc_shim_switch(&from.stack_pointer, to.stack_pointer);
#ifdef SHIM_ASAN
  __sanitizer_finish_switch_fiber(from.asan_fake_stack, nullptr, nullptr);
#endif
}

void enter_fiber(Fiber& launched_from) {
  (void)launched_from;
#ifdef SHIM_ASAN
  // The first fiber comes straight from the host, whose stack is known to nobody else.
  const void* stack;
  size_t len;
  __sanitizer_finish_switch_fiber(nullptr, &stack, &len);
  if (launched_from.stack == nullptr) {
    launched_from.stack = stack;
    launched_from.stack_len = len;
  }
#endif
}

}  // namespace shim
