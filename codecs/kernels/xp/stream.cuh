// XP: the values of a chunk as a stream, which each warp reads for itself.
//
// A warp reads up to 32 octets at a time, one per lane: it finds the escapes of the first tier, resolves them from the tiers
// behind, and joins symbols and rests.
#pragma once
#include "xp/mask.cuh"

// Octets that a warp reads at a time into its ring: at most its lanes, and 512 bytes of values.
template <class T>
MGC_DEV constexpr u32 xp_stream_octets() {
  return sizeof(T) <= 2 ? 32 : 64 / sizeof(T);
}

// Bytes of values that a warp keeps where there are masks: those of a read, and of the elements of a round.
#define XP_RING_LEN 1024

// The symbols that a warp's octets have: those of the codes of the first tier, which stay, then those of the escapes of
// up to 32 octets.
struct XpResolved {
  u16 symbols[XP_TIER_1 + 32 * 8 + 1];  // one more is read, and not used
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
  u32 symbols[XP_MAX_TABLE + 1];
  XpSums sums[4];
  XpResolved resolved[MGC_BLOCK_WARPS];
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

// How many escapes there are among numbers `from` to `to` - 1 of a column. For a whole warp.
MGC_DEV u32 xp_count_range(const u8* column, u32 count, u32 planes, u32 from, u32 to) {
  u32 own = 0;
  for (u32 octet = from / 8 + threadIdx.x % 32; 8 * octet < to; octet += 32) {
    own += __popc(xp_escapes(column, count, planes, octet) & xp_window(octet, from, to));
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
  const u32 warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) sums[warp] = of_warp;
  __syncthreads();
  u32 before = 0, sum = 0;
#pragma unroll
  for (u32 w = 0; w < MGC_BLOCK_WARPS; w++) {
    if (w == warp) before = sum;
    sum += sums[w];
  }
  *total = sum;
  return {before, before + of_warp};
}

// Whether the bits of the planes behind the last of `count` numbers are zero. A thread looks at one plane.
MGC_DEV u32 xp_check_planes(const u8* column, u32 count, u32 planes) {
  if (count % 8 == 0 || threadIdx.x >= planes) return MGC_GOOD;
  u32 step;
  const u8* const from = column + xp_plane_at(count, planes, count / 8, &step);
  return from[threadIdx.x * step] >> count % 8 != 0 ? MGC_BAD_CHUNK_PADDING : MGC_GOOD;
}

// Where a warp is in the stream of values.
struct XpStream {
  u32 octet;  // of values
  u32 first, second, third;  // escapes of each tier before that
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

// Code `index` of a column of two or three planes.
MGC_DEV u32 xp_code(const u8* column, u32 count, u32 planes, u32 index) {
  u32 step;
  const u8* const from = column + xp_plane_at(count, planes, index / 8, &step);
  u32 code = (from[0] >> index % 8 & 1u) | (from[step] >> index % 8 & 1u) << 1;
  if (planes == 3) code |= (from[2 * step] >> index % 8 & 1u) << 2;
  return code;
}

// Resolves the next escapes of the second tier, one of each lane where `has`; the others get any symbol.
MGC_DEV u32 xp_resolve_second(const XpDecodeShared& shared, const u8* stored, XpStream& stream, bool has) {
  const XpSource& source = shared.source;
  const u32 all = 0xffffffffu, below = lanemask_lt(), seconds = __ballot_sync(all, has);
  u32 code = 0;
  if (has) code = xp_code(stored + source.at.third, source.k2, 3, stream.second + __popc(seconds & below));
  const u32 thirds = __ballot_sync(all, code == XP_TIER_3);
  u32 symbol = shared.symbols[XP_TIER_1 + xp_second_tier(source.wide) + code];
  if (code == XP_TIER_3) symbol = xp_stored_symbol(source, stored, stream.third + __popc(thirds & below));
  stream.second += __popc(seconds);
  stream.third += __popc(thirds);
  return symbol;
}

// Resolves the next `count` escapes of the first tier, one per lane and round. For a whole warp.
MGC_DEV void xp_resolve_first(const XpDecodeShared& shared, const u8* stored, XpStream& stream, u32 count,
                              XpResolved& resolved) {
  const XpSource& source = shared.source;
  const u32 lane = threadIdx.x % 32, planes = xp_second_bits(source.wide), escape = xp_second_tier(source.wide);
  for (u32 first = 0; first < count; first += 32) {
    const bool has = first + lane < count;
    u32 code = 0;
    if (has) code = xp_code(stored + source.at.second, source.k1, planes, stream.first + first + lane);
    u32 symbol = shared.symbols[XP_TIER_1 + code];
    const bool escapes = code == escape;
    if (__any_sync(0xffffffffu, escapes)) {
      const u32 resolves = xp_resolve_second(shared, stored, stream, escapes);
      if (escapes) symbol = resolves;
    }
    if (has) resolved.symbols[XP_TIER_1 + first + lane] = (u16)symbol;
  }
  stream.first += count;
  __syncwarp();
}

// Puts the symbols of the first tier where xp_next looks for them. For a whole warp, before the first.
MGC_DEV void xp_begin_stream(const XpDecodeShared& shared, XpResolved& resolved) {
  const u32 lane = threadIdx.x % 32;
  if (lane < XP_TIER_1) resolved.symbols[lane] = (u16)shared.symbols[lane];
  __syncwarp();
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

// Reads the next OCTETS octets of the stream, one per lane; a lane whose octet has no values, or that has none, gets
// zeros. For a whole warp.
template <u32 OCTETS, class T>
MGC_DEV void xp_next(const XpDecodeShared& shared, const u8* stored, XpStream& stream, XpResolved& resolved,
                     T (&values)[8]) {
  const XpSource& source = shared.source;
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32;
  const u32 octet = stream.octet + lane;
  const bool has = lane < OCTETS && 8 * octet < source.values;
  u32 low = 0, high = 0;
  if (has) {
    u32 step;
    const u8* const column = stored + source.at.first + xp_plane_at(source.values, 2, octet, &step);
    low = column[0];
    high = column[step];
  }
  const u32 escapes = low & high;
  const u32 inclusive = warp_scan((u32)__popc(escapes));
  const u32 total = __shfl_sync(all, inclusive, 31);
  u32 next = XP_TIER_1 + inclusive - __popc(escapes);
  if (total != 0) xp_resolve_first(shared, stored, stream, total, resolved);
  stream.octet += OCTETS;

  T rests[8] = {};
  if (has) xp_take_rests<T>(source, stored, octet, rests);
#pragma unroll
  for (u32 i = 0; i < 8; i++) {
    const u32 code = (low >> i & 1) | (high >> i & 1) << 1;
    const u32 symbol = resolved.symbols[code == XP_TIER_1 ? next : code];
    next += escapes >> i & 1;
    const T value = (T)((T)symbol << source.split.rest_bits | rests[i]);
    values[i] = source.split.is_signed ? value : xp_sign_up(value);
  }
  __syncwarp();  // The next octets resolve into the same memory.
}
