// XP: what an encoder decides from a sample of the values: masks or not, sign with exponent or not, and the
// table of symbols. All of it is integers; a thread has one sample.
//
// Symbols are counted as sign and exponent together. What becomes of a symbol is then written over its count,
// one byte that tells all about its code:
//   bits 0-1  code in the first tier, 3 = escape
//   bits 2-4  code in the second tier, or for an escape of that the one in the third; 7 = escape of the third
//   bits 5-7  escapes of the first, the second, the third tier
// The byte is kept inverted, so that a symbol that was never counted, and has no code, is right as it is.
#pragma once
#include "xp/mask.cuh"

// The most samples: what a byte counts.
#define XP_MAX_SAMPLES 255
// Every how many-eth sample is compared with the value before it.
#define XP_PROBE 4
// Symbols of up to 12 bits, sign included.
#define XP_SYMBOLS 4096
// Samples have at most so many different symbols, and a group of four keys.
#define XP_KEYS 256

// What is planned for a chunk.
struct XpPlan {
  u32 len;          // in bytes
  u32 values;  // that the masks leave
  u32 mode;
  XpMask zeros, changes;
  u32 non_zeros;  // bits of the change mask
  u32 k1, k2, k3;  // escapes of the tiers
};

// What all threads know of a chunk and none has registers for, and what they work on together.
struct XpEncodeShared {
  XpPlan plan;
  XpSplit split;
  XpColumns at;
  // Counts of symbols, then what their codes are, inverted.
  union {
    u8 codes[XP_SYMBOLS];
    u32 counts[XP_SYMBOLS / 4];
    uint4 units[XP_SYMBOLS / 16];
  };
  u32 distinct;              // symbols in the sample
  u32 top_counts[32];        // counts of the commonest symbols, by rank
  u32 symbols[XP_MAX_TABLE + 1];  // the table
  XpSums sums[4];
};

// The value that the calling thread takes as a sample, if there are so many; samples are spread evenly. The last thread
// never finds one, because XP_MAX_SAMPLES strides lead behind all values.
MGC_DEV u32 xp_sample_at(u32 count) {
  const u32 stride = (count / XP_MAX_SAMPLES + 1) | 1;
  return stride / 2 + threadIdx.x * stride;
}

// Room for the keys of the symbols in a sample; see xp_choose.
template <class T>
MGC_DEV u32* xp_keys(XpEncodeShared& shared, const RawChunk& chunk) {
  // Narrow elements have few symbols, 64-bit elements small masks.
  if (sizeof(T) < 8) return shared.counts + XP_SYMBOLS / 8;
  return (u32*)(chunk.scratch + (chunk.capacity >> 10) * 512) - XP_KEYS;
}

// Zeroes counts and keys. What comes before it and after it is separated by barriers.
template <class T>
MGC_DEV void xp_clear_counts(XpEncodeShared& shared, const RawChunk& chunk) {
  const u32 t = threadIdx.x;
  if (sizeof(T) == 8 || t < 32) shared.units[t] = make_uint4(0, 0, 0, 0);
  xp_keys<T>(shared, chunk)[t] = 0;
  if (t == 0) shared.distinct = 0;
}

// Counts `symbol` for each thread that has one; true in exactly one thread for each symbol.
MGC_DEV bool xp_count(XpEncodeShared& shared, bool has, u32 symbol) {
  const u32 peers = __match_any_sync(0xffffffffu, has ? symbol : XP_SYMBOLS);
  if (!has || (peers & lanemask_lt()) != 0) return false;
  const u32 shift = symbol % 4 * 8;
  const u32 before = atomicAdd(&shared.counts[symbol / 4], (u32)__popc(peers) << shift);
  return (before >> shift & 0xff) == 0;
}

// What is decided of the values of a chunk.
struct XpTable {
  bool is_signed;
  bool wide;
  bool hopeless;  // codes are no shorter than symbols
};

// The byte for the symbol of a rank, inverted.
MGC_DEV u8 xp_code_of_rank(u32 rank, bool wide) {
  const u32 third = XP_TIER_1 + xp_second_tier(wide);
  u32 code = 0xff;
  if (rank < XP_TIER_1) code = rank;
  else if (rank < third) code = 3 | (rank - XP_TIER_1) << 2 | 1 << 5;
  else if (rank < third + XP_TIER_3) code = 3 | (rank - third) << 2 | 3 << 5;
  return (u8)~code;
}

// Lists a key for each different symbol: its count, and below it the symbol so that of equal counts the lower
// symbol has the higher key. All have 12 bits at most.
MGC_DEV void xp_list_key(XpEncodeShared& shared, u32* keys, bool lists, u32 count, u32 symbol) {
  const u32 listing = __ballot_sync(0xffffffffu, lists);
  if (listing == 0) return;
  u32 first = 0;
  if (threadIdx.x % 32 == 0) first = atomicAdd(&shared.distinct, (u32)__popc(listing));
  first = __shfl_sync(0xffffffffu, first, 0);
  if (lists) keys[first + __popc(listing & lanemask_lt())] = count << 12 | (XP_SYMBOLS - 1 - symbol);
}

// How many keys are higher than `own`.
MGC_DEV u32 xp_rank(const u32* keys, u32 number, u32 own) {
  u32 rank = 0;
  for (u32 i = 0; i < number; i += 4) {
    const uint4 four = *(const uint4*)(keys + i);
    rank += (four.x > own ? 1 : 0) + (four.y > own ? 1 : 0) + (four.z > own ? 1 : 0) + (four.w > own ? 1 : 0);
  }
  return rank;
}

// Decides on the tiers from the counts of the commonest symbols. Every warp does so for itself.
MGC_DEV void xp_choose_tiers(const XpEncodeShared& shared, u32 samples, u32 symbol_bits, XpTable* table) {
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32;
  const u32 number = shared.distinct < XP_MAX_TABLE ? shared.distinct : XP_MAX_TABLE;
  const u32 sums = warp_scan(lane < number ? shared.top_counts[lane] : 0);
  const u32 left_3 = samples - __shfl_sync(all, sums, 2), left_6 = samples - __shfl_sync(all, sums, 5);
  const u32 left_10 = samples - __shfl_sync(all, sums, 9), left_13 = samples - __shfl_sync(all, sums, 12);
  const u32 left_17 = samples - __shfl_sync(all, sums, 16);
  const u32 narrow = 2 * samples + 2 * left_3 + 3 * left_6 + symbol_bits * left_13;
  const u32 wide = 2 * samples + 3 * left_3 + 3 * left_10 + symbol_bits * left_17;
  table->wide = wide < narrow;
  table->hopeless = (table->wide ? wide : narrow) >= samples * symbol_bits;
}

// Writes the byte for a symbol; where the sign does not count, for both signs.
MGC_DEV void xp_put_code(XpEncodeShared& shared, const XpSplit& split, u32 symbol, u8 code) {
  shared.codes[symbol] = code;
  if (!split.is_signed) shared.codes[symbol | 1u << split.symbol_bits] = code;
}

// Fills the table up with the symbols below the commonest that are not in it, then with zeros. For one warp.
// Of 16 below, at most as many are in it as there are symbols in it beside the commonest.
MGC_DEV void xp_fill(XpEncodeShared& shared, const XpSplit& split, bool wide) {
  const u32 lane = threadIdx.x % 32, number = shared.distinct, len = xp_table_len(wide);
  if (number >= len) return;
  const u32 symbols = 1u << split.symbol_bits;
  const u32 symbol = (shared.symbols[0] + symbols - lane - 1) & (symbols - 1);
  bool fits = lane + 1 < symbols;
  for (u32 i = 1; i < number; i++) fits = fits && shared.symbols[i] != symbol;
  const u32 fitting = __ballot_sync(0xffffffffu, fits);
  const u32 rank = number + __popc(fitting & lanemask_lt()), end = number + __popc(fitting);
  if (fits && rank < len) {
    shared.symbols[rank] = symbol;
    xp_put_code(shared, split, symbol, xp_code_of_rank(rank, wide));
  }
  if (lane >= end && lane < len) shared.symbols[lane] = 0;
}

// Makes the table from the samples, of which each thread below `samples` has the symbol `symbol`, sign
// included; `first` says who counted it first. They are counted, and a barrier is behind that. All bytes of
// `codes` and the table are there behind the next barrier.
template <class T>
MGC_DEV XpTable xp_choose(XpEncodeShared& shared, u32* keys, const RawChunk& chunk, u32 samples, u32 symbol,
                          bool first) {
  const u32 t = threadIdx.x;
  XpTable table;
  XpSplit split = xp_split<T>(chunk.element, false);
  const u32 sign = 1u << split.symbol_bits;
  u32 count = 0, opposite = 0;
  if (t < samples) {
    count = shared.codes[symbol];
    opposite = shared.codes[symbol ^ sign];
  }
  // Samples of the commoner sign less those of the rarer one: the sum of the differences of all exponents.
  const u32 votes = (count > opposite ? 1u : 0) | (count < opposite ? 1u << 16 : 0);
  const u32 sum = xp_sum(votes, shared.sums[1]);
  table.is_signed = 2 * ((sum & 0xffff) - (sum >> 16)) > samples + 16;
  split = xp_split<T>(chunk.element, table.is_signed);

  if (!table.is_signed) {
    first = first && (symbol < sign || opposite == 0);
    count += opposite;
    symbol &= sign - 1;
  }
  xp_list_key(shared, keys, first, count, symbol);
  __syncthreads();
  const u32 number = shared.distinct;
  u32 own = 0, rank = 0;
  if (t < number) {
    own = keys[t];
    rank = xp_rank(keys, number, own);
    if (rank < XP_MAX_TABLE) {
      shared.symbols[rank] = XP_SYMBOLS - 1 - own % XP_SYMBOLS;
      shared.top_counts[rank] = own / XP_SYMBOLS;
    }
  }
  __syncthreads();
  xp_choose_tiers(shared, samples, split.symbol_bits, &table);
  if (t < number) xp_put_code(shared, split, XP_SYMBOLS - 1 - own % XP_SYMBOLS, xp_code_of_rank(rank, table.wide));
  if (t < 32) xp_fill(shared, split, table.wide);
  return table;
}
