// Turns a tile of words into bit-planes and back, in five steps that each swap a bit of the lane's number with a
// bit of the bit's number in its register.
//
// Registers hold 1, 2 or 4 neighbouring words. So the lowest bits of a word's number are in the number of the
// bit, where they have to end up, and go there by way of the lane's number. In the end each lane has a plane, one
// bit for each of the 32 words of a block; the lanes of a block are those that held its words.
#pragma once
#include "int_words.cuh"

template <u32 DISTANCE, u32 SHIFT>
MGC_DEV u32 int_swap(u32 x) {
  const u32 other = __shfl_xor_sync(0xffffffffu, x, DISTANCE);
  const bool upper = (threadIdx.x & DISTANCE) != 0;
  if (SHIFT == 16) return __byte_perm(x, other, upper ? 0x3276 : 0x5410);
  if (SHIFT == 8) return __byte_perm(x, other, upper ? 0x3715 : 0x6240);
  const u32 lower_bits = SHIFT == 4 ? 0x0f0f0f0fu : SHIFT == 2 ? 0x33333333u : 0x55555555u;
  const u32 kept = upper ? ~lower_bits : lower_bits;
  return (x & kept) | (__funnelshift_l(other, other, upper ? 32 - SHIFT : SHIFT) & ~kept);
}

// The plane of this lane, from the words of all lanes.
template <u32 B>
MGC_DEV u32 int_to_planes(u32 x) {
  if (B == 1) return int_swap<2, 1>(int_swap<4, 2>(int_swap<1, 4>(int_swap<2, 8>(int_swap<4, 16>(x)))));
  if (B == 2) return int_swap<8, 1>(int_swap<1, 2>(int_swap<2, 4>(int_swap<4, 8>(int_swap<8, 16>(x)))));
  return int_swap<1, 1>(int_swap<2, 2>(int_swap<4, 4>(int_swap<8, 8>(int_swap<16, 16>(x)))));
}

// The inverse of int_to_planes.
template <u32 B>
MGC_DEV u32 int_from_planes(u32 x) {
  if (B == 1) return int_swap<4, 16>(int_swap<2, 8>(int_swap<1, 4>(int_swap<4, 2>(int_swap<2, 1>(x)))));
  if (B == 2) return int_swap<8, 16>(int_swap<4, 8>(int_swap<2, 4>(int_swap<1, 2>(int_swap<8, 1>(x)))));
  return int_swap<16, 16>(int_swap<8, 8>(int_swap<4, 4>(int_swap<2, 2>(int_swap<1, 1>(x)))));
}

// Which plane of its block this lane has; of words of 8 bytes also the one 32 further on.
template <u32 B>
MGC_DEV u32 int_plane() {
  const u32 lane = threadIdx.x % 32;
  if (B == 1) return (lane & 1) << 2 | (lane >> 1 & 3);
  if (B == 2) return (lane & 7) << 1 | (lane >> 3 & 1);
  return lane;
}

// Which word of its block the first one of this lane's register is.
template <u32 B>
MGC_DEV u32 int_first_word() {
  return threadIdx.x % INT_BLOCK_LANES(B) * INT_PER_LANE(B);
}
