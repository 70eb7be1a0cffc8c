// What the threads of one block do together.
#pragma once
#include "launch.h"
#include "mgc_dev.cuh"

#define MGC_BLOCK_WARPS (MGC_BLOCK_THREADS / 32)

// Sums of the warps, for one scan at a time.
template <class T>
struct ScanShared {
  T warp_sums[MGC_BLOCK_WARPS];
};

// The sum of `value` over the lanes of the warp up to and including the calling one. All lanes must call it.
template <class T>
MGC_DEV T warp_scan(T value) {
#pragma unroll
  for (u32 distance = 1; distance < 32; distance *= 2) {
    const T below = __shfl_up_sync(0xffffffffu, value, distance);
    if (threadIdx.x % 32 >= distance) value += below;
  }
  return value;
}

MGC_DEV u32 warp_scan(u32 value) {
#pragma unroll
  for (u32 distance = 1; distance < 32; distance *= 2) value = add_from_below(value, distance);
  return value;
}

// The sum of `value` over the threads before the calling one; `*total` becomes that over all threads.
//
// Every thread of the block must call it. Several small counts can ride in one T, each in its own bits.
template <class T>
MGC_DEV T block_scan(T value, ScanShared<T>& shared, T* total) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const T inclusive = warp_scan<T>(value);
  if (lane == 31) shared.warp_sums[warp] = inclusive;
  __syncthreads();
  T before = inclusive - value, sum = 0;
#pragma unroll
  for (u32 w = 0; w < MGC_BLOCK_WARPS; w++) {
    if (w == warp) before += sum;
    sum += shared.warp_sums[w];
  }
  __syncthreads();  // The next scan writes warp_sums again.
  *total = sum;
  return before;
}

// The largest `value` of the threads before the calling one, and of those before it in the loop that `before`
// stands for; `*total` becomes the largest of `before` and all threads' values.
//
// Every thread of the block must call it.
MGC_DEV u32 block_scan_max(u32 value, u32 before, ScanShared<u32>& shared, u32* total) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 inclusive = value;
#pragma unroll
  for (u32 distance = 1; distance < 32; distance *= 2) {
    const u32 below = __shfl_up_sync(0xffffffffu, inclusive, distance);
    if (lane >= distance && below > inclusive) inclusive = below;
  }
  const u32 left = __shfl_up_sync(0xffffffffu, inclusive, 1);
  if (lane == 31) shared.warp_sums[warp] = inclusive;
  __syncthreads();
  u32 largest = before;
#pragma unroll
  for (u32 w = 0; w < MGC_BLOCK_WARPS; w++) {
    if (w == warp) before = largest;
    largest = shared.warp_sums[w] > largest ? shared.warp_sums[w] : largest;
  }
  __syncthreads();  // As above.
  *total = largest;
  return lane != 0 && left > before ? left : before;
}

// Starts to copy `len` bytes, whole units, from global to shared memory, all on multiples of a unit. The copies are not
// committed.
MGC_DEV void start_copy(u8* to, const u8* from, u32 len) {
  constexpr u32 STEP = MGC_BLOCK_THREADS * MGC_UNIT, STEPS = 4;
  u32 at = threadIdx.x * MGC_UNIT;
  // By hand, because what compilers put around it takes longer than a chunk.
#pragma unroll 1
  for (; at + (STEPS - 1) * STEP < len; at += STEPS * STEP) {
#pragma unroll
    for (u32 i = 0; i < STEPS; i++) cp_async16(to + at + i * STEP, from + at + i * STEP);
  }
#pragma unroll 1
  for (; at < len; at += STEP) cp_async16(to + at, from + at);
}

// Whether any thread of the block holds an error. A barrier: what was written to shared memory before is
// there for all threads afterwards.
MGC_DEV bool block_fails(u32 code) { return __syncthreads_or(code != MGC_GOOD) != 0; }

// Keeps the error of the lowest chunk, and of that chunk the lowest code, so that the answer does not depend
// on which thread comes first.
MGC_DEV void report(u64* status, u32 chunk, u32 code) {
  const u64 error = (u64)chunk << MGC_STATUS_CODE_BITS | code;
  u64 seen = atomicCAS(status, (u64)MGC_GOOD, error);
  while (seen != MGC_GOOD && seen > error) {
    const u64 current = atomicCAS(status, seen, error);
    if (current == seen) break;
    seen = current;
  }
}
