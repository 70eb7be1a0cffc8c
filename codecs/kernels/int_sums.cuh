// The inverse of differences between words `lag` apart: running sums in each of `lag` interleaved columns.
//
// Columns are cut into segments, so that all threads have one. Each sums up its segment; the sums are scanned; and
// each runs through its segment once more. That is two loads, a store and two additions per word, whatever the lag.
#pragma once
#include "int_words.cuh"

// Sums of columns, `lag` for each warp (lags below 32) or for each segment.
struct IntSums {
  u64 sums[MGC_BLOCK_THREADS];
};

MGC_DEV IntSums& int_sums() {
  MGC_SHARED(IntSums, sums);
  return sums;
}

// A thread's part of the words.
struct IntSegment {
  u32 first;   // word
  u32 end;     // no word from here on
  u32 column;
  u32 number;  // of the segment in its column
};

// Rows of a segment. Neighbouring segments are an odd number of banks apart, so that lanes do not collide.
template <class T>
MGC_DEV u32 int_rows_per_segment(u32 rows, u32 segments) {
  constexpr u32 PER_BANK = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  return ((rows + segments - 1) / segments + PER_BANK - 1) / PER_BANK * PER_BANK | PER_BANK;
}

template <class T>
MGC_DEV IntSegment int_segment(u32 words, u32 lag) {
  const u32 segments = MGC_BLOCK_THREADS / lag, number = threadIdx.x / lag, column = threadIdx.x - number * lag;
  const u32 len = int_rows_per_segment<T>((words + lag - 1) / lag, segments) * lag;
  const u32 start = number * len, end = start + len;
  if (number >= segments || start >= words) return {0, 0, column, number};
  return {start + column, end < words ? end : words, column, number};
}

// The sum of `own` over the threads before this one that have its column.
template <class T>
MGC_DEV T int_column_scan(T own, const IntSegment& segment, u32 lag) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T* const sums = (T*)int_sums().sums;
  T before = 0;
  u32 group = segment.number;
  if (lag < 32) {
    IntOf<sizeof(T)> inclusive = own;
    for (u32 distance = lag; distance < 32; distance *= 2) {
      const IntOf<sizeof(T)> below = __shfl_up_sync(0xffffffffu, inclusive, distance);
      if (lane >= distance) inclusive += below;
    }
    before = (T)(inclusive - own);
    group = warp;
    if (lane >= 32 - lag) sums[warp * lag + segment.column] = (T)inclusive;
  } else if (threadIdx.x < MGC_BLOCK_THREADS / lag * lag) {
    sums[threadIdx.x] = own;
  }
  __syncthreads();
#pragma unroll
  for (u32 g = 0; g + 1 < MGC_BLOCK_WARPS; g++) {
    if (g < group) before += sums[g * lag + segment.column];
  }
  return before;
}

// Runs up the words from `start` to `end`, every `lag`-th.
template <class T>
MGC_DEV void int_run_up(T* words, u32 start, u32 end, u32 lag, T sum) {
#pragma unroll 4
  for (u32 i = start; i < end; i += lag) {
    sum += words[i];
    words[i] = sum;
  }
}

// Replaces each word by the sum of it, the one `lag` before, and so on, and `first`. All threads must call it; the
// words must be there for all of them, and are afterwards. Lags are 1 at least.
template <class T>
MGC_DEV void int_sum_up(T* words, u32 count, u32 lag, T first) {
  if (lag > MGC_BLOCK_THREADS / 2) {
    // A thread for each column.
    for (u32 column = threadIdx.x; column < lag && column < count; column += MGC_BLOCK_THREADS) {
      int_run_up(words, column, count, lag, first);
    }
  } else {
    const IntSegment segment = int_segment<T>(count, lag);
    T own = 0;
#pragma unroll 4
    for (u32 i = segment.first; i < segment.end; i += lag) own += words[i];
    const T before = int_column_scan(own, segment, lag);
    int_run_up(words, segment.first, segment.end, lag, (T)(first + before));
  }
  __syncthreads();
}
