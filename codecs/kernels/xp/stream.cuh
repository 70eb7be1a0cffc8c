// XP: the values of a chunk as a stream, which each warp reads for itself.
//
// A warp reads octets of values, at most two per lane: it finds the escapes of the first tier, resolves them from the tiers
// behind, octets of these as well, and joins symbols and rests. Codes and symbols of an octet are worked on together: codes
// are nibbles, which select symbols by permutes of bytes; the ranks of escapes are a product.
#pragma once
#include "xp/mask.cuh"

// Octets that a warp reads at a time into its ring: at most its lanes, and 512 bytes of values.
template <class T>
MGC_DEV constexpr u32 xp_stream_octets() {
  return sizeof(T) <= 2 ? 32 : 64 / sizeof(T);
}

// Bytes of values that a warp keeps where there are masks: those of a read, and of the elements of a round.
#define XP_RING_LEN 1024

// Bytes of the symbols that a warp has ready for escapes of the first tier: those that reads left over, and of the
// octets of a read. They are a ring.
#define XP_READY_LEN 1024
// Bytes at the front of these that stand behind their end as well, so that eight can be read from anywhere.
#define XP_READY_AGAIN 16

// Symbols of up to 8 bits have a byte each, others two. They are written eight bytes at a time.
struct alignas(8) XpReady {
  u32 words[(XP_READY_LEN + XP_READY_AGAIN) / 4];
};

// What is known of a chunk when its values are read. It is kept in shared memory, because all threads need it
// all the time and none has registers for it.
struct XpSource {
  XpSplit split;
  XpColumns at;
  u32 values, k1, k2, k3;
  bool wide;
};

// A part of some numbers: what a warp has to do with.
struct XpPart {
  u32 from, to;
};

// Which masks there are, and the parts of a warp in what they leave.
struct XpMasks {
  bool zeros, changes;
  XpPart elements, non_zeros, values;
};

struct XpDecodeShared {
  XpSource source;
  XpMasks masks[MGC_BLOCK_WARPS];
  // The symbols of each tier: if they fit, of a byte each, and of two.
  uint2 bytes[3];
  u16 halves[3 * 8];
  XpSums sums[4];
  XpReady ready[MGC_BLOCK_WARPS];
  u64 rings[MGC_BLOCK_WARPS][XP_RING_LEN / 8];
};

// The bits of octet `octet` that belong to numbers `from` to `to` - 1.
MGC_DEV u32 xp_window(u32 octet, u32 from, u32 to) { return xp_live(to, octet) & ~xp_live(from, octet); }

// The numbers of an octet whose code is all ones.
MGC_DEV u32 xp_escapes(const u8* column, u32 count, u32 planes, u32 octet) {
  u32 step;
  const u8* const from = column + xp_plane_at(count, planes, octet, &step);
  const u32 two = from[0] & from[step];
  return planes == 3 ? two & from[2 * step] : two;
}

// How many escapes there are in octets `from` to `to` - 1 of a column, with those behind its last number, which are
// padding and found there later. For a whole warp.
MGC_DEV u32 xp_count_octets(const u8* column, u32 count, u32 planes, u32 from, u32 to) {
  u32 own = 0;
  for (u32 octet = from + threadIdx.x % 32; octet < to; octet += 32) {
    own += __popc(xp_escapes(column, count, planes, octet));
  }
  return __reduce_add_sync(0xffffffffu, own);
}

// The same for the first tier, which starts on 8 bytes: whole groups at a time where the part has no others.
MGC_DEV u32 xp_count_first(const u8* column, u32 count, u32 from, u32 to) {
  if ((from | to) % 8 != 0) return xp_count_octets(column, count, 2, from, to);
  u32 own = 0;
  for (u32 group = from / 8 + threadIdx.x % 32; group < to / 8; group += 32) {
    const uint2* const planes = (const uint2*)(column + 16 * group);
    const uint2 low = planes[0], high = planes[1];
    own += __popc(low.x & high.x) + __popc(low.y & high.y);
  }
  return __reduce_add_sync(0xffffffffu, own);
}

// How many there are among numbers `from` to `to` - 1 of the third tier. For a whole warp.
MGC_DEV u32 xp_count_third(const u8* column, u32 count, u32 from, u32 to) {
  u32 own = 0;
  for (u32 octet = from / 8 + threadIdx.x % 32; 8 * octet < to; octet += 32) {
    own += __popc(xp_escapes(column, count, 3, octet) & xp_window(octet, from, to));
  }
  return __reduce_add_sync(0xffffffffu, own);
}

// The same for a mask.
MGC_DEV u32 xp_count_mask(const u8* mask, u32 from, u32 to) {
  u32 own = 0;
  for (u32 octet = from / 8 + threadIdx.x % 32; 8 * octet < to; octet += 32) {
    own += __popc(mask[octet] & xp_window(octet, from, to));
  }
  return __reduce_add_sync(0xffffffffu, own);
}

// The part of a warp, from what its part of the level above holds; `*total` is that of all. A barrier.
MGC_DEV XpPart xp_part(u32 of_warp, XpSums& sums, u32* total) {
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) sums[warp] = of_warp;
  __syncthreads();  // The sums of all warps are there.
  const u32 other = xp_of_warps(sums);
  *total = __reduce_add_sync(all, other);
  const u32 before = __reduce_add_sync(all, lane < warp ? other : 0);
  return {before, before + of_warp};
}

// Whether the bits of a plane behind the last of `count` numbers are zero, if there is that plane.
MGC_DEV u32 xp_check_plane(const u8* column, u32 count, u32 planes, u32 plane) {
  if (count % 8 == 0 || plane >= planes) return MGC_GOOD;
  u32 step;
  const u8* const from = column + xp_plane_at(count, planes, count / 8, &step);
  return from[plane * step] >> count % 8 != 0 ? MGC_BAD_CHUNK_PADDING : MGC_GOOD;
}

// The same for all columns: a thread looks at one plane.
MGC_DEV u32 xp_check_planes(const XpSource& source, const u8* stored) {
  const XpColumns& at = source.at;
  const u32 plane = threadIdx.x % 8, rest_bits = source.split.rest_bits, symbol_bits = source.split.symbol_bits;
  const u32 rests = at.rests + source.values * (rest_bits / 8), symbols = at.symbols + source.k3 * (symbol_bits / 8);
  switch (threadIdx.x / 8) {
    case 0: return xp_check_plane(stored + at.first, source.values, 2, plane);
    case 1: return xp_check_plane(stored + rests, source.values, rest_bits % 8, plane);
    case 2: return xp_check_plane(stored + at.second, source.k1, xp_second_bits(source.wide), plane);
    case 3: return xp_check_plane(stored + at.third, source.k2, 3, plane);
    case 4: return xp_check_plane(stored + symbols, source.k3, symbol_bits % 8, plane);
    default: return MGC_GOOD;
  }
}

// Where a warp is in the stream of values.
struct XpStream {
  u32 octet;          // of values
  u32 first;          // escapes of the first tier before that
  u32 ready;          // those whose symbols are known: the first of an octet
  u32 second, third;  // escapes of each tier before that
};

// Symbol `index` of the column of symbols.
MGC_DEV u32 xp_stored_symbol(const XpSource& source, const u8* stored, u32 index) {
  const u8* column = stored + source.at.symbols;
  u32 bits = source.split.symbol_bits, symbol = 0, low = 0, step;
  if (bits >= 8) {
    symbol = column[index];
    column += source.k3;
    low = 8;
  }
  const u8* const from = column + xp_plane_at(source.k3, bits - low, index / 8, &step);
  for (u32 p = 0; p < bits - low; p++) symbol |= (from[p * step] >> index % 8 & 1u) << (low + p);
  return symbol;
}

// Codes of an octet, and ones where they are all ones; a nibble each.
struct XpCodes {
  u32 codes, escapes;
};

// Each bit of a byte to a nibble of its own.
MGC_DEV u32 xp_nibbles(u32 bits) {
  bits = (bits | bits << 12) & 0x000f000fu;
  bits = (bits | bits << 6) & 0x03030303u;
  return (bits | bits << 3) & 0x11111111u;
}

// Codes of two planes, given a byte of each; and of three.
MGC_DEV XpCodes xp_codes(u32 low, u32 high) {
  low = xp_nibbles(low), high = xp_nibbles(high);
  return {low + 2 * high, low & high};
}
MGC_DEV XpCodes xp_codes(u32 low, u32 high, u32 top) {
  const XpCodes two = xp_codes(low, high);
  top = xp_nibbles(top);
  return {two.codes + 4 * top, two.escapes & top};
}

// Eight symbols of a byte each, from number `at` on of those that are ready. The last ones may be any bytes.
MGC_DEV uint2 xp_ready_bytes(const XpReady& ready, u32 at) {
  const u32* const from = (const u32*)((const u8*)ready.words + at % XP_READY_LEN / 4 * 4);
  return make_uint2(__funnelshift_r(from[0], from[1], 8 * at), __funnelshift_r(from[1], from[2], 8 * at));
}

// The symbols of an octet's codes: from a table of one for each code, or, where the code is all ones, in order from
// number `at` of those that are ready. Of a byte each.
MGC_DEV void xp_symbols(uint2 table, const XpCodes& octet, const XpReady& ready, u32 at, u32 (&symbols)[2]) {
  const uint2 next = xp_ready_bytes(ready, at);
  const u32 ranks = octet.escapes * 0x11111110u;  // in each nibble the sum of those below
#pragma unroll
  for (u32 i = 0; i < 2; i++) {
    const u32 of_code = permute_bytes(table.x, table.y, octet.codes >> 16 * i);
    const u32 of_escape = permute_bytes(next.x, next.y, ranks >> 16 * i);
    const u32 escape = permute_bytes(0xff00u, 0, octet.escapes >> 16 * i);
    symbols[i] = (of_code & ~escape) | (of_escape & escape);
  }
}

// The same for a tier of the table of symbols.
MGC_DEV void xp_symbols(const XpDecodeShared& shared, u32 tier, const XpCodes& octet, const XpReady& ready, u32 at,
                        u32 (&symbols)[2]) {
  xp_symbols(shared.bytes[tier], octet, ready, at, symbols);
}

// The symbol of code `index` of an octet, of two bytes; `*at` becomes the number of the next one that is ready.
MGC_DEV u32 xp_symbol(const XpDecodeShared& shared, u32 tier, const XpCodes& octet, u32 index, const XpReady& ready,
                      u32* at) {
  const bool escapes = (octet.escapes >> 4 * index & 1) != 0;
  const u16* const next = (const u16*)ready.words + *at % (XP_READY_LEN / 2);
  *at += escapes;
  return *(escapes ? next : shared.halves + 8 * tier + (octet.codes >> 4 * index & 7));
}

// xp_symbols for those of two bytes each, in a word each.
MGC_DEV void xp_symbols(const XpDecodeShared& shared, u32 tier, const XpCodes& octet, const XpReady& ready, u32 at,
                        u32 (&symbols)[8]) {
#pragma unroll
  for (u32 i = 0; i < 8; i++) symbols[i] = xp_symbol(shared, tier, octet, i, ready, &at);
}

// The symbols of codes of the third tier, a nibble each; any for escapes.
MGC_DEV void xp_third_symbols(const XpDecodeShared& shared, u32 codes, u32 (&symbols)[2]) {
  const uint2 table = shared.bytes[2];
  symbols[0] = permute_bytes(table.x, table.y, codes);
  symbols[1] = permute_bytes(table.x, table.y, codes >> 16);
}
MGC_DEV void xp_third_symbols(const XpDecodeShared& shared, u32 codes, u32 (&symbols)[8]) {
#pragma unroll
  for (u32 i = 0; i < 8; i++) symbols[i] = shared.halves[16 + (codes >> 4 * i & 7)];
}

// Puts eight symbols from number `at` on, a multiple of eight. WORDS says how many words they are in.
template <u32 WORDS>
MGC_DEV void xp_put_ready(XpReady& ready, u32 at, const u32 (&symbols)[WORDS]) {
  if (WORDS == 8) {
    u32* const to = ready.words + at % (XP_READY_LEN / 2) / 2;
#pragma unroll
    for (u32 i = 0; i < WORDS; i += 4) {
      const u32 low = symbols[i] | symbols[(i + 1) % WORDS] << 16;
      const u32 high = symbols[(i + 2) % WORDS] | symbols[(i + 3) % WORDS] << 16;
      *(uint2*)(to + i / 2) = make_uint2(low, high);
    }
    return;
  }
  const u32 place = at % XP_READY_LEN;
  u32* const to = ready.words + place / 4;
  *(uint2*)to = make_uint2(symbols[0], symbols[1]);
  if (place < XP_READY_AGAIN) *(uint2*)(to + XP_READY_LEN / 4) = make_uint2(symbols[0], symbols[1]);
}

// Puts one.
template <u32 WORDS>
MGC_DEV void xp_put_ready(XpReady& ready, u32 at, u32 symbol) {
  if (WORDS == 8) {
    ((u16*)ready.words)[at % (XP_READY_LEN / 2)] = (u16)symbol;
    return;
  }
  const u32 place = at % XP_READY_LEN;
  u8* const to = (u8*)ready.words + place;
  *to = (u8)symbol;
  if (place < XP_READY_AGAIN) to[XP_READY_LEN] = (u8)symbol;
}

// Resolves the next escapes of the third tier, those of an octet per lane: puts the symbols from number `at` on. They are
// rare.
template <u32 WORDS>
MGC_DEV void xp_resolve_third(const XpDecodeShared& shared, const u8* stored, XpStream& stream, XpReady& ready, u32 at,
                              u32 escapes) {
  const u32 inclusive = warp_scan((u32)__popc(escapes));
  u32 index = stream.third + inclusive - __popc(escapes);
  stream.third += __shfl_sync(0xffffffffu, inclusive, 31);
  for (; escapes != 0; escapes &= escapes - 1) {
    const u32 which = (u32)__ffs((int)escapes) - 1;
    xp_put_ready<WORDS>(ready, at + which, xp_stored_symbol(shared.source, stored, index++));
  }
}

// Resolves the next `number` escapes of the second tier, eight of each lane: puts their symbols from number `at` on, a
// multiple of eight. For a whole warp.
template <u32 WORDS>
MGC_DEV void xp_resolve_second(const XpDecodeShared& shared, const u8* stored, XpStream& stream, XpReady& ready, u32 at,
                               u32 number) {
  const XpSource& source = shared.source;
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32, offset = stream.second % 8;
  const u32 low = (0xffu >> offset) * 0x00010101u;
  // The last lane has but the octet that the one before it needs.
  for (u32 first = 0; first < number; first += 8 * 31) {
    const u32 octet = (stream.second + first) / 8 + lane, own = first + 8 * lane;
    u32 bytes = 0, step;  // one of each plane
    if (8 * octet < source.k2) {
      const u8* const from = stored + source.at.third + xp_plane_at(source.k2, 3, octet, &step);
      bytes = from[0] | from[step] << 8 | from[2 * step] << 16;
    }
    const u32 next = __shfl_down_sync(all, bytes, 1);
    bytes = (bytes >> offset & low) | (next << (8 - offset) & ~low);
    u32 escapes = 0;
    if (lane < 31 && own < number) {
      const u32 planes[3] = {bytes & 0xff, bytes >> 8 & 0xff, bytes >> 16 & 0xff};
      u32 symbols[WORDS];
      xp_third_symbols(shared, xp_codes(planes[0], planes[1], planes[2]).codes, symbols);
      xp_put_ready(ready, at + own, symbols);
      escapes = planes[0] & planes[1] & planes[2] & xp_live(number, own / 8);
    }
    if (__any_sync(all, escapes != 0)) xp_resolve_third<WORDS>(shared, stored, stream, ready, at + own, escapes);
  }
  stream.second += number;
}

// Resolves the escapes of the first tier that 32 octets of the second one stand for. For a whole warp.
template <u32 WORDS>
MGC_DEV void xp_resolve_first(const XpDecodeShared& shared, const u8* stored, XpStream& stream, XpReady& ready) {
  const XpSource& source = shared.source;
  const u32 lane = threadIdx.x % 32, octet = stream.ready / 8 + lane;
  u32 planes[3] = {0, 0, 0};
  if (8 * octet < source.k1) {
    const u32 count = xp_second_bits(source.wide);
    u32 step;
    const u8* const from = stored + source.at.second + xp_plane_at(source.k1, count, octet, &step);
    planes[0] = from[0];
    planes[1] = from[step];
    // Without a third plane, all codes of two ones are escapes.
    planes[2] = count == 3 ? from[2 * step] : planes[0] & planes[1];
  }
  const u32 own = (u32)__popc(planes[0] & planes[1] & planes[2]);
  const u32 inclusive = warp_scan(own), total = __shfl_sync(0xffffffffu, inclusive, 31);
  __syncwarp();  // Nobody reads the symbols before any more.
  // First those of the second tier's escapes, at the front of the place of all.
  xp_resolve_second<WORDS>(shared, stored, stream, ready, stream.ready, total);
  __syncwarp();  // They are there for all lanes.
  u32 symbols[WORDS];
  const XpCodes codes = xp_codes(planes[0], planes[1], planes[2]);
  xp_symbols(shared, 1, codes, ready, stream.ready + inclusive - own, symbols);
  __syncwarp();  // Nobody reads those of the second tier any more.
  xp_put_ready(ready, 8 * octet, symbols);
  stream.ready += 8 * 32;
  __syncwarp();  // The symbols are there for all lanes.
}

// Reads words from an even address of shared memory: the first `len` bytes, the others are zero.
template <u32 WORDS>
MGC_DEV void xp_take_words(const u8* from, u32 (&words)[WORDS], u32 len) {
  if (len != 4 * WORDS) {
#pragma unroll
    for (u32 i = 0; i < WORDS; i++) words[i] = 0;
#pragma unroll
    for (u32 i = 0; i < 4 * WORDS; i++) {
      if (i < len) words[i / 4] |= (u32)from[i] << i % 4 * 8;
    }
  } else if ((u64)from % 8 == 0) {
#pragma unroll
    for (u32 i = 0; i < WORDS; i += 2) {
      const uint2 pair = *(const uint2*)(from + 4 * i);
      words[i] = pair.x, words[i + 1] = pair.y;
    }
  } else {
#pragma unroll
    for (u32 i = 0; i < WORDS; i++) words[i] = ((const u16*)from)[2 * i] | (u32)((const u16*)from)[2 * i + 1] << 16;
  }
}

// Reads the rests of an octet.
template <class T>
MGC_DEV void xp_take_rests(const XpSource& source, const u8* stored, u32 octet, T (&rests)[8]) {
  const u32 count = source.values, first = 8 * octet, rest_bits = source.split.rest_bits;
  const u32 number = count - first < 8 ? count - first : 8;
  const u8* column = stored + source.at.rests;
  u32 low = 0;
#pragma unroll
  for (u32 i = 0; i < 8; i++) rests[i] = 0;
  if (sizeof(T) == 8) {
    u32 piece[8];
    xp_take_words(column + 4 * first, piece, 4 * number);
#pragma unroll
    for (u32 i = 0; i < 8; i++) rests[i] = (T)piece[i];
    column += 4 * count;
    low = 32;
  }
  if (sizeof(T) >= 4) {
    u32 piece[4];
    xp_take_words(column + 2 * first, piece, 2 * number);
#pragma unroll
    for (u32 i = 0; i < 8; i++) rests[i] |= (T)(piece[i / 2] >> i % 2 * 16 & 0xffff) << low;
    column += 2 * count;
    low += 16;
  }
  u32 piece[2];
  if (sizeof(T) > 1 && sizeof(T) < 8 && rest_bits >= low + 8) {
    xp_take_words(column + first, piece, number);
#pragma unroll
    for (u32 i = 0; i < 8; i++) rests[i] |= (T)((T)(piece[i / 4] >> i % 4 * 8 & 0xff) << low);
    column += count;
    low += 8;
  }
  const u32 planes = rest_bits - low;
  if (planes == 0) return;
  u32 step;
  const u8* const from = column + xp_plane_at(count, planes, octet, &step);
  piece[0] = piece[1] = 0;
#pragma unroll
  for (u32 p = 0; p < 7; p++) {
    if (p < planes) piece[p / 4] |= (u32)from[p * step] << p % 4 * 8;
  }
  xp_transpose(piece[0], piece[1]);
#pragma unroll
  for (u32 i = 0; i < 8; i++) rests[i] |= (T)((T)(piece[i / 4] >> i % 4 * 8 & 0xff) << low);
}

// Puts value `index` of an octet, given its symbol and its rest, where all are zero.
template <class T>
MGC_DEV void xp_put_value(const XpSplit& split, u32 index, u32 symbol, T rest, u32 (&words)[xp_words<T>()]) {
  const T joined = (T)((T)symbol << split.rest_bits | rest), value = split.is_signed ? joined : xp_sign_up(joined);
  const u32 at = index * (u32)sizeof(T);
  words[at / 4] |= (u32)value << at % 4 * 8;
  if (sizeof(T) == 8) words[at / 4 + (sizeof(T) == 8)] = (u32)((u64)value >> 32);
}

// What a warp keeps in registers while it reads the stream.
struct XpReader {
  const u8* first;
  const u8* rests;
  u32 values;
  bool is_bytes;  // values are a byte of symbol and whole bytes of rests, with the sign at the bottom: most floats are
};

template <class T>
MGC_DEV XpReader xp_reader(const XpSource& source, const u8* stored) {
  XpReader reader;
  reader.first = stored + source.at.first;
  reader.rests = stored + source.at.rests;
  reader.values = source.values;
  const bool is_fit = sizeof(T) == 2 || sizeof(T) == 4;
  reader.is_bytes = is_fit && source.split.symbol_bits == 8 && !source.split.is_signed;
  return reader;
}

// Joins symbols and rests of eight values that are a byte of symbol and whole bytes of rests: `tops` are the upper bytes
// of the rests, `halves` those below, if there are any.
template <class T>
MGC_DEV void xp_join_bytes(const u32 (&symbols)[2], const u32 (&bytes)[2], const u32 (&halves)[4],
                           u32 (&words)[xp_words<T>()]) {
  u32 tops[4];  // the upper two bytes of each value
#pragma unroll
  for (u32 i = 0; i < 4; i++) tops[i] = permute_bytes(bytes[i / 2], symbols[i / 2], i % 2 == 0 ? 0x5140 : 0x7362);
  if (sizeof(T) == 2) {
    const u32 below = 0x7fff7fffu;
#pragma unroll
    for (u32 i = 0; i < 4; i++) words[i] = (tops[i] >> 1 & below) | (tops[i] << 15 & ~below);
    return;
  }
#pragma unroll
  for (u32 i = 0; i < 8; i++) {
    const u32 value = permute_bytes(halves[i / 2], tops[i / 2], i % 2 == 0 ? 0x5410 : 0x7632);
    words[i % xp_words<T>()] = __funnelshift_r(value, value, 1);
  }
}

// Reads the next OCTETS octets of the stream, one per lane, whose symbols are in WORDS words; a lane whose octet has
// no values, or that has none, gets zeros. For a whole warp.
template <u32 OCTETS, class T, u32 WORDS>
MGC_DEV void xp_next(const XpDecodeShared& shared, const u8* stored, const XpReader& reader, XpStream& stream,
                     XpReady& ready, u32 (&words)[xp_words<T>()]) {
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32;
  const u32 octet = stream.octet + lane;
  const bool has = lane < OCTETS && 8 * octet < reader.values;
  u32 low = 0, high = 0;
  if (has) {
    u32 step;
    const u8* const column = reader.first + xp_plane_at(reader.values, 2, octet, &step);
    low = column[0];
    high = column[step];
  }
  const u32 own = (u32)__popc(low & high);
  const u32 inclusive = warp_scan(own);
  u32 at = stream.first + inclusive - own;
  stream.first += __shfl_sync(all, inclusive, 31);
  stream.octet += OCTETS;
  while (stream.ready < stream.first) xp_resolve_first<WORDS>(shared, stored, stream, ready);

#pragma unroll
  for (u32 i = 0; i < xp_words<T>(); i++) words[i] = 0;
  if (!has) return;
  const XpCodes codes = xp_codes(low, high);
  T rests[8];
  u32 symbols[2];
  if (WORDS == 2) xp_symbols(shared, 0, codes, ready, at, symbols);
  xp_take_rests<T>(shared.source, stored, octet, rests);
#pragma unroll
  for (u32 i = 0; i < 8; i++) {
    const u32 symbol = WORDS == 2 ? symbols[i / 4] >> i % 4 * 8 & 0xff : xp_symbol(shared, 0, codes, i, ready, &at);
    xp_put_value<T>(shared.source.split, i, symbol, rests[i], words);
  }
}

// Words `octet` of a column that starts on 8 bytes.
template <u32 WORDS>
MGC_DEV void xp_take_whole(const u8* column, u32 octet, u32 (&words)[WORDS]) {
#pragma unroll
  for (u32 i = 0; i < WORDS; i += 2) {
    const uint2 pair = ((const uint2*)column)[WORDS / 2 * octet + i / 2];
    words[i] = pair.x, words[i + 1] = pair.y;
  }
}
