// XP: planning a chunk.
//
// Where masks are worth it, the values that they leave out are taken out of the raw bytes, in place; a chunk that is not
// worth coding after all is loaded again. The samples give the table. Then each value is looked up once, and the escapes
// are counted: that is the length. Codes are kept in the scratch where they fit.
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
  __syncthreads();  // The sums of all warps are there.
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
