// The inverse of differences between words `lag` apart: running sums in each of `lag` interleaved columns.
//
// Columns are cut into segments, so that all threads have one. Each sums up its segment; the sums are scanned; and
// each runs through its segment once more. That is two loads, a store and two additions per item, whatever the
// lag, and as many rows in turn as there are items for a thread. Where the lag allows it, an item is a register of
// several words.
#pragma once
#include "int/words.cuh"

// Sums of columns, `lag` for each warp (lags below 32) or for each segment.
struct IntSums {
  u64 sums[MGC_BLOCK_THREADS];
};

MGC_DEV IntSums& int_sums() {
  MGC_SHARED(IntSums, sums);
  return sums;
}

// The sum of two items of words of `B` bytes: one word, or a register of them.
template <u32 B, class T>
MGC_DEV T int_plus(T x, T y) {
  return (T)(sizeof(T) > B ? (T)int_add<B>((IntOf<B>)x, (IntOf<B>)y) : (T)(x + y));
}

// A thread's part of the items.
struct IntSegment {
  u32 first;
  u32 end;     // no item from here on
  u32 column;
  u32 number;  // of the segment in its column
  bool is_there;
};

// Neighbouring segments are an odd number of banks apart, so that lanes do not collide.
template <class T>
MGC_DEV IntSegment int_segment(u32 count, u32 lag) {
  constexpr u32 PER_BANK = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  // For up to 256 threads and lags up to 128, a multiplication by this is a division.
  const u32 inverse = 65535 / lag + 1;
  const u32 segments = MGC_BLOCK_THREADS * inverse >> 16, number = threadIdx.x * inverse >> 16;
  const u32 row_len = segments * lag, column = threadIdx.x - number * lag;
  const u32 rows = ((count + row_len - 1) / row_len + PER_BANK - 1) / PER_BANK * PER_BANK | PER_BANK;
  const u32 start = number * rows * lag, end = start + rows * lag;
  const bool is_there = number < segments;
  if (!is_there || start >= count) return {0, 0, column, number, is_there};
  return {start + column, end < count ? end : count, column, number, true};
}

// The sum of `own` over the threads before this one that have its column.
template <u32 B, class T>
MGC_DEV T int_column_scan(T own, const IntSegment& segment, u32 lag) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T* const sums = (T*)int_sums().sums;
  T before = 0;
  u32 group = segment.number;
  if (lag < 32) {
    IntOf<sizeof(T)> inclusive = own;
    for (u32 distance = lag; distance < 32; distance *= 2) {
      const IntOf<sizeof(T)> below = __shfl_up_sync(0xffffffffu, inclusive, distance);
      if (lane >= distance) inclusive = int_plus<B>((T)inclusive, (T)below);
    }
    const IntOf<sizeof(T)> below = __shfl_up_sync(0xffffffffu, inclusive, lag);
    if (lane >= lag) before = (T)below;
    group = warp;
    if (lane >= 32 - lag) sums[warp * lag + segment.column] = (T)inclusive;
  } else if (segment.is_there) {
    sums[threadIdx.x] = own;
  }
  __syncthreads();
#pragma unroll
  for (u32 g = 0; g + 1 < MGC_BLOCK_WARPS; g++) {
    if (g < group) before = int_plus<B>(before, sums[g * lag + segment.column]);
  }
  return before;
}

// Sums up the items from `start` to `end`, every `lag`-th.
template <u32 B, class T>
MGC_DEV T int_sum_of(const T* items, u32 start, u32 end, u32 lag) {
  T sum = 0;
#pragma unroll 4
  for (u32 i = start; i < end; i += lag) sum = int_plus<B>(sum, items[i]);
  return sum;
}

// Replaces each of those items by `sum` and all up to itself. Four at a time, so that loads need not wait for
// stores.
template <u32 B, class T>
MGC_DEV void int_run_up(T* items, u32 start, u32 end, u32 lag, T sum) {
  u32 i = start;
#pragma unroll 1
  for (; i + 3 * lag < end; i += 4 * lag) {
    T next[4];
#pragma unroll
    for (u32 row = 0; row < 4; row++) next[row] = items[i + row * lag];
#pragma unroll
    for (u32 row = 0; row < 4; row++) {
      sum = int_plus<B>(sum, next[row]);
      items[i + row * lag] = sum;
    }
  }
#pragma unroll 1
  for (; i < end; i += lag) {
    sum = int_plus<B>(sum, items[i]);
    items[i] = sum;
  }
}

// Replaces each item by the sum of it, the one `lag` before, and so on, and `first`. All threads must call it; the
// items must be there for all of them, and are afterwards. Lags are 1 at least.
template <u32 B, class T>
MGC_DEV void int_sum_up(T* items, u32 count, u32 lag, T first) {
  if (lag > MGC_BLOCK_THREADS / 2) {
    // A thread for each column.
    for (u32 column = threadIdx.x; column < lag && column < count; column += MGC_BLOCK_THREADS) {
      int_run_up<B>(items, column, count, lag, first);
    }
  } else {
    const IntSegment segment = int_segment<T>(count, lag);
    const T own = int_sum_of<B>(items, segment.first, segment.end, lag);
    const T before = int_column_scan<B>(own, segment, lag);
    int_run_up<B>(items, segment.first, segment.end, lag, int_plus<B>(first, before));
  }
  __syncthreads();
}

// As above for `count` words of `B` bytes, from a multiple of 16 on.
template <u32 B>
MGC_DEV void int_sum_words(u8* words, u32 count, u32 lag, IntOf<B> first) {
  typedef typename IntWord<B>::Type Word;
  if (B < 4 && lag * B % 4 == 0) {
    int_sum_up<B>((u32*)words, (count * B + 3) / 4, lag * B / 4, (u32)int_splat<B>(first));
  } else {
    int_sum_up<B>((Word*)words, count, lag, (Word)first);
  }
}
