// Lets a C++ compiler for the CPU compile CUDA C++ kernels. Only `mgc_dev.cuh` includes it.
//
// The names are CUDA's, so that kernels need not know; each behaves as on the device or stops the program.
#pragma once
#include "collectives.h"
#include "intrinsics.h"
#include "memory.h"
#include "runtime.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __constant__ static
#ifndef __restrict__
#define __restrict__ __restrict
#endif

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

#define threadIdx (shim::current->thread_index)
#define blockIdx (shim::current->block_index)
#define blockDim (shim::current->block_dim)
#define gridDim (shim::current->grid_dim)
#define warpSize 32

#define MGC_KERNEL extern "C"
#define MGC_DEV static inline
// The address of a static is the name of the object: one per block, whoever asks for it.
#define MGC_SHARED(T, name)          \
  static const char name##_key = 0; \
  T& name = *static_cast<T*>(shim::shared_object(&name##_key, sizeof(T), alignof(T)))

#define MGC_PARAM(T) const T&
#define MGC_DYNAMIC_SHARED(name) u8* const name = static_cast<u8*>(shim::dynamic_shared())

inline unsigned lanemask_lt() { return (1u << shim::current->lane) - 1; }
inline unsigned in_register(unsigned value) { return value; }
template <class T>
inline T* in_global(T* pointer) {
  return pointer;
}
inline unsigned permute_bytes(unsigned x, unsigned y, unsigned selector) {
  const unsigned bytes = __byte_perm(x, y, selector), asks = selector >> 3 & 0x1111u;
  unsigned picked = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned byte = bytes >> 8 * i & 255, sign = byte & 128 ? 255 : 0;
    picked |= (asks >> 4 * i & 1 ? sign : byte) << 8 * i;
  }
  return picked;
}
inline void backoff() { shim::yield(); }
inline void __nanosleep(unsigned) { shim::yield(); }
