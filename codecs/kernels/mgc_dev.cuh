// Everything a kernel may use that is not plain CUDA C++: PTX on the device, the shim on the CPU.
//
// Kernels include nothing but this header and its neighbours here. There is no <cstdint> and no other libc
// header, because the run-time compiler has none.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

// A shared-memory object of the block; contents are undefined at the start.
#define MGC_SHARED(T, name) __shared__ T name
#define MGC_KERNEL extern "C" __global__
#define MGC_DEV static __device__ __forceinline__

// A parameter of a kernel that is read in place, however large it is.
#define MGC_PARAM(T) const __grid_constant__ T
// The block's shared memory whose length the launch says, on a multiple of 16; undefined at the start.
#define MGC_DYNAMIC_SHARED(name) extern __shared__ __align__(16) u8 name[]

// A word that other blocks write and read at the same time. It orders nothing but itself.
MGC_DEV u64 ld_relaxed_gpu(const u64* p) {
  u64 value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
  return value;
}

MGC_DEV void st_relaxed_gpu(u64* p, u64 value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(value) : "memory");
}

// What this block did before its addition is seen by the one whose addition comes later.
MGC_DEV u32 atomic_add_acq_rel_gpu(u32* p, u32 value) {
  u32 old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(value) : "memory");
  return old;
}

// The lanes of the warp below the calling one, as a mask.
MGC_DEV u32 lanemask_lt() {
  u32 mask;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
  return mask;
}

// Picks four of the eight bytes of y:x; each nibble of `selector` names one, and bit 3 of it asks for eight
// times the byte's sign instead. (__byte_perm promises no signs.)
MGC_DEV u32 permute_bytes(u32 x, u32 y, u32 selector) {
  u32 picked;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(picked) : "r"(x), "r"(y), "r"(selector));
  return picked;
}

// `value` and that of the lane `distance` below, where there is one, together. All lanes of the warp call it. (The
// shuffle knows whether there is one; __shfl_up_sync does not tell.)
MGC_DEV u32 add_from_below(u32 value, u32 distance) {
  asm volatile(
      "{\n\t"
      ".reg .pred %%is_there;\n\t"
      ".reg .b32 %%below;\n\t"
      "shfl.sync.up.b32 %%below|%%is_there, %0, %1, 0, -1;\n\t"
      "@%%is_there add.s32 %0, %0, %%below;\n\t"
      "}"
      : "+r"(value)
      : "r"(distance));
  return value;
}

// Sets those bits of a word of shared memory that are set in `bits`; if there are none, the word is not touched.
// Threads may share words. (Without a branch, which compilers put around atomics.)
MGC_DEV void or_shared(u32* word, u32 bits) {
  const u32 address = (u32)__cvta_generic_to_shared(word);
  asm volatile(
      "{\n\t"
      ".reg .pred %%any;\n\t"
      ".reg .b32 %%old;\n\t"
      "setp.ne.s32 %%any, %1, 0;\n\t"
      "@%%any atom.shared.or.b32 %%old, [%0], %1;\n\t"
      "}" ::"r"(address), "r"(bits)
      : "memory");
}

// `value`, which the compiler then keeps instead of computing it again in each round of a loop.
MGC_DEV u32 in_register(u32 value) {
  asm volatile("" : "+r"(value));
  return value;
}

// A pointer into global memory; compilers, which cannot know it of one that was in memory, then do.
template <class T>
MGC_DEV T* in_global(T* pointer) {
  size_t address = __cvta_generic_to_global(pointer);
  asm("" : "+l"(address));  // Or else they see that nothing changes.
  return (T*)__cvta_global_to_generic(address);
}

// Every spin loop calls this: the shim runs one thread at a time and must be told to go on with another.
MGC_DEV void backoff() { __nanosleep(20); }

// Starts a copy of 16 bytes from global to shared memory that is there after the matching wait. By way of the first-level
// cache, since neighbours share sectors of 32 bytes: memory of the host is asked for each of them twice otherwise.
MGC_DEV void cp_async16(void* shared, const void* global) {
  u32 address = (u32)__cvta_generic_to_shared(shared);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}

MGC_DEV void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most N groups of this thread's copies are still under way.
template <int N>
MGC_DEV void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#else
#include "shim/cuda_shim.h"
#endif
