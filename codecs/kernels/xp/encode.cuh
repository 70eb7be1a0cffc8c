// XP: encoding a chunk.
//
// plan   Where masks are worth it, the values that they leave out are taken out of the raw bytes, in place; a
//        chunk that is not worth coding after all is loaded again. The samples give the table. Then each value
//        is looked up once, and the escapes are counted: that is the length. Codes are kept in the scratch.
// emit   A round takes an octet of values per thread, or two: those of another thread than in the plan, so a barrier lies
//        between. Rests and codes of the first tier go to their places, the
//        code bytes of the escapes to the front of the raw bytes. That is in place as well: what a round writes
//        lies below what the next one reads, and the barrier of the scan is between reading and writing. The
//        second tier is made of these bytes the same way, the third of what the second leaves.
#pragma once
#include "xp/table.cuh"

// Room for the levels of a mask in the scratch.
template <class T>
MGC_DEV u32 xp_mask_room(const RawChunk& chunk) {
  return chunk.capacity / (u32)sizeof(T);
}

template <class T>
MGC_DEV u8* xp_change_levels(const RawChunk& chunk) {
  return chunk.scratch + xp_levels_len(xp_mask_room<T>(chunk));
}

// Takes the values that are zero, or those equal to the one before, out of `count`, and writes the mask of the
// others. There is a barrier behind it. Returns how many are left.
template <class T, bool ZEROS>
MGC_DEV u32 xp_take_out(T* values, u32 count, u8* mask, XpSums (&sums)[4]) {
  u32 left = 0;
  T last = 0;  // of the round before
  for (u32 first = 0; first < round_up(count, 64); first += 8 * MGC_BLOCK_THREADS) {
    const u32 octet = first / 8 + threadIdx.x;
    u32 words[xp_words<T>()] = {};
    u32 keep = xp_live(count, octet);
    if (keep != 0) {
      xp_load_octet(values + 8 * octet, words);
      T before = last;
      if (!ZEROS && threadIdx.x != 0) before = values[8 * octet - 1];
#pragma unroll
      for (u32 i = 0; i < 8; i++) {
        const T value = xp_element<T>(words, i);
        if (value == (ZEROS ? (T)0 : before)) keep &= ~(1u << i);
        before = value;
      }
    }
    // The next round finds this overwritten.
    if (!ZEROS && threadIdx.x == 0 && first + 8 * MGC_BLOCK_THREADS < count) {
      last = values[first + 8 * MGC_BLOCK_THREADS - 1];
    }
    if (8 * octet < round_up(count, 64)) mask[octet] = (u8)keep;
    u32 total;
    T* to = values + left + xp_scan((u32)__popc(keep), sums[first / 8 / MGC_BLOCK_THREADS % 2], &total);
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
      if (keep >> i & 1) *to++ = xp_element<T>(words, i);
    }
    left += total;
  }
  __syncthreads();
  return left;
}

// Looks up the codes of an octet; see table.cuh. Zero for values that there are not.
template <class T>
MGC_DEV void xp_look_up(const XpEncodeShared& shared, const u32 (&words)[xp_words<T>()], u32 symbol_bits, u32 live,
                        u32* low, u32* high) {
  u32 codes[2] = {0, 0};
#pragma unroll
  for (u32 i = 0; i < 8; i++) {
    codes[i / 4] |= (u32)shared.codes[xp_top<T>(words, i) >> (32 - symbol_bits)] << i % 4 * 8;
  }
  *low = ~codes[0];
  *high = ~codes[1];
  if (live == 0xff) return;
  *low &= xp_byte_mask(live);
  *high &= xp_byte_mask(live >> 4);
}

// Bit `bit` of each code byte of an octet, one bit each, and the whole times 2^bit.
MGC_DEV u32 xp_scaled_plane(u32 low, u32 high, u32 bit) {
  const u32 ones = 0x01010101u << bit;
  return __dp4a(high & ones, 0x80402010u, __dp4a(low & ones, 0x08040201u, 0u));
}

// Bit `bit` of each code byte of two octets, one bit each.
MGC_DEV u32 xp_pair_plane(const uint4& codes, u32 bit) {
  return (xp_scaled_plane(codes.x, codes.y, bit) | xp_scaled_plane(codes.z, codes.w, bit) << 8) >> bit;
}

// Planes 2 to 4, a byte each.
MGC_DEV u32 xp_later_planes(u32 low, u32 high) {
  return xp_scaled_plane(low, high, 2) >> 2 | xp_scaled_plane(low, high, 3) << 5 | xp_scaled_plane(low, high, 4) << 12;
}

// Whether the codes that the plan looked up are in the scratch. 8-bit values are more than it holds, and masks
// are there as well.
template <class T>
MGC_DEV bool xp_keeps_codes(const XpPlan& plan) {
  return sizeof(T) > 1 && (plan.mode & (XP_ZERO_MASK | XP_CHANGE_MASK)) == 0;
}

// Escapes of each tier: times 32, 64, 128.
struct XpEscapes {
  u32 k1, k2, k3;
};

// Adds those of four code bytes.
MGC_DEV void xp_add_escapes(XpEscapes& escapes, u32 codes) {
  const u32 ones = 0x01010101u;
  escapes.k1 = __dp4a(codes & 0x20202020u, ones, escapes.k1);
  escapes.k2 = __dp4a(codes & 0x40404040u, ones, escapes.k2);
  escapes.k3 = __dp4a(codes & 0x80808080u, ones, escapes.k3);
}

// Looks up all values and counts escapes.
template <class T>
MGC_DEV void xp_count_escapes(XpEncodeShared& shared, const RawChunk& chunk, XpPlan* plan) {
  const u32 symbol_bits = xp_exponent_bits<T>(chunk.element) + 1;
  const bool keeps = xp_keeps_codes<T>(*plan);
  XpEscapes own = {0, 0, 0};
  if (sizeof(T) < 8 && keeps && plan->values % 16 == 0) {
    // A thread has two octets beside each other; of 64-bit elements they would lie in the same banks as those of others.
#pragma unroll 1
    for (u32 octet = 2 * threadIdx.x; 8 * octet < plan->values; octet += 2 * MGC_BLOCK_THREADS) {
      u32 codes[4];
#pragma unroll
      for (u32 i = 0; i < 2; i++) {
        u32 words[xp_words<T>()];
        xp_load_octet((const T*)chunk.raw + 8 * (octet + i), words);
        xp_look_up<T>(shared, words, symbol_bits, 0xff, &codes[2 * i], &codes[2 * i + 1]);
      }
#pragma unroll
      for (u32 i = 0; i < 4; i++) xp_add_escapes(own, codes[i]);
      ((uint4*)chunk.scratch)[octet / 2] = make_uint4(codes[0], codes[1], codes[2], codes[3]);
    }
  } else {
#pragma unroll 1
    for (u32 octet = threadIdx.x; 8 * octet < plan->values; octet += MGC_BLOCK_THREADS) {
      u32 words[xp_words<T>()], low, high;
      xp_load_octet((const T*)chunk.raw + 8 * octet, words);
      xp_look_up<T>(shared, words, symbol_bits, xp_live(plan->values, octet), &low, &high);
      xp_add_escapes(own, low);
      xp_add_escapes(own, high);
      if (keeps) ((uint2*)chunk.scratch)[octet] = make_uint2(low, high);
    }
  }
  // A thread has at most 256 values, a block 65536.
  const u32 all = 0xffffffffu;
  const u32 both = __reduce_add_sync(all, own.k1 / 32 | own.k2 / 64 << 16);
  const u32 rare = __reduce_add_sync(all, own.k3 / 128);
  if (threadIdx.x % 32 == 0) {
    shared.sums[2][threadIdx.x / 32] = both;
    shared.sums[3][threadIdx.x / 32] = rare;
  }
  __syncthreads();
  const u32 of_warps = xp_of_warps(shared.sums[2]);
  plan->k1 = __reduce_add_sync(all, of_warps & 0xffff);
  plan->k2 = __reduce_add_sync(all, of_warps >> 16);
  plan->k3 = __reduce_add_sync(all, xp_of_warps(shared.sums[3]));
}

// The symbol of a value, sign included.
template <class T>
MGC_DEV u32 xp_signed_symbol(const RawChunk& chunk, T value) {
  return (u32)(value >> (8 * (u32)sizeof(T) - 1 - xp_exponent_bits<T>(chunk.element)));
}

// What a thread found of its sample, and all of theirs: how many there are, zeros and repeats among them.
struct XpSample {
  u32 symbol;
  bool first;
  u32 number, zeros, repeats;
};

// Takes a sample of `count` values per thread and counts its symbol. A barrier.
template <class T>
MGC_DEV XpSample xp_take_sample(XpEncodeShared& shared, const RawChunk& chunk, u32 count) {
  const T* const values = (const T*)chunk.raw;
  const u32 at = xp_sample_at(count);
  const bool has = at < count;
  T value = 0, before = 0;
  if (has) {
    value = values[at];
    if (at > 0) before = values[at - 1];
  }
  const bool repeats = has && threadIdx.x % XP_PROBE == 0 && value == before;
  const u32 symbol = xp_signed_symbol(chunk, value);
  const bool first = xp_count(shared, has, symbol);
  // Ten bits hold a number of threads.
  const u32 own = (has ? 1u : 0) | (has && value == 0 ? 1u << 10 : 0) | (repeats ? 1u << 20 : 0);
  const u32 sums = xp_sum(own, shared.sums[3]);
  return {symbol, first, sums & 0x3ff, sums >> 10 & 0x3ff, sums >> 20};
}

// Decides on masks, takes out what they leave out, and returns the sample of the values left.
template <class T>
MGC_DEV XpSample xp_plan_masks(XpEncodeShared& shared, const RawChunk& chunk, u8* raw, XpPlan* plan) {
  const u32 saved_bits = 8 * (u32)sizeof(T) - xp_exponent_bits<T>(chunk.element) + 2;
  const u32 room = xp_mask_room<T>(chunk);
  XpSample sample = xp_take_sample<T>(shared, chunk, plan->values);
  if (sample.zeros * saved_bits > sample.number) {
    plan->mode |= XP_ZERO_MASK;
    xp_clear_counts<T>(shared, chunk);
    const u32 elements = plan->values;
    plan->values = xp_take_out<T, true>((T*)raw, elements, chunk.scratch, shared.sums);
    plan->zeros = xp_best_depth(chunk.scratch, room, elements, shared.sums);
    sample = xp_take_sample<T>(shared, chunk, plan->values);
  }
  plan->non_zeros = plan->values;
  const u32 probes = (sample.number + XP_PROBE - 1) / XP_PROBE;
  if (sample.repeats * saved_bits > probes) {
    plan->mode |= XP_CHANGE_MASK;
    xp_clear_counts<T>(shared, chunk);
    u8* const levels = xp_change_levels<T>(chunk);
    plan->values = xp_take_out<T, false>((T*)raw, plan->non_zeros, levels, shared.sums);
    plan->changes = xp_best_depth(levels, room, plan->non_zeros, shared.sums);
    sample = xp_take_sample<T>(shared, chunk, plan->values);
  }
  return sample;
}

// Where the codes of the first tier start: behind mode, masks, table and padding.
MGC_DEV u32 xp_table_at(const XpPlan& plan) { return XP_MODE_LEN + plan.zeros.len + plan.changes.len; }
MGC_DEV u32 xp_first_at(const XpPlan& plan, const XpSplit& split) {
  const u32 symbol_len = split.symbol_bits > 8 ? 2 : 1;
  return round_up(xp_table_at(plan) + symbol_len * xp_table_len(plan.mode & XP_WIDE), 8);
}

MGC_DEV XpColumns xp_planned_columns(const XpPlan& plan, const XpSplit& split) {
  return xp_columns(xp_first_at(plan, split), split, xp_second_bits(plan.mode & XP_WIDE), plan.values, plan.k1,
                    plan.k2, plan.k3);
}

template <class T>
MGC_DEV u32 xp_plan(XpEncodeShared& shared, const RawChunk& chunk) {
  const u32 tail_len = chunk.raw_len % (u32)sizeof(T);
  XpPlan plan = {};
  plan.values = chunk.raw_len / (u32)sizeof(T);
  xp_clear_counts<T>(shared, chunk);
  __syncthreads();
  const XpSample sample = xp_plan_masks<T>(shared, chunk, chunk.raw, &plan);
  const bool masked = (plan.mode & (XP_ZERO_MASK | XP_CHANGE_MASK)) != 0;
  u32 end = xp_table_at(plan);
  if (plan.values != 0) {
    const XpTable table =
        xp_choose<T>(shared, xp_keys<T>(shared, chunk), chunk, sample.number, sample.symbol, sample.first);
    plan.mode |= (table.is_signed ? XP_SIGNED : 0) | (table.wide ? XP_WIDE : 0);
    if (table.hopeless && !masked) {
      return XP_MODE_LEN + chunk.raw_len;
    }
    __syncthreads();
    xp_count_escapes<T>(shared, chunk, &plan);
    const XpSplit split = xp_split<T>(chunk.element, table.is_signed);
    const XpColumns at = xp_planned_columns(plan, split);
    end = at.end;
    if (threadIdx.x == 0) {
      shared.split = split;
      shared.at = at;
    }
  }
  plan.len = end + tail_len;
  if (masked && round_up(plan.len, MGC_UNIT) >= round_up(chunk.raw_len, MGC_UNIT)) reload_chunk(chunk);
  if (threadIdx.x == 0) shared.plan = plan;
  return plan.len;
}

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

// Writes them.
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

// Writes the bytes of an octet that `mask` names, one behind the other; returns where the next one goes.
MGC_DEV u8* xp_put_chosen(u8* to, u32 mask, u32 low, u32 high) {
#pragma unroll
  for (u32 i = 0; i < 8; i++) {
    if (mask >> i & 1) *to++ = (u8)((i < 4 ? low : high) >> i % 4 * 8);
  }
  return to;
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

// How far the first tier is written.
struct XpWritten {
  u32 octets;
  u32 escapes, rare;  // among them: of this tier, and of the last
  u32 turn;           // of the sums
};

// Writes them for two octets beside each other, where all columns start on 8 bytes.
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

// Writes what xp_emit_first does as long as each thread has two octets beside each other: of values whose codes were kept and
// whose rests are whole bytes, in whole groups.
template <class T>
MGC_DEV void xp_emit_pairs(XpEncodeShared& shared, const RawChunk& chunk, const XpPlan& plan, const XpSplit& split,
                           const XpColumns& at, u8* coded, XpWritten& written) {
  constexpr u32 STEP = 2 * MGC_BLOCK_THREADS;
#pragma unroll 1
  for (; written.octets + STEP <= plan.values / 8; written.octets += STEP) {
    const u32 octet = written.octets + 2 * threadIdx.x;
    const uint4 codes = ((const uint4*)chunk.scratch)[octet / 2];
    u32 words[2][xp_words<T>()];
#pragma unroll
    for (u32 i = 0; i < 2; i++) xp_load_octet((const T*)chunk.raw + 8 * (octet + i), words[i]);
    u16* const to = (u16*)(coded + at.first + octet / 8 * 16 + octet % 8);
    const u32 low_plane = xp_pair_plane(codes, 0), high_plane = xp_pair_plane(codes, 1);
    to[0] = (u16)low_plane;
    to[4] = (u16)high_plane;
    xp_put_pair_rests<T>(coded + at.rests, plan.values, octet, words);
    const u32 escapes = low_plane & high_plane;  // their code is all ones
    u32 own = (u32)__popc(escapes), rare = 0, total;
    if (((codes.x | codes.y | codes.z | codes.w) & 0x80808080u) != 0) {
      rare = xp_pair_plane(codes, 7);
      own |= (u32)__popc(rare) << 16;
    }
    const u32 offset = xp_scan(own, shared.sums[written.turn], &total);
    u8* const next =
        xp_put_chosen(chunk.raw + written.escapes + (offset & 0xffff), escapes & 0xff, codes.x, codes.y);
    xp_put_chosen(next, escapes >> 8, codes.z, codes.w);
    if (rare != 0) {
      const u32 first = written.rare + (offset >> 16);
      xp_add_symbols<T>(coded + at.symbols, plan.k3, first, split, rare & 0xff, words[0]);
      const u32 second = first + (u32)__popc(rare & 0xff);
      xp_add_symbols<T>(coded + at.symbols, plan.k3, second, split, rare >> 8, words[1]);
    }
    written.escapes += total & 0xffff;
    written.rare += total >> 16;
    written.turn ^= 1;
  }
}

// Writes first tier, rests and symbols; the code bytes of the escapes go to the front of the raw bytes.
template <class T>
MGC_DEV void xp_emit_first(XpEncodeShared& shared, const RawChunk& chunk, const XpPlan& plan, const XpSplit& split,
                           const XpColumns& at, u8* coded) {
  const bool keeps = xp_keeps_codes<T>(plan);
  const u32 symbol_bits = xp_exponent_bits<T>(chunk.element) + 1;
  const bool is_bytes = (sizeof(T) == 2 || sizeof(T) == 4) && split.symbol_bits == 8 && !split.is_signed;
  XpWritten written = {0, 0, 0, 0};
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
    if (keeps && is_bytes && plan.values % XP_GROUP == 0) {
      xp_emit_pairs<T>(shared, chunk, plan, split, at, coded, written);
    }
  }
#pragma unroll 1
  for (; 8 * written.octets < plan.values; written.octets += MGC_BLOCK_THREADS) {
    const u32 octet = written.octets + threadIdx.x;
    u32 words[xp_words<T>()] = {}, low = 0, high = 0;
    if (8 * octet < plan.values) {
      xp_load_octet((const T*)chunk.raw + 8 * octet, words);
      if (keeps) {
        const uint2 codes = ((const uint2*)chunk.scratch)[octet];
        low = codes.x, high = codes.y;
      } else {
        xp_look_up<T>(shared, words, symbol_bits, xp_live(plan.values, octet), &low, &high);
      }
    }
    const u32 planes = xp_scaled_plane(low, high, 0) | xp_scaled_plane(low, high, 1) << 7;
    if (8 * octet < plan.values) {
      xp_put_planes(coded + at.first, plan.values, 2, octet, planes, 0);
      if (is_bytes) {
        if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
          xp_put_whole_rests<T>(coded + at.rests, plan.values, octet, words);
        }
      } else {
        xp_put_rests<T>(coded + at.rests, plan.values, octet, split, words);
      }
    }
    const u32 escapes = planes & planes >> 8, rare = xp_scaled_plane(low, high, 7) >> 7;
    u32 total;
    const u32 own = (u32)__popc(escapes) | (u32)__popc(rare) << 16;
    const u32 offset = xp_scan(own, shared.sums[written.turn], &total);
    xp_put_chosen(chunk.raw + written.escapes + (offset & 0xffff), escapes, low, high);
    if (rare != 0) {
      xp_add_symbols<T>(coded + at.symbols, plan.k3, written.rare + (offset >> 16), split, rare, words);
    }
    written.escapes += total & 0xffff;
    written.rare += total >> 16;
    written.turn ^= 1;
  }
  __syncthreads();
}

// Writes the second tier from the code bytes of the first one's escapes, and leaves those of its own.
MGC_DEV void xp_emit_second(XpEncodeShared& shared, const RawChunk& chunk, const XpPlan& plan, u8* column) {
  const u32 bits = xp_second_bits(plan.mode & XP_WIDE);
  u32 before = 0;
  for (u32 first = 0; 8 * first < plan.k1; first += MGC_BLOCK_THREADS) {
    const u32 octet = first + threadIdx.x, live = xp_live(plan.k1, octet);
    u32 low = 0, high = 0;
    if (live != 0) {
      const uint2 codes = ((const uint2*)chunk.raw)[octet];
      low = codes.x & xp_byte_mask(live), high = codes.y & xp_byte_mask(live >> 4);
    }
    const u32 escapes = xp_scaled_plane(low, high, 6) >> 6;
    const u32 ones = escapes * 0x00010101u;  // the code of an escape is all ones
    const u32 codes = xp_later_planes(low, high) | ones;
    if (live != 0) xp_put_planes(column, plan.k1, bits, octet, codes, 0);
    u32 total;
    const u32 offset = xp_scan((u32)__popc(escapes), shared.sums[2 + first / MGC_BLOCK_THREADS % 2], &total);
    xp_put_chosen(chunk.raw + before + offset, escapes, low, high);
    before += total;
  }
  __syncthreads();
}

// Writes the third tier from the code bytes of the second one's escapes.
MGC_DEV void xp_emit_third(const RawChunk& chunk, const XpPlan& plan, u8* column) {
  for (u32 octet = threadIdx.x; 8 * octet < plan.k2; octet += MGC_BLOCK_THREADS) {
    const u32 live = xp_live(plan.k2, octet);
    const uint2 codes = ((const uint2*)chunk.raw)[octet];
    const u32 planes = xp_later_planes(codes.x & xp_byte_mask(live), codes.y & xp_byte_mask(live >> 4));
    xp_put_planes(column, plan.k2, 3, octet, planes, 0);
  }
}

template <class T>
MGC_DEV void xp_emit(XpEncodeShared& shared, const RawChunk& chunk, u8* coded) {
  __syncthreads();  // What thread 0 wrote is there.
  const XpPlan& plan = shared.plan;
  const XpSplit& split = shared.split;
  const XpColumns& at = shared.at;
  const u32 room = xp_mask_room<T>(chunk), tail_len = chunk.raw_len % (u32)sizeof(T), t = threadIdx.x;
  const u32 elements = chunk.raw_len / (u32)sizeof(T);
  if (t == 0) {
    coded[0] = (u8)plan.mode;
    coded[1] = (u8)(plan.zeros.depth | plan.changes.depth << 4);
  }
  if (t < tail_len) coded[plan.len - tail_len + t] = chunk.raw[chunk.raw_len - tail_len + t];
  if ((plan.mode & XP_ZERO_MASK) != 0) {
    xp_put_mask(chunk.scratch, room, elements, plan.zeros.depth, shared.sums, coded + XP_MODE_LEN);
  }
  if ((plan.mode & XP_CHANGE_MASK) != 0) {
    u8* const to = coded + XP_MODE_LEN + plan.zeros.len;
    xp_put_mask(xp_change_levels<T>(chunk), room, plan.non_zeros, plan.changes.depth, shared.sums, to);
  }
  if (plan.values == 0) return;

  const u32 symbol_len = split.symbol_bits > 8 ? 2 : 1, table_at = xp_table_at(plan);
  const u32 table = xp_table_len(plan.mode & XP_WIDE) * symbol_len;
  if (t < at.first - table_at) {
    coded[table_at + t] = t < table ? (u8)(shared.symbols[t / symbol_len] >> t % symbol_len * 8) : 0;
  }
  for (u32 i = at.symbols + t; i < at.end; i += MGC_BLOCK_THREADS) coded[i] = 0;
  __syncthreads();
  xp_emit_first<T>(shared, chunk, plan, split, at, coded);
  if (plan.k1 == 0) return;
  xp_emit_second(shared, chunk, plan, coded + at.second);
  xp_emit_third(chunk, plan, coded + at.third);
}
