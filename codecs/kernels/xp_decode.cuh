// XP: decoding a chunk.
//
// Each warp has a part of the elements. How many values, and how many escapes of each tier, lie before that
// part is counted first, tier by tier: then all sections are checked, and no warp waits for another any more.
// A warp reads values as a stream, up to 32 octets at a time: it finds the escapes of the first tier, resolves
// just these from the second tier and, for the few that are left, from the third and the symbols.
//
// Without masks the values go to the destination as they come. With masks they go to a ring of the warp, from
// which the elements pick theirs.
#pragma once
#include "xp_mask.cuh"

// Octets that a warp reads at a time: at most its lanes, and 512 bytes of values.
template <class T>
MGC_DEV constexpr u32 xp_stream_octets() {
  return sizeof(T) <= 2 ? 32 : 64 / sizeof(T);
}

// Bytes of values that a warp keeps where there are masks: those of a read, and of the elements of a round.
#define XP_RING_LEN 1024

// What one warp resolves: the symbols of the escapes of up to 32 octets, with those around them that share an
// octet of the second tier.
struct XpResolved {
  u16 first[32 * 8 + 16];  // escapes of the first tier
  u16 second[32 * 8 + 8];  // escapes of the second
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

// Resolves the next `count` escapes of the second tier, one per lane and round.
MGC_DEV void xp_resolve_second(const XpDecodeShared& shared, const u8* stored, XpStream& stream, u32 count, XpResolved& resolved) {
  const XpSource& source = shared.source;
  const u32 lane = threadIdx.x % 32;
  const u32* const table = shared.symbols + XP_TIER_1 + xp_second_tier(source.wide);
  for (u32 first = 0; first < count; first += 32) {
    const u32 index = stream.second + first + lane;
    const bool has = first + lane < count;
    u32 code = 0;
    if (has) {
      u32 step;
      const u8* from = stored + source.at.third + xp_plane_at(source.k2, 3, index / 8, &step);
      const u32 bit = index % 8;
      code = (from[0] >> bit & 1u) | (from[step] >> bit & 1u) << 1 | (from[2 * step] >> bit & 1u) << 2;
    }
    const u32 escapes = __ballot_sync(0xffffffffu, code == XP_TIER_3);
    if (has) {
      const u32 escape = stream.third + __popc(escapes & lanemask_lt());
      resolved.second[first + lane] =
          (u16)(code == XP_TIER_3 ? xp_stored_symbol(shared.source, stored, escape) : table[code]);
    }
    stream.third += __popc(escapes);
  }
  stream.second += count;
}

// Resolves the next `count` escapes of the first tier, an octet per lane and round. The symbol of the first of
// them is `resolved.first[stream.first % 8]` afterwards.
MGC_DEV void xp_resolve_first(const XpDecodeShared& shared, const u8* stored, XpStream& stream, u32 count, XpResolved& resolved) {
  const XpSource& source = shared.source;
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32, planes = source.wide ? 3 : 2;
  const u32 from = stream.first, to = from + count;
  const u32* const table = shared.symbols + XP_TIER_1;
  for (u32 round = from / 8; 8 * round < to; round += 32) {
    const u32 octet = round + lane, window = xp_window(octet, from, to);
    u32 bytes[3] = {0, 0, 0};
    if (window != 0) {
      u32 step;
      const u8* column = stored + source.at.second + xp_plane_at(source.k1, planes, octet, &step);
      bytes[0] = column[0];
      bytes[1] = column[step];
      if (planes == 3) bytes[2] = column[2 * step];
    }
    u32 escapes = bytes[0] & bytes[1] & window;
    if (planes == 3) escapes &= bytes[2];
    const u32 inclusive = warp_scan((u32)__popc(escapes));
    const u32 total = __shfl_sync(all, inclusive, 31);
    u32 next = inclusive - __popc(escapes);
    if (total != 0) {
      xp_resolve_second(shared, stored, stream, total, resolved);
      __syncwarp();
    }
    if (window != 0) {
      u16* const symbols = resolved.first + 8 * (octet - from / 8);
#pragma unroll
      for (u32 i = 0; i < 8; i++) {
        const u32 code = (bytes[0] >> i & 1) | (bytes[1] >> i & 1) << 1 | (bytes[2] >> i & 1) << 2;
        // Codes outside the window are not looked at.
        const bool escaped = (escapes >> i & 1) != 0;
        if ((window >> i & 1) != 0) symbols[i] = (u16)(escaped ? resolved.second[next] : table[code]);
        next += escaped ? 1 : 0;
      }
    }
    __syncwarp();  // The next round resolves into the same memory.
  }
  stream.first = to;
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

// Reads the next octets of the stream, one per lane up to xp_stream_octets; a lane whose octet has no values
// gets zeros. For a whole warp.
template <class T>
MGC_DEV void xp_next(const XpDecodeShared& shared, const u8* stored, XpStream& stream, XpResolved& resolved, T (&values)[8]) {
  const XpSource& source = shared.source;
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32;
  const u32 octet = stream.octet + lane;
  const bool has = lane < xp_stream_octets<T>() && 8 * octet < source.values;
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
  u32 next = stream.first % 8 + inclusive - __popc(escapes);
  if (total != 0) {
    xp_resolve_first(shared, stored, stream, total, resolved);
  }
  stream.octet += xp_stream_octets<T>();

  T rests[8] = {};
  if (has) xp_take_rests<T>(source, stored, octet, rests);
#pragma unroll
  for (u32 i = 0; i < 8; i++) {
    const u32 code = (low >> i & 1) | (high >> i & 1) << 1;
    u32 symbol;
    if (code == XP_TIER_1) symbol = resolved.first[next++];
    else symbol = shared.symbols[code];
    const T value = (T)((T)symbol << source.split.rest_bits | rests[i]);
    values[i] = source.split.is_signed ? value : xp_sign_up(value);
  }
  __syncwarp();  // The next octets resolve into the same memory.
}

template <class T>
MGC_DEV T xp_shfl_xor(T value, u32 lanes) {
  return __shfl_xor_sync(0xffffffffu, value, (int)lanes);
}

// Writes the octets of a warp to the destination; `end` is the length of all values.
template <class T>
MGC_DEV void xp_store_octet(const CodedChunk& chunk, u32 octet, const T (&values)[8], u32 end) {
  Unit units[sizeof(T) < 2 ? 1 : sizeof(T) / 2] = {};
#pragma unroll
  for (u32 i = 0; i < 8; i++) put(units[i * sizeof(T) / MGC_UNIT], i % (MGC_UNIT / sizeof(T)), values[i]);
  if (sizeof(T) == 1) {
    // A lane has half a unit; the even ones write.
    units[0].halves[1] = xp_shfl_xor(units[0].halves[0], 1);
    if (octet % 2 == 0 && 8 * octet < end) store_unit(chunk, octet / 2, units[0], end);
    return;
  }
  constexpr u32 PER_OCTET = sizeof(T) < 2 ? 1 : sizeof(T) / 2;
#pragma unroll
  for (u32 i = 0; i < PER_OCTET; i++) {
    const u32 unit = octet * PER_OCTET + i;
    if (unit * MGC_UNIT < end) store_unit(chunk, unit, units[i], end);
  }
}

// The part of the elements that a warp has: whole reads of the stream.
template <class T>
MGC_DEV XpPart xp_part_of_elements(u32 elements) {
  const u32 part = round_up((elements + MGC_BLOCK_WARPS - 1) / MGC_BLOCK_WARPS, sizeof(T) == 1 ? 512 : 256);
  const u32 from = threadIdx.x / 32 * part;
  return {from < elements ? from : elements, from + part < elements ? from + part : elements};
}

template <class T>
MGC_DEV void xp_write_plain(const CodedChunk& chunk, const XpDecodeShared& shared, XpStream stream, const XpPart& part,
                            XpResolved& resolved) {
  const XpSource& source = shared.source;
  const u32 lane = threadIdx.x % 32, end = source.values * (u32)sizeof(T);
  if (part.from == part.to) return;
  while (8 * stream.octet < part.to) {
    const u32 octet = stream.octet + lane;
    T values[8];
    xp_next(shared, chunk.stored, stream, resolved, values);
    const u32 own = lane < xp_stream_octets<T>() ? octet : 0xfffffff;
    xp_store_octet(chunk, own, values, end);
  }
}

// The eight bits of a mask from number `at` on.
MGC_DEV u32 xp_mask_bits(const u8* mask, u32 at, u32 count) {
  const u32 octet = at / 8;
  const u32 next = 8 * octet + 8 < count ? mask[octet + 1] : 0;
  return (mask[octet] | next << 8) >> at % 8;
}

// Writes the elements of a warp, a unit per lane and round.
template <class T>
MGC_DEV void xp_write_masked(const CodedChunk& chunk, const XpDecodeShared& shared, XpStream stream,
                             const XpMasks& masks, XpResolved& resolved, T* ring) {
  const u8* const changes = chunk.scratch + xp_levels_len(chunk.capacity / (u32)sizeof(T));
  constexpr u32 PER_UNIT = MGC_UNIT / sizeof(T), RING = XP_RING_LEN / sizeof(T);
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32;
  const u32 elements = chunk.raw_len / (u32)sizeof(T);
  u32 non_zeros = masks.non_zeros.from, used = masks.values.from;
  for (u32 first = masks.elements.from; first < masks.elements.to; first += 32 * PER_UNIT) {
    const u32 at = first + lane * PER_UNIT;
    // The elements of the unit that are not zero, and those of them that differ from the one before.
    u32 keep = 0;
    if (at < elements) {
      keep = PER_UNIT >= 8 ? xp_live(elements, at / 8) : xp_live(elements, at / 8) >> at % 8;
      if (PER_UNIT == 16) keep |= xp_live(elements, at / 8 + 1) << 8;
      if (PER_UNIT < 8) keep &= (1u << PER_UNIT) - 1;
      if (masks.zeros) {
        u32 bits = chunk.scratch[at / 8] >> at % 8;
        if (PER_UNIT == 16) bits |= at + 8 < elements ? chunk.scratch[at / 8 + 1] << 8 : 0;
        keep &= bits;
      }
    }
    u32 inclusive = warp_scan((u32)__popc(keep));
    u32 before = non_zeros + inclusive - __popc(keep);
    non_zeros += __shfl_sync(all, inclusive, 31);
    u32 changed = (1u << __popc(keep)) - 1;
    if (masks.changes && keep != 0) {
      u32 bits = xp_mask_bits(changes, before, masks.non_zeros.to);
      if (PER_UNIT == 16 && before + 8 < masks.non_zeros.to) {
        bits = (bits & 0xff) | xp_mask_bits(changes, before + 8, masks.non_zeros.to) << 8;
      }
      changed &= bits;
    }
    inclusive = warp_scan((u32)__popc(changed));
    u32 next = used + inclusive - __popc(changed);
    const u32 end_used = used + __shfl_sync(all, inclusive, 31);

    // The value before the first one used is still in the ring: it holds those of a round and of a read.
    while (8 * stream.octet < end_used) {
      const u32 octet = stream.octet + lane;
      T values[8];
      xp_next(shared, chunk.stored, stream, resolved, values);
      if (lane < xp_stream_octets<T>()) {
#pragma unroll
        for (u32 i = 0; i < 8; i++) ring[(8 * octet + i) % RING] = values[i];
      }
      __syncwarp();
    }

    Unit unit = {{0, 0}};
    T value = next == 0 ? (T)0 : ring[(next - 1) % RING];
#pragma unroll
    for (u32 i = 0; i < PER_UNIT; i++) {
      if ((keep >> i & 1) == 0) continue;
      if (changed & 1) value = ring[next++ % RING];
      changed >>= 1;
      put(unit, i, value);
    }
    if (at < elements) store_unit(chunk, at / PER_UNIT, unit, elements * (u32)sizeof(T));
    used = end_used;
    __syncwarp();  // The next values go to the same ring.
  }
}

// Reads and checks mode and masks. `*at` becomes the end of the masks, `*values` the number of values left.
template <class T>
MGC_DEV u32 xp_take_masks(const CodedChunk& chunk, XpDecodeShared& shared, u32 mode, u32 depths, XpMasks* masks,
                          u32* at, u32* values) {
  const u32 room = chunk.capacity / (u32)sizeof(T), elements = chunk.raw_len / (u32)sizeof(T);
  *masks = {};
  masks->elements = masks->non_zeros = masks->values = xp_part_of_elements<T>(elements);
  *values = elements;
  u32 code = MGC_GOOD;
  if ((mode & XP_ZERO_MASK) != 0) {
    code = xp_take_mask(chunk, at, elements, depths & 3, chunk.scratch, room, shared.sums);
    if (block_fails(code)) return code;
    masks->zeros = true;
    const u32 own = xp_count_mask(chunk.scratch, masks->elements.from, masks->elements.to);
    masks->non_zeros = masks->values = xp_part(own, shared.sums[2], values);
  }
  if ((mode & XP_CHANGE_MASK) != 0) {
    u8* const levels = chunk.scratch + xp_levels_len(room);
    code = xp_take_mask(chunk, at, *values, depths >> 4, levels, room, shared.sums);
    if (block_fails(code)) return code;
    masks->changes = true;
    const u32 own = xp_count_mask(levels, masks->non_zeros.from, masks->non_zeros.to);
    masks->values = xp_part(own, shared.sums[3], values);
  }
  return MGC_GOOD;
}

// Reads the table and the padding behind it, which ends where the first tier starts.
MGC_DEV u32 xp_take_table(const CodedChunk& chunk, XpDecodeShared& shared, const XpSplit& split, bool wide, u32 at,
                          u32 first) {
  const u32 t = threadIdx.x, symbol_len = split.symbol_bits > 8 ? 2 : 1, len = xp_table_len(wide);
  const u32 end = at + len * symbol_len;
  if (t < XP_MAX_TABLE + 1) shared.symbols[t] = 0;
  if (t < len) {
    const u8* from = chunk.stored + at + t * symbol_len;
    const u32 symbol = symbol_len == 2 ? from[0] | from[1] << 8 : from[0];
    shared.symbols[t] = symbol;
    if (symbol >> split.symbol_bits != 0) return MGC_BAD_CHUNK_PADDING;
  }
  return t < first - end && chunk.stored[end + t] != 0 ? MGC_BAD_CHUNK_PADDING : MGC_GOOD;
}

// Counts the escapes of all tiers, and checks that the columns are there. `*at` is where the first tier starts,
// then where the symbols end. `part` is that of the warp in the values: an octet's first number, or the end.
MGC_DEV u32 xp_open_columns(const CodedChunk& chunk, XpDecodeShared& shared, const XpPart& part, u32* at,
                            XpSource* source, XpStream* stream) {
  const u8* const stored = chunk.stored;
  const XpSplit& split = source->split;
  const u32 bits = xp_second_bits(source->wide);
  u32 code = MGC_GOOD;
  source->at = xp_columns(*at, split, bits, source->values, 0, 0, 0);
  *at = source->at.end;
  if (*at > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
  code = xp_check_planes(stored + source->at.first, source->values, 2);
  const u32 whole_bytes = source->values * (split.rest_bits / 8);
  const u32 rest_code =
      xp_check_planes(stored + source->at.rests + whole_bytes, source->values, split.rest_bits % 8);
  if (rest_code != MGC_GOOD) code = rest_code;
  const u32 own_1 = xp_count_range(stored + source->at.first, source->values, 2, part.from, part.to);
  const XpPart first = xp_part(own_1, shared.sums[0], &source->k1);

  source->at = xp_columns(source->at.first, split, bits, source->values, source->k1, 0, 0);
  *at = source->at.end;
  if (*at > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
  const u32 second_code = xp_check_planes(stored + source->at.second, source->k1, bits);
  if (second_code != MGC_GOOD) code = second_code;
  const u32 own_2 = xp_count_range(stored + source->at.second, source->k1, bits, first.from, first.to);
  const XpPart second = xp_part(own_2, shared.sums[1], &source->k2);

  source->at = xp_columns(source->at.first, split, bits, source->values, source->k1, source->k2, 0);
  *at = source->at.end;
  if (*at > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
  const u32 third_code = xp_check_planes(stored + source->at.third, source->k2, 3);
  if (third_code != MGC_GOOD) code = third_code;
  const u32 own_3 = xp_count_range(stored + source->at.third, source->k2, 3, second.from, second.to);
  const XpPart third = xp_part(own_3, shared.sums[2], &source->k3);

  source->at = xp_columns(source->at.first, split, bits, source->values, source->k1, source->k2, source->k3);
  *at = source->at.end;
  if (*at > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
  const u32 low_bytes = split.symbol_bits >= 8 ? source->k3 : 0;
  const u32 symbol_code =
      xp_check_planes(stored + source->at.symbols + low_bytes, source->k3, split.symbol_bits % 8);
  *stream = {part.from / 8, first.from, second.from, third.from};
  return symbol_code != MGC_GOOD ? symbol_code : code;
}

// The mode of a chunk, or why it is none. Raw bytes behind a mode are more than the chunk can hold, because
// it would be stored raw without one.
MGC_DEV u32 xp_check_mode(u32 mode, u32 depths) {
  if (mode == 0x80 && depths == 0) return MGC_BAD_CHUNK_TRUNCATED;
  const u32 used = ((mode & XP_ZERO_MASK) != 0 ? 0x03 : 0) | ((mode & XP_CHANGE_MASK) != 0 ? 0x30 : 0);
  const u32 known = XP_SIGNED | XP_WIDE | XP_ZERO_MASK | XP_CHANGE_MASK;
  return (mode & ~known) != 0 || (depths & ~used) != 0 ? MGC_BAD_CHUNK_MODE : MGC_GOOD;
}

template <class T>
MGC_DEV u32 xp_decode(XpDecodeShared& shared, const CodedChunk& chunk) {
  const u32 t = threadIdx.x, mode = chunk.stored[0], depths = chunk.stored[1];
  const u32 tail_len = chunk.raw_len % (u32)sizeof(T);
  u32 code = xp_check_mode(mode, depths);
  if (code != MGC_GOOD) return code;

  XpSource source = {};
  source.split = xp_split(chunk.element, chunk.width_log2, (mode & XP_SIGNED) != 0);
  source.wide = (mode & XP_WIDE) != 0;
  XpMasks masks;
  XpStream stream = {};
  u32 at = XP_MODE_LEN;
  code = xp_take_masks<T>(chunk, shared, mode, depths, &masks, &at, &source.values);
  if (block_fails(code)) return code;
  const bool masked = (mode & (XP_ZERO_MASK | XP_CHANGE_MASK)) != 0;

  if (source.values != 0) {
    const u32 symbol_len = source.split.symbol_bits > 8 ? 2 : 1;
    const u32 first = round_up(at + xp_table_len(source.wide) * symbol_len, 8);
    if (first > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
    code = xp_take_table(chunk, shared, source.split, source.wide, at, first);
    XpPart part = masks.values;
    if (masked) {
      // From the octet on that holds the value before the warp's first one.
      part.from = (part.from - (part.from != 0 ? 1 : 0)) / 8 * 8;
      part.to = (part.to - (part.to != 0 ? 1 : 0)) / 8 * 8;
      if (t / 32 == MGC_BLOCK_WARPS - 1) part.to = source.values;
    }
    at = first;
    const u32 columns_code = xp_open_columns(chunk, shared, part, &at, &source, &stream);
    if (columns_code != MGC_GOOD) code = columns_code;
  }
  if (code == MGC_GOOD) code = check_chunk_end(chunk, at + tail_len);
  if (t == 0) shared.source = source;
  if (t % 32 == 0) shared.masks[t / 32] = masks;
  if (block_fails(code)) return code;

  XpResolved& resolved = shared.resolved[t / 32];
  if (masked) {
    xp_write_masked<T>(chunk, shared, stream, shared.masks[t / 32], resolved, (T*)shared.rings[t / 32]);
  } else {
    xp_write_plain<T>(chunk, shared, stream, shared.masks[t / 32].elements, resolved);
  }
  if (t < tail_len) chunk.dst[chunk.raw_len - tail_len + t] = chunk.stored[at + t];
  return MGC_GOOD;
}
