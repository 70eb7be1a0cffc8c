// XP: what a value, a column, and a chunk consist of. FORMAT.md draws the chunk.
//
// All work is done on octets: eight values, or eight numbers of a column, which start at a multiple of eight.
// An octet has one byte of each plane, so nobody ever shifts bits across bytes, and a byte of a plane can be
// read and written at any address.
#pragma once
#include "kernels.cuh"

#define XP_MODE_LEN 2
#define XP_SIGNED 1
#define XP_WIDE 2
#define XP_ZERO_MASK 4
#define XP_CHANGE_MASK 8
// Codes of the first and of the last tier that are no escape; the second has 3 or, wide, 7.
#define XP_TIER_1 3
#define XP_TIER_3 7
#define XP_MAX_TABLE 17
// Numbers whose planes stand together.
#define XP_GROUP 64

// How the bits of a value fall into a symbol and a rest.
struct XpSplit {
  u32 bits;
  u32 symbol_bits;
  u32 rest_bits;
  bool is_signed;
};

// Of an element as wide as T.
template <class T>
MGC_DEV u32 xp_exponent_bits(u32 element) {
  switch (sizeof(T)) {
    case 1: return element == 9 ? 5 : 4;  // f8e5m2; u8 f8e4m3
    case 2: return element == 4 ? 5 : 8;  // f16; u16 bf16
    case 4: return 8;                     // u32 f32
    default: return 11;                   // u64 f64
  }
}

template <class T>
MGC_DEV XpSplit xp_split(u32 element, bool is_signed) {
  const u32 bits = 8 * (u32)sizeof(T), symbol_bits = xp_exponent_bits<T>(element) + (is_signed ? 1 : 0);
  return {bits, symbol_bits, bits - symbol_bits, is_signed};
}

MGC_DEV u32 xp_second_tier(bool wide) { return wide ? 7 : 3; }
MGC_DEV u32 xp_second_bits(bool wide) { return wide ? 3 : 2; }
MGC_DEV u32 xp_table_len(bool wide) { return XP_TIER_1 + xp_second_tier(wide) + XP_TIER_3; }

// Octets of `count` numbers, the last of which may be partial.
MGC_DEV u32 xp_octets(u32 count) { return (count + 7) / 8; }

// Bytes of the planes of `count` numbers.
MGC_DEV u32 xp_planes_len(u32 count, u32 planes) { return planes * xp_octets(count); }

MGC_DEV u32 xp_column_len(u32 count, u32 bits) { return count * (bits / 8) + xp_planes_len(count, bits % 8); }

// Where the columns of a chunk start, in bytes, and how many numbers they have.
struct XpColumns {
  u32 first;  // codes of the first tier
  u32 rests;
  u32 second;
  u32 third;
  u32 symbols;
  u32 end;
};

MGC_DEV XpColumns xp_columns(u32 first, const XpSplit& split, u32 second_bits, u32 values, u32 k1, u32 k2,
                             u32 k3) {
  XpColumns at;
  at.first = first;
  at.rests = at.first + xp_planes_len(values, 2);
  at.second = at.rests + xp_column_len(values, split.rest_bits);
  at.third = at.second + xp_planes_len(k1, second_bits);
  at.symbols = at.third + xp_planes_len(k2, 3);
  at.end = at.symbols + xp_column_len(k3, split.symbol_bits);
  return at;
}

// Where the byte of plane 0 of octet `octet` is behind the start of the planes of `count` numbers; the byte of
// the next plane is `*step` bytes further.
MGC_DEV u32 xp_plane_at(u32 count, u32 planes, u32 octet, u32* step) {
  const u32 of_group = octet / 8 * 8, left = xp_octets(count) - of_group;
  *step = left < 8 ? left : 8;
  return of_group * (planes - 1) + octet;
}

// One bit for each number of an octet that there is.
MGC_DEV u32 xp_live(u32 count, u32 octet) {
  const u32 first = octet * 8, left = (count > first ? count : first) - first;
  return (1u << (left < 8 ? left : 8)) - 1;
}

// Four bits to four bytes of all ones or zeros.
MGC_DEV u32 xp_byte_mask(u32 bits) { return ((bits & 15) * 0x00204081u & 0x01010101u) * 0xffu; }

// Transposes the 8 x 8 bits of eight bytes: bit j of byte i becomes bit i of byte j.
MGC_DEV void xp_transpose(u32& low, u32& high) {
  u32 swap = (low ^ low >> 7) & 0x00aa00aau;
  low ^= swap ^ swap << 7;
  swap = (low ^ low >> 14) & 0x0000ccccu;
  low ^= swap ^ swap << 14;
  swap = (high ^ high >> 7) & 0x00aa00aau;
  high ^= swap ^ swap << 7;
  swap = (high ^ high >> 14) & 0x0000ccccu;
  high ^= swap ^ swap << 14;
  swap = (low >> 4 ^ high) & 0x0f0f0f0fu;
  high ^= swap;
  low ^= swap << 4;
}

// The value rotated left by one, which brings its sign to the bottom; and back.
template <class T>
MGC_DEV T xp_sign_down(T value) {
  return (T)(value << 1 | value >> (8 * sizeof(T) - 1));
}
template <class T>
MGC_DEV T xp_sign_up(T value) {
  return (T)(value >> 1 | value << (8 * sizeof(T) - 1));
}

template <class T>
MGC_DEV T xp_low_bits(u32 bits) {
  return (T)(((T)1 << bits) - 1);
}

// Element `index` of words in registers; `index` is known at compile time.
template <class T>
MGC_DEV T xp_element(const u32* words, u32 index) {
  const u32 at = index * (u32)sizeof(T);
  if (sizeof(T) == 8) return (T)((u64)words[at / 4 + (sizeof(T) == 8)] << 32 | words[at / 4]);
  return (T)(words[at / 4] >> at % 4 * 8);
}

// The upper bits of element `index`, all 32 of them; of a narrower one, others follow.
template <class T>
MGC_DEV u32 xp_top(const u32* words, u32 index) {
  const u32 end = (index + 1) * (u32)sizeof(T);
  return words[(end - 1) / 4] << (4 - end % 4) % 4 * 8;
}

// Words of an octet of values.
template <class T>
MGC_DEV constexpr u32 xp_words() {
  return 2 * sizeof(T);
}

// Loads an octet from shared memory on a multiple of its length, at most 16 bytes at a time.
template <class T>
MGC_DEV void xp_load_octet(const T* from, u32 (&words)[xp_words<T>()]) {
#pragma unroll
  for (u32 i = 0; i < xp_words<T>(); i += sizeof(T) == 1 ? 2 : 4) {
    if (sizeof(T) == 1) {
      const uint2 pair = *(const uint2*)from;
      words[0] = pair.x, words[1] = pair.y;
    } else {
      const uint4 unit = ((const uint4*)from)[i / 4];
      words[i] = unit.x, words[i + 1] = unit.y;
      words[(i + 2) % xp_words<T>()] = unit.z, words[(i + 3) % xp_words<T>()] = unit.w;
    }
  }
}

// Sums of the warps, one set of them for each sum between two barriers.
typedef u32 XpSums[MGC_BLOCK_WARPS];

// The sum of one warp for each of the first lanes, zero for the others.
MGC_DEV u32 xp_of_warps(const XpSums& sums) {
  const u32 lane = threadIdx.x % 32;
  return lane < MGC_BLOCK_WARPS ? sums[lane] : 0;
}

// The sum of `value` over the block. A barrier; the next sum with the same memory needs one in between.
MGC_DEV u32 xp_sum(u32 value, XpSums& sums) {
  const u32 of_warp = __reduce_add_sync(0xffffffffu, value);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = of_warp;
  __syncthreads();
  return __reduce_add_sync(0xffffffffu, xp_of_warps(sums));
}

// The sum of `value` over the threads before the calling one, and over all. A barrier, as xp_sum.
MGC_DEV u32 xp_scan(u32 value, XpSums& sums, u32* total) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const u32 inclusive = warp_scan(value);
  if (lane == 31) sums[warp] = inclusive;
  __syncthreads();
  const u32 other = xp_of_warps(sums);
  *total = __reduce_add_sync(0xffffffffu, other);
  return __reduce_add_sync(0xffffffffu, lane < warp ? other : 0) + inclusive - value;
}
