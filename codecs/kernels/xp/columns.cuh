// XP: writing octets of values to the columns of rests and of symbols.
#pragma once
#include "xp/layout.cuh"

// Writes bytes from registers to an even address of shared memory: the first `len` of them, a multiple of 8
// unless they are the last of a section.
template <u32 WORDS>
MGC_DEV void xp_put_words(u8* to, const u32 (&words)[WORDS], u32 len) {
  if (len != 4 * WORDS) {
#pragma unroll
    for (u32 i = 0; i < 4 * WORDS; i++) {
      if (i < len) to[i] = (u8)(words[i / 4] >> i % 4 * 8);
    }
  } else if ((u64)to % 8 == 0) {
#pragma unroll
    for (u32 i = 0; i < WORDS; i += 2) *(uint2*)(to + 4 * i) = make_uint2(words[i], words[i + 1]);
  } else {
#pragma unroll
    for (u32 i = 0; i < WORDS; i++) {
      ((u16*)to)[2 * i] = (u16)words[i];
      ((u16*)to)[2 * i + 1] = (u16)(words[i] >> 16);
    }
  }
}

// Bits `low` to `low` + 7 of each of eight numbers, as eight bytes.
template <class T>
MGC_DEV void xp_pick_bytes(const T (&numbers)[8], u32 low, u32 (&words)[2]) {
  words[0] = words[1] = 0;
#pragma unroll
  for (u32 i = 0; i < 8; i++) words[i / 4] |= ((u32)(numbers[i] >> low) & 0xff) << i % 4 * 8;
}

// Writes the bytes of the planes of an octet, one byte of `planes` each; `low` and `high` are their bytes.
MGC_DEV void xp_put_planes(u8* column, u32 count, u32 planes, u32 octet, u32 low, u32 high) {
  u32 step;
  u8* const to = column + xp_plane_at(count, planes, octet, &step);
#pragma unroll
  for (u32 p = 0; p < 7; p++) {
    if (p < planes) to[p * step] = (u8)((p < 4 ? low : high) >> p % 4 * 8);
  }
}

// The rests of an octet where they are whole bytes and the sign is at their bottom: those of most floats. A column of
// their lower halves, where they have any, stands before one of the bytes above.
struct XpWholeRests {
  u32 halves[4];
  u32 bytes[2];
};

template <class T>
MGC_DEV XpWholeRests xp_whole_rests(const u32 (&words)[xp_words<T>()]) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "rests of other values are no whole bytes");
  XpWholeRests rests = {};
#pragma unroll
  for (u32 i = 0; i < 2; i++) {
    if constexpr (sizeof(T) == 2) {
      // The lower byte of each value, whose top bit belongs to the symbol, and its sign eight times over.
      const u32 low = permute_bytes(words[2 * i], words[2 * i + 1], 0x6420);
      const u32 signs = permute_bytes(words[2 * i], words[2 * i + 1], 0xfdb9);
      rests.bytes[i] = (low << 1 & 0xfefefefeu) | (signs & 0x01010101u);
    } else {
      u32 turned[4];
#pragma unroll
      for (u32 k = 0; k < 4; k++) turned[k] = xp_sign_down(words[4 * i + k]);
      rests.halves[2 * i] = permute_bytes(turned[0], turned[1], 0x5410);
      rests.halves[2 * i + 1] = permute_bytes(turned[2], turned[3], 0x5410);
      const u32 low = permute_bytes(turned[0], turned[1], 0x62), high = permute_bytes(turned[2], turned[3], 0x62);
      rests.bytes[i] = permute_bytes(low, high, 0x5410);
    }
  }
  return rests;
}

// Writes such rests of an octet.
template <class T>
MGC_DEV void xp_put_whole_rests(u8* column, u32 count, u32 octet, const u32 (&words)[xp_words<T>()]) {
  const u32 first = 8 * octet, number = count - first < 8 ? count - first : 8;
  const XpWholeRests rests = xp_whole_rests<T>(words);
  if (sizeof(T) == 4) {
    xp_put_words(column + 2 * first, rests.halves, 2 * number);
    column += 2 * count;
  }
  xp_put_words(column + first, rests.bytes, number);
}

// Writes those of two octets beside each other, where all columns start on 8 bytes.
template <class T>
MGC_DEV void xp_put_pair_rests(u8* column, u32 count, u32 octet, const u32 (&words)[2][xp_words<T>()]) {
#pragma unroll
  for (u32 i = 0; i < 2; i++) {
    const XpWholeRests rests = xp_whole_rests<T>(words[i]);
    u8* bytes = column;
    if (sizeof(T) == 4) {
      uint2* const halves = (uint2*)(column + 16 * (octet + i));
      halves[0] = make_uint2(rests.halves[0], rests.halves[1]);
      halves[1] = make_uint2(rests.halves[2], rests.halves[3]);
      bytes += 2 * count;
    }
    *(uint2*)(bytes + 8 * (octet + i)) = make_uint2(rests.bytes[0], rests.bytes[1]);
  }
}

// Writes the rests of an octet.
template <class T>
MGC_DEV void xp_put_rests(u8* column, u32 count, u32 octet, const XpSplit& split,
                          const u32 (&words)[xp_words<T>()]) {
  const u32 first = 8 * octet, number = count - first < 8 ? count - first : 8;
  T rests[8];
#pragma unroll
  for (u32 i = 0; i < 8; i++) {
    const T value = xp_element<T>(words, i);
    rests[i] = (split.is_signed ? value : xp_sign_down(value)) & xp_low_bits<T>(split.rest_bits);
  }
  u32 low = 0;
  if (sizeof(T) == 8) {  // 52 or 53 bits
    u32 piece[8];
#pragma unroll
    for (u32 i = 0; i < 8; i++) piece[i] = (u32)rests[i];
    xp_put_words(column + 4 * first, piece, 4 * number);
    column += 4 * count;
    low = 32;
  }
  if (sizeof(T) >= 4) {
    u32 piece[4];
#pragma unroll
    for (u32 i = 0; i < 8; i += 2) {
      piece[i / 2] = ((u32)(rests[i] >> low) & 0xffff) | (u32)(rests[i + 1] >> low) << 16;
    }
    xp_put_words(column + 2 * first, piece, 2 * number);
    column += 2 * count;
    low += 16;
  }
  u32 piece[2];
  if (sizeof(T) > 1 && sizeof(T) < 8 && split.rest_bits >= low + 8) {
    xp_pick_bytes(rests, low, piece);
    xp_put_words(column + first, piece, number);
    column += count;
    low += 8;
  }
  if (split.rest_bits > low) {
    xp_pick_bytes(rests, low, piece);
    if (number < 8) {
      piece[0] &= xp_byte_mask(xp_live(count, octet));
      piece[1] &= xp_byte_mask(xp_live(count, octet) >> 4);
    }
    xp_transpose(piece[0], piece[1]);
    xp_put_planes(column, count, split.rest_bits - low, octet, piece[0], piece[1]);
  }
}

MGC_DEV void xp_set_bits(u8* at, u32 bits) {
  const u32 offset = (u32)((u64)at % 4);
  atomicOr((u32*)(at - offset), bits << 8 * offset);
}

// Adds symbol `index` to a column of `count` that is zero at first. They are rare.
MGC_DEV void xp_add_symbol(u8* column, u32 count, u32 index, u32 symbol, u32 symbol_bits) {
  u32 bits = symbol_bits, step;
  if (bits >= 8) {
    xp_set_bits(column + index, symbol & 0xff);
    column += count;
    symbol >>= 8;
    bits -= 8;
  }
  u8* const to = column + xp_plane_at(count, bits, index / 8, &step);
  for (u32 p = 0; p < bits; p++) {
    if (symbol >> p & 1) xp_set_bits(to + p * step, 1u << index % 8);
  }
}

// Adds the symbols of an octet's values without a code.
template <class T>
MGC_DEV void xp_add_symbols(u8* column, u32 count, u32 index, const XpSplit& split, u32 mask,
                            const u32 (&words)[xp_words<T>()]) {
  for (; mask != 0; mask &= mask - 1) {
    const u32 which = (u32)__ffs((int)mask) - 1;
    u32 top = 0;
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
      if (which == i) top = xp_top<T>(words, i);
    }
    const u32 symbol = (split.is_signed ? top : top << 1) >> (32 - split.symbol_bits);
    xp_add_symbol(column, count, index++, symbol, split.symbol_bits);
  }
}
