// Numbers at odd places in shared memory.
#pragma once
#include "launch.h"
#include "mgc_dev.cuh"

// The 4 bytes at byte `at` of `bytes`, which lie on a multiple of 4. No word is read that has none of them.
MGC_DEV u32 load_u32(const u8* bytes, u32 at) {
  const u32* words = (const u32*)bytes;
  return __funnelshift_r(words[at / 4], words[(at + 3) / 4], at % 4 * 8);
}

// Sets those of 32 bits from bit `at` of `bytes` on that are set in `bits`; threads may share words. Words that
// get none are left alone.
MGC_DEV void or_bits(u8* bytes, u32 at, u32 bits) {
  u32* word = (u32*)bytes + at / 32;
  const u32 low = bits << at % 32, high = at % 32 != 0 ? bits >> (32 - at % 32) : 0;
  or_shared(word, low);
  or_shared(word + 1, high);
}

// Zeroes the words that hold bytes `from` to `end` - 1, and so perhaps a few on both sides.
MGC_DEV void zero_words(u8* bytes, u32 from, u32 end) {
  for (u32 i = from / 4 + threadIdx.x; i * 4 < end; i += MGC_BLOCK_THREADS) ((u32*)bytes)[i] = 0;
}

// Zeroes the units of 16 bytes that hold the first `end` bytes.
MGC_DEV void zero_units(u8* bytes, u32 end) {
  for (u32 at = threadIdx.x * MGC_UNIT; at < end; at += MGC_BLOCK_THREADS * MGC_UNIT) {
    *(uint4*)(bytes + at) = make_uint4(0, 0, 0, 0);
  }
}

// Appends bits to words that are zero before; threads whose bits meet in a word both add theirs.
struct BitAppender {
  u32* to;
  u32 pending, pending_len;  // less than a word

  // `bits` has no ones from bit `len` on; at most 32.
  __device__ void push(u32 bits, u32 len) {
    pending |= bits << pending_len;
    const u32 rest = __funnelshift_l(bits, 0, pending_len);
    pending_len += len;
    if (pending_len < 32) return;
    atomicOr(to++, pending);
    pending = rest;
    pending_len -= 32;
  }

  __device__ void finish() {
    if (pending_len != 0) atomicOr(to, pending);
  }
};

// An appender that starts with bit `at` of `bytes`.
MGC_DEV BitAppender append_at(u8* bytes, u32 at) { return {(u32*)bytes + at / 32, 0, at % 32}; }
