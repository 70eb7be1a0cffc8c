// Bytes on their way between shared memory and memory at any address.
#pragma once
#include "common/block.cuh"

// Copies bytes `from` to `end` - 1 in pieces of a T, THREADS threads together: a warp or a block. `to` and `source` are
// those of byte 0, each on a multiple of the T. Only what is named is touched: where a T is not whole, it goes byte by byte.
template <u32 THREADS, class T>
MGC_DEV void copy_pieces(u8* to, const u8* source, u32 from, u32 end) {
  constexpr u32 LEN = sizeof(T);
  const u32 own = threadIdx.x % THREADS;
  const u32 first = (from + LEN - 1) / LEN * LEN, last = end / LEN * LEN;
  const u32 head = first < end ? first : end;  // where the pieces start
  for (u32 at = from + own; at < head; at += THREADS) to[at] = source[at];
#pragma unroll 4
  for (u32 at = first + LEN * own; at < last; at += THREADS * LEN) *(T*)(to + at) = *(const T*)(source + at);
  for (u32 at = (last > head ? last : head) + own; at < end; at += THREADS) to[at] = source[at];
}

// The same at any address. One of the two, which is `outside`, may lie anywhere, the other on a multiple of 16; at an
// address that is no multiple of 16 or 4 it takes smaller pieces, which is right but slow.
template <u32 THREADS>
MGC_DEV void copy_bytes(u8* to, const u8* source, const u8* outside, u32 from, u32 end) {
  if ((u64)outside % 16 == 0) {
    copy_pieces<THREADS, uint4>(to, source, from, end);
  } else if ((u64)outside % 4 == 0) {
    copy_pieces<THREADS, u32>(to, source, from, end);
  } else {
    copy_pieces<THREADS, u8>(to, source, from, end);
  }
}
