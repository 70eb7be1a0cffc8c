// XP: decoding a chunk.
//
// Each warp has a part of the elements. How many values, and how many escapes of each tier, lie before that
// part is counted first, tier by tier: then all sections are checked, and no warp waits for another any more.
// A warp reads values as a stream, up to 64 octets at a time. The symbols of the escapes of the first tier it has ready
// in a ring: when that runs out, it resolves those that 32 octets of the second tier stand for, and before it the escapes
// among these, eight of each lane, from the third tier and, for the few that are left, from the symbols.
//
// Without masks the values go to the destination as they come. With masks they go to a ring of the warp, from
// which the elements pick theirs.
#pragma once
#include "xp/stream.cuh"

// Writes the octets of a warp to the destination; `end` is the length of all values.
template <class T>
MGC_DEV void xp_store_octet(const CodedChunk& chunk, u32 octet, const u32 (&words)[xp_words<T>()], u32 end) {
  if (sizeof(T) == 1) {
    // A lane has half a unit; the even ones write.
    const u32 all = 0xffffffffu, low = __shfl_xor_sync(all, words[0], 1), high = __shfl_xor_sync(all, words[1], 1);
    const Unit unit = {{(u64)words[1] << 32 | words[0], (u64)high << 32 | low}};
    if (octet % 2 == 0 && 8 * octet < end) store_unit(chunk, octet / 2, unit, end);
    return;
  }
#pragma unroll
  for (u32 i = 0; i < xp_words<T>() / 4; i++) {
    const u32 index = octet * (xp_words<T>() / 4) + i;
    const Unit unit = {{(u64)words[4 * i + 1] << 32 | words[4 * i],
                        (u64)words[(4 * i + 3) % xp_words<T>()] << 32 | words[(4 * i + 2) % xp_words<T>()]}};
    if (index * MGC_UNIT < end) store_unit(chunk, index, unit, end);
  }
}

// The part of the elements that a warp has: whole reads of the stream.
template <class T>
MGC_DEV XpPart xp_part_of_elements(u32 elements) {
  const u32 part = round_up((elements + MGC_BLOCK_WARPS - 1) / MGC_BLOCK_WARPS, sizeof(T) == 1 ? 512 : 256);
  const u32 from = threadIdx.x / 32 * part;
  return {from < elements ? from : elements, from + part < elements ? from + part : elements};
}

// Writes N octets of each lane at a time, as long as there are so many before octet `end`: of values with `is_bytes`, in
// whole groups, to units. For a whole warp.
template <class T, u32 N>
MGC_DEV void xp_write_whole(const CodedChunk& chunk, const XpDecodeShared& shared, XpStream& stream,
                            const XpReader& reader, XpReady& ready, u32 end) {
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32;
  const uint2 table = shared.bytes[0];
  for (; stream.octet + 32 * N <= end; stream.octet += 32 * N) {
    const u32 octet = stream.octet + lane;
    const u8* const column = reader.first + octet / 8 * 16 + octet % 8;
    u32 low[N], high[N], own = 0;
#pragma unroll
    for (u32 i = 0; i < N; i++) {
      low[i] = column[64 * i], high[i] = column[64 * i + 8];
      own |= (u32)__popc(low[i] & high[i]) << 16 * i;
    }
    const u32 inclusive = warp_scan(own), before = inclusive - own, total = __shfl_sync(all, inclusive, 31);
    const u32 at[2] = {stream.first + (before & 0xffff), stream.first + (total & 0xffff) + (before >> 16)};
    stream.first += (total & 0xffff) + (total >> 16);
    while (stream.ready < stream.first) xp_resolve_first<2>(shared, chunk.stored, stream, ready);
#pragma unroll
    for (u32 i = 0; i < N; i++) {
      u32 symbols[2], bytes[2], halves[4] = {}, words[xp_words<T>()];
      xp_symbols(table, xp_codes(low[i], high[i]), ready, at[i], symbols);
      const u8* const tops = reader.rests + (sizeof(T) == 4 ? 2 * reader.values : 0);
      xp_take_whole(tops, octet + 32 * i, bytes);
      if (sizeof(T) == 4) xp_take_whole(reader.rests, octet + 32 * i, halves);
      xp_join_bytes<T>(symbols, bytes, halves, words);
#pragma unroll
      for (u32 w = 0; w < xp_words<T>(); w += 4) {
        u8* const to = chunk.dst + ((octet + 32 * i) * (u32)sizeof(T) * 8 + 4 * w);
        *(uint4*)to = make_uint4(words[w], words[w + 1], words[w + 2], words[w + 3]);
      }
    }
  }
}

template <class T, u32 WORDS>
MGC_DEV void xp_write_plain(const CodedChunk& chunk, const XpDecodeShared& shared, XpStream stream, const XpPart& part,
                            XpReady& ready) {
  const XpSource& source = shared.source;
  const u32 lane = threadIdx.x % 32, end = source.values * (u32)sizeof(T);
  const XpReader reader = xp_reader<T>(source, chunk.stored);
  if (part.from == part.to) return;
  if constexpr (WORDS == 2 && (sizeof(T) == 2 || sizeof(T) == 4)) {
    // All columns start on 8 bytes then, and all units can be written whole.
    const bool is_even = (u64)chunk.dst % MGC_UNIT == 0 && source.values % XP_GROUP == 0;
    if (reader.is_bytes && is_even) {
      xp_write_whole<T, 2>(chunk, shared, stream, reader, ready, part.to / 8);
      xp_write_whole<T, 1>(chunk, shared, stream, reader, ready, part.to / 8);
    }
  }
  while (8 * stream.octet < part.to) {
    const u32 octet = stream.octet + lane;
    u32 words[xp_words<T>()];
    xp_next<32, T, WORDS>(shared, chunk.stored, reader, stream, ready, words);
    xp_store_octet<T>(chunk, octet, words, end);
  }
}

// The eight bits of a mask from number `at` on.
MGC_DEV u32 xp_mask_bits(const u8* mask, u32 at, u32 count) {
  const u32 octet = at / 8;
  const u32 next = 8 * octet + 8 < count ? mask[octet + 1] : 0;
  return (mask[octet] | next << 8) >> at % 8;
}

// Writes the elements of a warp, a unit per lane and round.
template <class T, u32 WORDS>
MGC_DEV void xp_write_masked(const CodedChunk& chunk, const XpDecodeShared& shared, XpStream stream,
                             const XpMasks& masks, XpReady& ready, T* ring) {
  const u8* const changes = chunk.scratch + xp_levels_len(chunk.capacity / (u32)sizeof(T));
  constexpr u32 PER_UNIT = MGC_UNIT / sizeof(T), RING = XP_RING_LEN / sizeof(T);
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32;
  const u32 elements = chunk.raw_len / (u32)sizeof(T);
  const XpReader reader = xp_reader<T>(shared.source, chunk.stored);
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
      u32 words[xp_words<T>()];
      xp_next<xp_stream_octets<T>(), T, WORDS>(shared, chunk.stored, reader, stream, ready, words);
      if (lane < xp_stream_octets<T>()) {
#pragma unroll
        for (u32 i = 0; i < xp_words<T>(); i += 2) {
          ((uint2*)(ring + 8 * octet % RING))[i / 2] = make_uint2(words[i], words[i + 1]);
        }
      }
      __syncwarp();  // The values are there for all lanes.
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

// Writes the elements of a warp, whose symbols are in WORDS words for each octet.
template <class T, u32 WORDS>
MGC_DEV void xp_write(XpDecodeShared& shared, const CodedChunk& chunk, const XpStream& stream, const XpPart& part,
                      bool masked) {
  const u32 warp = threadIdx.x / 32;
  XpReady& ready = shared.ready[warp];
  if (masked) {
    xp_write_masked<T, WORDS>(chunk, shared, stream, shared.masks[warp], ready, (T*)shared.rings[warp]);
  } else {
    xp_write_plain<T, WORDS>(chunk, shared, stream, part, ready);
  }
}

// Reads and checks masks. `*at` becomes the end of the masks, `*values` the number of values left.
template <class T>
MGC_DEV u32 xp_take_masks(const CodedChunk& chunk, XpDecodeShared& shared, u32 mode, u32 depths, XpMasks* masks,
                          u32* at, u32* values) {
  const u32 room = chunk.capacity / (u32)sizeof(T), elements = chunk.raw_len / (u32)sizeof(T);
  *masks = {};
  masks->elements = masks->non_zeros = masks->values = xp_part_of_elements<T>(elements);
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
  if (t < len) {
    const u8* from = chunk.stored + at + t * symbol_len;
    const u32 symbol = symbol_len == 2 ? from[0] | from[1] << 8 : from[0];
    const u32 third = XP_TIER_1 + xp_second_tier(wide), tier = t < XP_TIER_1 ? 0 : t < third ? 1 : 2;
    const u32 code = t - (tier == 0 ? 0 : tier == 1 ? XP_TIER_1 : third);
    ((u8*)shared.bytes)[8 * tier + code] = (u8)symbol;
    shared.halves[8 * tier + code] = (u16)symbol;
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
  const bool is_last = threadIdx.x / 32 == MGC_BLOCK_WARPS - 1;
  source->at = xp_columns(*at, split, bits, source->values, 0, 0, 0);
  *at = source->at.end;
  if (*at > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
  const u32 own_1 = xp_count_first(stored + source->at.first, source->values, xp_octets(part.from), xp_octets(part.to));
  const XpPart first = xp_part(own_1, shared.sums[0], &source->k1);

  source->at = xp_columns(source->at.first, split, bits, source->values, source->k1, 0, 0);
  *at = source->at.end;
  if (*at > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
  // A warp resolves whole octets: from the one on that holds its first.
  const u32 octets_to = is_last ? xp_octets(source->k1) : first.to / 8;
  const u32 own_2 = xp_count_octets(stored + source->at.second, source->k1, bits, first.from / 8, octets_to);
  const XpPart second = xp_part(own_2, shared.sums[1], &source->k2);

  source->at = xp_columns(source->at.first, split, bits, source->values, source->k1, source->k2, 0);
  *at = source->at.end;
  if (*at > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
  const u32 own_3 = xp_count_third(stored + source->at.third, source->k2, second.from, second.to);
  const XpPart third = xp_part(own_3, shared.sums[2], &source->k3);

  source->at = xp_columns(source->at.first, split, bits, source->values, source->k1, source->k2, source->k3);
  *at = source->at.end;
  if (*at > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
  *stream = {part.from / 8, first.from, first.from / 8 * 8, second.from, third.from};
  return xp_check_planes(*source, stored);
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
  source.split = xp_split<T>(chunk.element, (mode & XP_SIGNED) != 0);
  source.wide = (mode & XP_WIDE) != 0;
  source.values = chunk.raw_len / (u32)sizeof(T);
  XpPart part = xp_part_of_elements<T>(source.values);
  XpStream stream = {};
  u32 at = XP_MODE_LEN;
  const bool masked = (mode & (XP_ZERO_MASK | XP_CHANGE_MASK)) != 0;
  if (masked) {
    XpMasks masks;
    code = xp_take_masks<T>(chunk, shared, mode, depths, &masks, &at, &source.values);
    if (block_fails(code)) return code;
    if (t % 32 == 0) shared.masks[t / 32] = masks;
    // From the octet on that holds the value before the warp's first one.
    part.from = (masks.values.from - (masks.values.from != 0 ? 1 : 0)) / 8 * 8;
    part.to = (masks.values.to - (masks.values.to != 0 ? 1 : 0)) / 8 * 8;
    if (t / 32 == MGC_BLOCK_WARPS - 1) part.to = source.values;
  }

  if (source.values != 0) {
    const u32 symbol_len = source.split.symbol_bits > 8 ? 2 : 1;
    const u32 first = round_up(at + xp_table_len(source.wide) * symbol_len, 8);
    if (first > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
    code = xp_take_table(chunk, shared, source.split, source.wide, at, first);
    at = first;
    const u32 columns_code = xp_open_columns(chunk, shared, part, &at, &source, &stream);
    if (columns_code != MGC_GOOD) code = columns_code;
  }
  if (code == MGC_GOOD) code = check_chunk_end(chunk, at + tail_len);
  if (t == 0) shared.source = source;
  if (block_fails(code)) return code;

  if (sizeof(T) < 8 && source.split.symbol_bits <= 8) {
    xp_write<T, 2>(shared, chunk, stream, part, masked);
  } else {
    xp_write<T, 8>(shared, chunk, stream, part, masked);
  }
  if (t < tail_len) chunk.dst[chunk.raw_len - tail_len + t] = chunk.stored[at + t];
  return MGC_GOOD;
}

MGC_DEV u32 xp_decode(XpDecodeShared& shared, const CodedChunk& chunk) {
  switch (chunk.width_log2) {
    case 0: return xp_decode<u8>(shared, chunk);
    case 1: return xp_decode<u16>(shared, chunk);
    case 2: return xp_decode<u32>(shared, chunk);
    default: return xp_decode<u64>(shared, chunk);
  }
}
