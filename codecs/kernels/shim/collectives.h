// Barriers and warp collectives, under their CUDA names.
//
// The last two parameters of each are the place of the call, filled in by the compiler.
#pragma once
#include "runtime.h"

#define SHIM_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SHIM_HERE (shim::Place{file, line})

inline void __syncthreads(SHIM_PLACE) { shim::barrier(0, 0, false, SHIM_HERE); }
inline int __syncthreads_count(int predicate, SHIM_PLACE) {
  return (int)shim::barrier(0, 0, predicate != 0, SHIM_HERE);
}
inline int __syncthreads_or(int predicate, SHIM_PLACE) {
  return shim::barrier(0, 0, predicate != 0, SHIM_HERE) != 0;
}
inline int __syncthreads_and(int predicate, SHIM_PLACE) {
  return shim::barrier(0, 0, predicate == 0, SHIM_HERE) == 0;
}

inline void __syncwarp(unsigned mask = ~0u, SHIM_PLACE) {
  shim::collective(shim::Op::SyncWarp, mask, 0, 0, SHIM_HERE);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, SHIM_PLACE) {
  return (unsigned)shim::collective(shim::Op::Ballot, mask, predicate != 0, 0, SHIM_HERE);
}
inline int __any_sync(unsigned mask, int predicate, SHIM_PLACE) {
  return shim::collective(shim::Op::Ballot, mask, predicate != 0, 0, SHIM_HERE) != 0;
}
inline int __all_sync(unsigned mask, int predicate, SHIM_PLACE) {
  return shim::collective(shim::Op::Ballot, mask, predicate != 0, 0, SHIM_HERE) == mask;
}
template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, SHIM_PLACE) {
  return (unsigned)shim::collective(shim::Op::MatchAny, mask, shim::to_bits(value), 0, SHIM_HERE);
}

// Shuffles work in groups of `width` lanes, a power of two; who would read outside its group reads itself.
template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, SHIM_PLACE) {
  const unsigned group = shim::current->lane & ~(unsigned)(width - 1);
  const unsigned from = group | (source & (width - 1));
  return shim::from_bits<T>(shim::collective(shim::Op::Shuffle, mask, shim::to_bits(value), from, SHIM_HERE));
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32, SHIM_PLACE) {
  const unsigned lane = shim::current->lane;
  const unsigned from = (lane & (width - 1)) >= distance ? lane - distance : lane;
  return shim::from_bits<T>(shim::collective(shim::Op::Shuffle, mask, shim::to_bits(value), from, SHIM_HERE));
}
inline unsigned add_from_below(unsigned value, unsigned distance, SHIM_PLACE) {
  const unsigned lane = shim::current->lane, from = lane >= distance ? lane - distance : lane;
  const unsigned below = (unsigned)shim::collective(shim::Op::Shuffle, 0xffffffffu, value, from, SHIM_HERE);
  return lane >= distance ? value + below : value;
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32, SHIM_PLACE) {
  const unsigned lane = shim::current->lane;
  const unsigned from = (lane & (width - 1)) + distance < (unsigned)width ? lane + distance : lane;
  return shim::from_bits<T>(shim::collective(shim::Op::Shuffle, mask, shim::to_bits(value), from, SHIM_HERE));
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, SHIM_PLACE) {
  const unsigned lane = shim::current->lane, group = ~(unsigned)(width - 1);
  const unsigned other = lane ^ (unsigned)lanes;
  const unsigned from = (other & group) > (lane & group) ? lane : other;
  return shim::from_bits<T>(shim::collective(shim::Op::Shuffle, mask, shim::to_bits(value), from, SHIM_HERE));
}

#define SHIM_REDUCE(name, op)                                               \
  inline unsigned name(unsigned mask, unsigned value, SHIM_PLACE) {         \
    return (unsigned)shim::collective(shim::Op::op, mask, value, 0, SHIM_HERE); \
  }
SHIM_REDUCE(__reduce_add_sync, Add)
SHIM_REDUCE(__reduce_min_sync, Min)
SHIM_REDUCE(__reduce_max_sync, Max)
SHIM_REDUCE(__reduce_and_sync, And)
SHIM_REDUCE(__reduce_or_sync, Or)
SHIM_REDUCE(__reduce_xor_sync, Xor)
#undef SHIM_REDUCE
#undef SHIM_HERE
#undef SHIM_PLACE
