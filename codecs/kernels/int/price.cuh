// What INT's predictors cost on the sample of a chunk: 512 bytes, so that it takes the same time for all sizes.
//
// Warps share the work: each one prices every second or fourth lag on one tile of the sample, and searches short lags
// in one of its runs.
#pragma once
#include "int/words.cuh"

#define INT_RUNS 8
#define INT_RUN_LEN 64
#define INT_SAMPLE_LEN (INT_RUNS * INT_RUN_LEN)
#define INT_SHORT_LAGS 32
// Tiles of the sample.
#define INT_SAMPLE_TILES(B) (INT_SAMPLE_LEN / INT_TILE(B))
// By so many bits a predictor must beat the one before it.
#define INT_MARGIN_BITS 32

#define INT_IDENTITY 0
#define INT_ZIGZAG 1
#define INT_REVERSED 2

// The header as it is stored; the base is as wide as a word.
struct IntHeader {
  u32 fields;  // map, rotation, low bits, 0
  u32 lags;    // two, in words; 0 is none
  u64 base;
};

MGC_DEV u32 int_map(const IntHeader& header) { return header.fields & 0xff; }
MGC_DEV u32 int_rotation(const IntHeader& header) { return header.fields >> 8 & 0xff; }
MGC_DEV u32 int_patched_from(const IntHeader& header) { return header.fields >> 16 & 0xff; }
MGC_DEV u32 int_lag_a(const IntHeader& header) { return header.lags & 0xffff; }
MGC_DEV u32 int_lag_b(const IntHeader& header) { return header.lags >> 16; }
// How many lags an encoder's header has; the second one is never alone.
MGC_DEV u32 int_lags(const IntHeader& header) { return header.lags == 0 ? 0 : header.lags >> 16 == 0 ? 1 : 2; }

// The words of a chunk to encode.
struct IntSource {
  const u8* raw;
  u32 len;  // of the words, in bytes
};

// The lags that are priced, in the order in which they are tried: 1, two short ones, then 64 to 1024.
#define INT_CANDIDATES 8

// What warps find out about lags: first about one alone, then about a second one.
struct IntPrices {
  u32 bits[INT_CANDIDATES * 4];  // of each tile of the sample in turn with the first candidate, with the second ...
  u32 short_lag[2];
};

struct IntShared {
  IntHeader header;
  IntPrices prices[2];
  u32 unpredicted_bits;  // of the sample
  u32 reversed;          // the better map without prediction
  u32 short_bits[INT_RUNS][INT_SHORT_LAGS];
  u32 lengths[64 + 1];  // how many residuals of the sample have so many bits
  u64 least[MGC_BLOCK_WARPS], most[MGC_BLOCK_WARPS], any[MGC_BLOCK_WARPS];
  u64 sampled_any[4];  // by tile of the sample
};

MGC_DEV IntShared& int_shared() {
  MGC_SHARED(IntShared, shared);
  return shared;
}

template <u32 B>
MGC_DEV IntOf<B> int_word(const u8* raw, u32 index) {
  return ((const typename IntWord<B>::Type*)raw)[index];
}

MGC_DEV bool int_is_sampled(const IntSource& source) { return source.len >= INT_SAMPLE_LEN; }

// The first word of run `run`.
template <u32 B>
MGC_DEV u32 int_run_start(const IntSource& source, u32 run) {
  const u32 words = source.len / B;
  const u32 start = (2 * run + 1) * words / (2 * INT_RUNS), last = words - INT_RUN_LEN / B;
  return start < last ? start : last;
}

// The byte where this lane's register of tile `tile` of the sample starts.
template <u32 B>
MGC_DEV u32 int_sample_at(const IntSource& source, u32 tile) {
  const u32 index = 32 * tile + threadIdx.x % 32, per_run = INT_RUN_LEN / INT_BYTES(B);
  if (!int_is_sampled(source)) return index * INT_BYTES(B);
  return int_run_start<B>(source, index / per_run) * B + index % per_run * INT_BYTES(B);
}

// What the lags `a` and `b`, in words, leave of the register at byte `at`.
template <u32 B>
MGC_DEV IntOf<B> int_difference(const IntSource& source, IntOf<B> base, u32 a, u32 b, u32 at) {
  const IntOf<B> own = int_load<B>(source.raw, at);
  if (a == 0) return int_sub<B>(own, base);
  const int a_len = (int)(a * B), b_len = (int)(b * B);
  IntOf<B> left = int_sub<B>(own, int_load_before<B>(source.raw, base, (int)at - a_len));
  if (b != 0) {
    left = int_sub<B>(left, int_load_before<B>(source.raw, base, (int)at - b_len));
    left = int_add<B>(left, int_load_before<B>(source.raw, base, (int)at - a_len - b_len));
  }
  return left;
}

template <u32 B>
MGC_DEV IntOf<B> int_mapped(u32 map, IntOf<B> difference) {
  if (map == INT_ZIGZAG) return int_zigzag<B>(difference);
  return map == INT_REVERSED ? int_reversed<B>(difference) : difference;
}

// The smallest word of the sample.
template <u32 B>
MGC_DEV IntOf<B> int_least_sampled(const IntSource& source) {
  IntOf<B> least = ~(IntOf<B>)0;
#pragma unroll 1
  for (u32 tile = 0; tile < INT_SAMPLE_TILES(B); tile++) {
    const IntOf<B> words = int_load<B>(source.raw, int_sample_at<B>(source, tile));
#pragma unroll
    for (u32 i = 0; i < INT_PER_LANE(B); i++) {
      const IntOf<B> word = int_word_of<B>(words, i);
      least = word < least ? word : least;
    }
  }
  return int_warp_min(least);
}

// The bits that the sample takes without prediction, and the better map for it. A whole warp must call it.
template <u32 B>
MGC_DEV u32 int_price_words(const IntSource& source, u32* reversed) {
  const IntOf<B> least = int_splat<B>(int_least_sampled<B>(source));
  IntOf<B> any = 0;
  u32 from_top = 0, from_bottom = 0, nonzeros = 0;
#pragma unroll 1
  for (u32 tile = 0; tile < INT_SAMPLE_TILES(B); tile++) {
    const IntOf<B> words = int_sub<B>(int_load<B>(source.raw, int_sample_at<B>(source, tile)), least);
    any |= words;
    from_top += int_lengths<B>(words);
    from_bottom += int_lengths<B>(int_reversed<B>(words));
    nonzeros += int_nonzeros<B>(words);
  }
  // Down from the highest bit that any word has, not from the word's own width.
  const u32 highest = int_length<B>(int_warp_or(int_folded<B>(any)));
  from_top = __reduce_add_sync(0xffffffffu, from_top);
  from_bottom = __reduce_add_sync(0xffffffffu, from_bottom - nonzeros * (8 * B - highest));
  *reversed = from_bottom < from_top;
  return from_bottom < from_top ? from_bottom : from_top;
}

// What the lag `first` leaves of the register at byte `at`, which may be negative; 0 leaves the words.
template <u32 B>
MGC_DEV IntOf<B> int_left(const IntSource& source, IntOf<B> base, u32 first, int at) {
  const IntOf<B> words = int_load_before<B>(source.raw, base, at);
  if (first == 0) return words;
  return int_sub<B>(words, int_load_before<B>(source.raw, base, at - (int)(first * B)));
}

// The bits of two words of run `run` with the short lag that is this lane's, behind a first prediction from
// `first` words before, if that is not 0.
template <u32 B>
MGC_DEV u32 int_price_short_lag(const IntSource& source, u32 run, u32 first) {
  const u32 start = int_run_start<B>(source, run), lag = threadIdx.x % 32 + 1;
  u32 bits = 0;
#pragma unroll
  for (u32 quarter = 1; quarter < 4; quarter += 2) {
    const u32 probe = start + quarter * (INT_RUN_LEN / B) / 4;
    if (probe < first + INT_SHORT_LAGS) continue;
    IntOf<B> left = int_sub<B>(int_word<B>(source.raw, probe), int_word<B>(source.raw, probe - lag));
    if (first != 0) {
      left = int_sub<B>(left, int_word<B>(source.raw, probe - first));
      left = int_add<B>(left, int_word<B>(source.raw, probe - first - lag));
    }
    bits += int_length<B>(int_word_of<B>(int_zigzag<B>(left), 0));
  }
  return bits;
}

// Candidate `candidate` in a chunk of so many words, or 0 if there is none or it is a short one.
MGC_DEV u32 int_fixed_lag(u32 candidate, u32 words) {
  const u32 lag = 8u << candidate;
  if (candidate > 2) return 2 * lag <= words ? lag : 0;
  return candidate == 0 ? 1 : 0;
}

// The best short lag and, if `second`, the one after it. A whole warp must call it.
MGC_DEV u32 int_best_short_lag(const IntShared& shared, bool second) {
  u32 bits = 0;
#pragma unroll
  for (u32 run = 0; run < INT_RUNS; run++) bits += shared.short_bits[run][threadIdx.x % 32];
  const u32 key = bits * INT_SHORT_LAGS + threadIdx.x % 32;
  const u32 best = int_warp_min(key);
  return (second ? int_warp_min(key == best ? 0xffffffffu : key) : best) % INT_SHORT_LAGS + 1;
}

// Prices what can follow `first`, which is 0 for a first lag.
template <u32 B>
MGC_DEV void int_price_all(const IntSource& source, u32 first, IntShared& shared, IntPrices& prices) {
  constexpr u32 TILES = INT_SAMPLE_TILES(B), GROUPS = MGC_BLOCK_WARPS / TILES;
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, tile = warp % TILES, group = warp / TILES;
  const IntOf<B> base = int_splat<B>(int_word<B>(source.raw, 0));
  const int at = (int)int_sample_at<B>(source, tile);
  const IntOf<B> left = int_left<B>(source, base, first, at);
  // In any order of lags: the sum is the same.
  const auto price = [&](u32 candidate, u32 lag) {
    const IntOf<B> differences = int_sub<B>(left, int_left<B>(source, base, first, at - (int)(lag * B)));
    const u32 bits = __reduce_add_sync(0xffffffffu, int_lengths<B>(int_zigzag<B>(differences)));
    if (lane == 0) prices.bits[candidate * TILES + tile] = bits;
  };
  shared.short_bits[warp][lane] = int_price_short_lag<B>(source, warp, first);
  if (warp == 0 && first == 0) {
    u32 reversed;
    const u32 bits = int_price_words<B>(source, &reversed);
    if (lane == 0) shared.unpredicted_bits = bits;
    if (lane == 0) shared.reversed = reversed;
  }
#pragma unroll
  for (u32 first_candidate = 0; first_candidate < INT_CANDIDATES; first_candidate += GROUPS) {
    const u32 lag = int_fixed_lag(first_candidate + group, source.len / B);
    if (lag != 0) price(first_candidate + group, lag);
  }
  __syncthreads();
  if (group < (first == 0 ? 2 : 1)) {
    const u32 lag = int_best_short_lag(shared, group == 1);
    if (lane == 0 && tile == 0) prices.short_lag[group] = lag;
    price(1 + group, lag);
  }
  __syncthreads();  // Prices are told.
}
