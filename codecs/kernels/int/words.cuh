// The words of an INT chunk as a lane holds them: four of a byte, two of two bytes, or one, in a register.
//
// `B` is the width of a word in bytes. All arithmetic is modulo 2 to the word's bits, in each word alone. A word
// by itself may stand in the low bits of a register, with zeros above it.
#pragma once
#include "kernels.cuh"

template <u32 B>
struct IntLane {
  typedef u32 Type;
};
template <>
struct IntLane<8> {
  typedef u64 Type;
};
// The register of a lane.
template <u32 B>
using IntOf = typename IntLane<B>::Type;

// One word.
template <u32 B>
struct IntWord;
template <>
struct IntWord<1> {
  typedef u8 Type;
};
template <>
struct IntWord<2> {
  typedef u16 Type;
};
template <>
struct IntWord<4> {
  typedef u32 Type;
};
template <>
struct IntWord<8> {
  typedef u64 Type;
};

// Bytes in a lane's register; words in it; lanes that hold one block of 32 words.
#define INT_BYTES(B) (B == 8 ? 8u : 4u)
#define INT_PER_LANE(B) (INT_BYTES(B) / B)
#define INT_BLOCK_LANES(B) (32 / INT_PER_LANE(B))
// A tile is what a warp holds: 128 bytes, or 256 of words of 8 bytes.
#define INT_TILE(B) (32 * INT_BYTES(B))

// One object for all widths.
MGC_DEV ScanShared<u32>& int_scan() {
  MGC_SHARED(ScanShared<u32>, scan);
  return scan;
}

template <u32 B>
MGC_DEV IntOf<B> int_splat(IntOf<B> word) {
  return B == 1 ? word * 0x01010101u : B == 2 ? word * 0x00010001u : word;
}

// The top bit of each word.
template <u32 B>
MGC_DEV u32 int_tops() {
  return B == 1 ? 0x80808080u : 0x80008000u;
}

// The `count` low bits of each word; `count` is less than its bits.
template <u32 B>
MGC_DEV IntOf<B> int_low_bits(u32 count) {
  return int_splat<B>(((IntOf<B>)1 << count) - 1);
}

template <u32 B>
MGC_DEV IntOf<B> int_add(IntOf<B> x, IntOf<B> y) {
  if (B >= 4) return x + y;
  const u32 tops = int_tops<B>();
  return ((x & ~tops) + (y & ~tops)) ^ ((x ^ y) & tops);
}

template <u32 B>
MGC_DEV IntOf<B> int_sub(IntOf<B> x, IntOf<B> y) {
  if (B >= 4) return x - y;
  const u32 tops = int_tops<B>();
  return ((x | tops) - (y & ~tops)) ^ (~(x ^ y) & tops);
}

// Signed numbers in the order 0, -1, 1, -2, 2 ...
template <u32 B>
MGC_DEV IntOf<B> int_zigzag(IntOf<B> x) {
  if (B == 8) return x << 1 ^ (IntOf<B>)((long long)x >> 63);
  if (B == 4) return x << 1 ^ (u32)((int)x >> 31);
  const u32 signs = permute_bytes((u32)x, 0, B == 1 ? 0xba98 : 0xbb99);
  return ((x & ~int_tops<B>()) << 1) ^ signs;
}

template <u32 B>
MGC_DEV IntOf<B> int_unzigzag(IntOf<B> x) {
  const IntOf<B> ones = x & int_splat<B>(1);
  if (B >= 4) return x >> 1 ^ (0 - ones);
  return (x >> 1 & ~int_tops<B>()) ^ ones * (B == 1 ? 0xffu : 0xffffu);
}

// The bits of each word in reverse order.
template <u32 B>
MGC_DEV IntOf<B> int_reversed(IntOf<B> x) {
  if (B == 8) return (IntOf<B>)((u64)__brev((u32)x) << 32 | __brev((u32)((u64)x >> 32)));
  const u32 reversed = __brev((u32)x);
  return B == 4 ? reversed : __byte_perm(reversed, 0, B == 2 ? 0x1032 : 0x0123);
}

// Each word rotated right by less than its bits.
template <u32 B>
MGC_DEV IntOf<B> int_rotated(IntOf<B> x, u32 by) {
  if (B == 4) return __funnelshift_r((u32)x, (u32)x, by);
  if (B == 8) {
    const u32 low = (u32)x, high = (u32)((u64)x >> 32);
    const u32 a = by & 32 ? high : low, b = by & 32 ? low : high;
    return (IntOf<B>)((u64)__funnelshift_r(b, a, by) << 32 | __funnelshift_r(a, b, by));
  }
  const IntOf<B> kept = int_splat<B>((B == 1 ? 0xffu : 0xffffu) >> by);
  return (x >> by & kept) | (x << (8 * B - by) & ~kept);
}

// The length in bits of the longest word of those or-ed to `x`, which is one word.
template <u32 B>
MGC_DEV u32 int_length(IntOf<B> x) {
  return B == 8 ? 64 - (u32)__clzll((long long)x) : 32 - (u32)__clz((int)x);
}

// The sum of the lengths of the words, in bits.
template <u32 B>
MGC_DEV u32 int_lengths(IntOf<B> x) {
  if (B >= 4) return int_length<B>(x);
  u32 ones = (u32)x;  // from each word's highest set bit down
  ones |= ones >> 1 & (B == 1 ? 0x7f7f7f7fu : 0x7fff7fffu);
  ones |= ones >> 2 & (B == 1 ? 0x3f3f3f3fu : 0x3fff3fffu);
  ones |= ones >> 4 & (B == 1 ? 0x0f0f0f0fu : 0x0fff0fffu);
  if (B == 2) ones |= ones >> 8 & 0x00ff00ffu;
  return (u32)__popc(ones);
}

// How many words are not zero.
template <u32 B>
MGC_DEV u32 int_nonzeros(IntOf<B> x) {
  if (B >= 4) return x != 0;
  const u32 tops = int_tops<B>(), word = (u32)x;
  return (u32)__popc((((word & ~tops) + ~tops) | word) & tops);
}

// Word `index` of a register; `index` is known at compile time.
template <u32 B>
MGC_DEV IntOf<B> int_word_of(IntOf<B> x, u32 index) {
  if (B >= 4) return x;
  return x >> 8 * B * index & (B == 1 ? 0xffu : 0xffffu);
}

// All words of a register or-ed.
template <u32 B>
MGC_DEV IntOf<B> int_folded(IntOf<B> x) {
  if (B == 1) x |= x >> 8;
  if (B <= 2) x |= x >> 16;
  return int_word_of<B>(x, 0);
}

// The first `left` bytes of a register, from `x`, and the rest from `other`. `left` may be negative, or more
// than there are.
template <u32 B>
MGC_DEV IntOf<B> int_first_bytes(IntOf<B> x, IntOf<B> other, int left) {
  if (left >= (int)INT_BYTES(B)) return x;
  if (left <= 0) return other;
  const IntOf<B> mask = ((IntOf<B>)1 << 8 * left) - 1;
  return (x & mask) | (other & ~mask);
}

// The register at byte `at`, a multiple of the word's bytes. Nothing behind it is read.
template <u32 B>
MGC_DEV IntOf<B> int_load(const u8* raw, u32 at) {
  if (B >= 4) return *(const IntOf<B>*)(raw + at);
  const u32* const words = (const u32*)raw;
  return __funnelshift_r(words[at / 4], words[(at + 3) / 4], at % 4 * 8);
}

// The register `back` bytes, at least 1, before the one at `at`, which starts on a multiple of its own length.
template <u32 B>
MGC_DEV IntOf<B> int_load_back(const u8* at, u32 back) {
  if (B >= 4) return *(const IntOf<B>*)(at - back);
  const u32* const words = (const u32*)(at - round_up(back, 4));
  return __funnelshift_r(words[0], words[1], (0 - back) % 4 * 8);
}

// As int_load, where `base` stands before the first word. `at` may be negative.
template <u32 B>
MGC_DEV IntOf<B> int_load_before(const u8* raw, IntOf<B> base, int at) {
  if (at >= 0) return int_load<B>(raw, (u32)at);
  if (B >= 4 || at <= -4) return base;
  return __funnelshift_r((u32)base, *(const u32*)raw, (u32)at % 4 * 8);
}

// Minimum, maximum and union over the lanes of a warp.
MGC_DEV u32 int_warp_min(u32 x) { return __reduce_min_sync(0xffffffffu, x); }
MGC_DEV u64 int_warp_min(u64 x) {
  const u32 high = int_warp_min((u32)(x >> 32));
  return (u64)high << 32 | int_warp_min((u32)(x >> 32) == high ? (u32)x : 0xffffffffu);
}
MGC_DEV u32 int_warp_max(u32 x) { return ~int_warp_min(~x); }
MGC_DEV u64 int_warp_max(u64 x) { return ~int_warp_min(~x); }
MGC_DEV u32 int_warp_or(u32 x) { return __reduce_or_sync(0xffffffffu, x); }
MGC_DEV u64 int_warp_or(u64 x) {
  return (u64)int_warp_or((u32)(x >> 32)) << 32 | int_warp_or((u32)x);
}
