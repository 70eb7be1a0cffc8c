// Atomics, fences and asynchronous copies, under the names that kernels use.
#pragma once
#include <type_traits>

#include "runtime.h"

template <class T>
inline T __ldg(const T* p) {
  return *p;
}

// Relaxed, like the device's: an atomic orders nothing but itself. `old` and `v` are the operands; the second
// parameter's type is not deduced, so that literals convert.
#define SHIM_ATOMIC(name, result)                                                                  \
  template <class T>                                                                               \
  inline T name(T* p, typename std::common_type<T>::type v) {                                      \
    T old = __atomic_load_n(p, __ATOMIC_RELAXED), next;                                            \
    do next = (result);                                                                            \
    while (!__atomic_compare_exchange_n(p, &old, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
    return old;                                                                                    \
  }
SHIM_ATOMIC(atomicAdd, old + v)
SHIM_ATOMIC(atomicSub, old - v)
SHIM_ATOMIC(atomicMin, old < v ? old : v)
SHIM_ATOMIC(atomicMax, old > v ? old : v)
SHIM_ATOMIC(atomicAnd, old & v)
SHIM_ATOMIC(atomicOr, old | v)
SHIM_ATOMIC(atomicXor, old ^ v)
#undef SHIM_ATOMIC
inline void or_shared(unsigned* word, unsigned bits) {
  if (bits != 0) atomicOr(word, bits);
}

template <class T>
inline T atomicExch(T* p, typename std::common_type<T>::type v) {
  return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);
}
template <class T>
inline T atomicCAS(T* p, typename std::common_type<T>::type expected, typename std::common_type<T>::type v) {
  __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}

inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

inline unsigned long long ld_relaxed_gpu(const unsigned long long* p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
inline void st_relaxed_gpu(unsigned long long* p, unsigned long long value) {
  __atomic_store_n(p, value, __ATOMIC_RELAXED);
}
inline unsigned atomic_add_acq_rel_gpu(unsigned* p, unsigned value) {
  return __atomic_fetch_add(p, value, __ATOMIC_ACQ_REL);
}

inline void cp_async16(void* shared, const void* global) { shim::copy_async(shared, global, 16); }
inline void cp_async_commit() { shim::copy_commit(); }
template <int N>
inline void cp_async_wait() {
  shim::copy_wait(N);
}
