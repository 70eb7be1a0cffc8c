// Turns a tile of words into bit-planes and back, in five steps that each swap a bit of the lane's number with a
// bit of the bit's number in its register.
//
// Registers hold 1, 2 or 4 neighbouring words. So the lowest bits of a word's number are in the number of the
// bit, where they have to end up, and go there by way of the lane's number. In the end each lane has a plane, one
// bit for each of the 32 words of a block; the lanes of a block are those that held its words.
#pragma once
#include "int/words.cuh"

// What a lane needs to know of itself for the steps. Each step takes half of the bits from another lane.
struct IntSwaps {
  u32 pick[2];  // bytes, where halves and bytes are swapped
  u32 kept[3];  // bits, where fours, twos and ones are
  u32 turn[3];  // by how much the others are rotated
};

// How far the lanes are apart that swap halves (step 0), bytes, fours, twos and ones (step 4).
template <u32 B>
MGC_DEV u32 int_distance(u32 step) {
  return B == 1 ? 4 >> step % 3 : B == 2 ? 8 >> step % 4 : 16 >> step;
}

template <u32 B>
MGC_DEV IntSwaps int_swaps() {
  IntSwaps swaps;
#pragma unroll
  for (u32 step = 0; step < 5; step++) {
    const bool upper = (threadIdx.x & int_distance<B>(step)) != 0;
    const u32 lower_bits = step == 2 ? 0x0f0f0f0fu : step == 3 ? 0x33333333u : 0x55555555u;
    if (step == 0) swaps.pick[0] = in_register(upper ? 0x3276 : 0x5410);
    if (step == 1) swaps.pick[1] = in_register(upper ? 0x3715 : 0x6240);
    if (step < 2) continue;
    swaps.kept[step - 2] = in_register(upper ? ~lower_bits : lower_bits);
    swaps.turn[step - 2] = in_register(upper ? 32 - (16 >> step) : 16 >> step);
  }
  return swaps;
}

template <u32 B>
MGC_DEV u32 int_swap(u32 x, u32 step, const IntSwaps& swaps) {
  const u32 other = __shfl_xor_sync(0xffffffffu, x, int_distance<B>(step));
  if (step < 2) return __byte_perm(x, other, swaps.pick[step]);
  const u32 turned = __funnelshift_l(other, other, swaps.turn[step - 2]);
  return (x & swaps.kept[step - 2]) | (turned & ~swaps.kept[step - 2]);
}

// The plane of this lane, from the words of all lanes.
template <u32 B>
MGC_DEV u32 int_to_planes(u32 x, const IntSwaps& swaps) {
#pragma unroll
  for (u32 step = 0; step < 5; step++) x = int_swap<B>(x, step, swaps);
  return x;
}

// The inverse of int_to_planes.
template <u32 B>
MGC_DEV u32 int_from_planes(u32 x, const IntSwaps& swaps) {
#pragma unroll
  for (u32 step = 5; step > 0; step--) x = int_swap<B>(x, step - 1, swaps);
  return x;
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
