// XP: decoding a chunk.
//
// Each warp has a part of the elements. How many values, and how many escapes of each tier, lie before that
// part is counted first, tier by tier: then all sections are checked, and no warp waits for another any more.
// A warp reads values as a stream, up to 32 octets at a time: it finds the escapes of the first tier, resolves
// just these, one per lane, from the second tier and, for the few that are left, from the third and the symbols.
//
// Without masks the values go to the destination as they come. With masks they go to a ring of the warp, from
// which the elements pick theirs.
#pragma once
#include "xp/stream.cuh"

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
    xp_next<32>(shared, chunk.stored, stream, resolved, values);
    xp_store_octet(chunk, octet, values, end);
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
      xp_next<xp_stream_octets<T>()>(shared, chunk.stored, stream, resolved, values);
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
  xp_begin_stream(shared, resolved);
  if (masked) {
    xp_write_masked<T>(chunk, shared, stream, shared.masks[t / 32], resolved, (T*)shared.rings[t / 32]);
  } else {
    xp_write_plain<T>(chunk, shared, stream, shared.masks[t / 32].elements, resolved);
  }
  if (t < tail_len) chunk.dst[chunk.raw_len - tail_len + t] = chunk.stored[at + t];
  return MGC_GOOD;
}
