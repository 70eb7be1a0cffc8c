// How an INT chunk is coded: predictor, map, base, rotation and low bits, the same as every encoder chooses;
// FORMAT.md says how. A sample of 512 bytes decides, so this costs the same for chunks of all sizes.
//
// Warps share the work: each one prices a predictor on the whole sample and searches short lags in one of its
// runs. What they find goes through shared memory, and all threads draw the same conclusions from it.
#pragma once
#include "int_words.cuh"

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

// What warps find out about predictors: first about one lag, then about a second one.
struct IntPrices {
  u32 bits[8];  // by warp: no prediction, then the lags of int_fixed_lag
  u32 short_lag[2];
  u32 short_bits[8];  // by warp: of the first one, then of the second one, in each tile of the sample
};

struct IntShared {
  IntHeader header;
  IntPrices prices[2];
  u32 reversed;  // the better map without prediction
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

// The bits that some tiles of the sample take with one lag or two. A whole warp must call it.
template <u32 B>
MGC_DEV u32 int_price_lags(const IntSource& source, u32 a, u32 b, u32 first_tile, u32 tiles) {
  const IntOf<B> base = int_splat<B>(int_word<B>(source.raw, 0));
  u32 bits = 0;
#pragma unroll 1
  for (u32 tile = first_tile; tile < first_tile + tiles; tile++) {
    const u32 at = int_sample_at<B>(source, tile);
    bits += int_lengths<B>(int_zigzag<B>(int_difference<B>(source, base, a, b, at)));
  }
  return __reduce_add_sync(0xffffffffu, bits);
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

// The lag that every chunk tries and that warp `warp` prices, or 0.
MGC_DEV u32 int_fixed_lag(u32 warp, u32 words) {
  const u32 lag = warp <= 1 ? 1 : 32u << (warp - 1);
  if (warp == 0 || warp > 6) return 0;
  return lag == 1 || 2 * lag <= words ? lag : 0;
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
  constexpr u32 TILES = INT_SAMPLE_TILES(B);
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const u32 fixed = int_fixed_lag(warp, source.len / B);
  u32 bits = 0, lag = fixed, first_tile = 0, tiles = TILES;
  shared.short_bits[warp][lane] = int_price_short_lag<B>(source, warp, first);
  if (warp == 0 && first == 0) {
    u32 reversed;
    bits = int_price_words<B>(source, &reversed);
    if (lane == 0) shared.reversed = reversed;
  }
  // First the fixed lags, a warp for each; then the short ones, a warp for each tile.
#pragma unroll 1
  for (u32 turn = 0; turn < 2; turn++) {
    if (turn == 1) {
      const u32 place = warp / TILES;
      __syncthreads();
      lag = place < (first == 0 ? 2 : 1) ? int_best_short_lag(shared, place == 1) : 0;
      if (lane == 0 && warp % TILES == 0 && place < 2) prices.short_lag[place] = lag;
      first_tile = warp % TILES;
      tiles = 1;
    }
    // In any order of lags: the sum is the same.
    if (lag != 0) bits = int_price_lags<B>(source, lag, first, first_tile, tiles);
    if (lane == 0) (turn == 0 ? prices.bits : prices.short_bits)[warp] = bits;
  }
  __syncthreads();  // Prices are told.
}

// The lag with which the sample takes fewest bits, and the bits; 0 if none beats `*bits` by enough.
template <u32 B>
MGC_DEV u32 int_pick_lag(const IntPrices& prices, u32 short_lags, u32 words, u32* bits) {
  constexpr u32 TILES = INT_SAMPLE_TILES(B);
  u32 best = 0;
  const auto consider = [&](u32 lag, u32 price) {
    if (price + INT_MARGIN_BITS < *bits) {
      *bits = price;
      best = lag;
    }
  };
  consider(1, prices.bits[1]);
  for (u32 i = 0; i < short_lags; i++) {
    u32 price = 0;
#pragma unroll
    for (u32 tile = 0; tile < TILES; tile++) price += prices.short_bits[i * TILES + tile];
    consider(prices.short_lag[i], price);
  }
#pragma unroll
  for (u32 warp = 2; warp <= 6; warp++) {
    const u32 lag = int_fixed_lag(warp, words);
    if (lag != 0) consider(lag, prices.bits[warp]);
  }
  return best;
}

// Map and lags of a chunk that is large enough to be sampled.
template <u32 B>
MGC_DEV void int_choose_predictor(const IntSource& source, IntShared& shared, IntHeader* header) {
  u32 bits = 0, lags = 0;
#pragma unroll 1
  for (u32 round = 0; round < 2; round++) {
    const IntPrices& prices = shared.prices[round];
    int_price_all<B>(source, lags, shared, shared.prices[round]);
    if (round == 0) bits = prices.bits[0];
    const u32 lag = int_pick_lag<B>(prices, 2 - round, source.len / B, &bits);
    if (lag == 0) break;
    lags = lag < lags ? lag | lags << 16 : lags | lag << 16;
    if (round == 0) lags = lag;
  }
  header->fields = lags != 0 ? INT_ZIGZAG : shared.reversed ? INT_REVERSED : INT_IDENTITY;
  header->lags = lags;
}

// Base and rotation of a chunk without prediction, from all its words.
template <u32 B>
MGC_DEV void int_survey(const IntSource& source, IntShared& shared, IntHeader* header) {
  const IntOf<B> first_word = int_word<B>(source.raw, 0), first = int_splat<B>(first_word);
  IntOf<B> least = first_word, most = first_word, any = 0;
  for (u32 at = threadIdx.x * INT_BYTES(B); at < source.len; at += MGC_BLOCK_THREADS * INT_BYTES(B)) {
    const int left = (int)source.len - (int)at;
    const IntOf<B> words = int_first_bytes<B>(int_load<B>(source.raw, at), first, left);
    any |= words ^ first;
#pragma unroll
    for (u32 i = 0; i < INT_PER_LANE(B); i++) {
      const IntOf<B> word = int_word_of<B>(words, i);
      least = word < least ? word : least;
      most = word > most ? word : most;
    }
  }
  const u32 warp = threadIdx.x / 32;
  least = int_warp_min(least);
  most = int_warp_max(most);
  any = int_warp_or(int_folded<B>(any));
  if (threadIdx.x % 32 == 0) {
    shared.least[warp] = least;
    shared.most[warp] = most;
    shared.any[warp] = any;
  }
  __syncthreads();
#pragma unroll
  for (u32 w = 0; w < MGC_BLOCK_WARPS; w++) {
    least = (IntOf<B>)shared.least[w] < least ? (IntOf<B>)shared.least[w] : least;
    most = (IntOf<B>)shared.most[w] > most ? (IntOf<B>)shared.most[w] : most;
    any |= (IntOf<B>)shared.any[w];
  }
  header->base = least;
  // The zeros at the low end of all offsets are where words do not differ; those at the high end are the
  // largest one's.
  const IntOf<B> lowest = any & (0 - any);
  const u32 low_zeros = any == 0 ? 0 : int_length<B>(lowest) - 1;
  const u32 high_zeros = (8 * B - int_length<B>((IntOf<B>)(most - least))) % (8 * B);
  header->fields |= (int_map(*header) == INT_IDENTITY ? low_zeros : high_zeros) << 8;
}

// The number of low bits that is cheapest if the sample were one block, from the counts of its `total` lengths,
// of which `longest` is the largest. A whole warp must call it.
template <u32 B>
MGC_DEV u32 int_cheapest_low_bits(const u32* lengths, u32 total, u32 longest) {
  u32 best = 0xffffffffu, longer = total;
#pragma unroll
  for (u32 first = 0; first < 8 * B; first += 32) {
    const u32 bits = first + threadIdx.x % 32;
    const u32 up_to = warp_scan(lengths[bits]);
    const u32 price = total * (bits + 1) + 8 * (longer - up_to) * ((longest - bits + 7) / 8);
    const u32 key = price * 64 + bits;
    if (bits < longest && key < best) best = key;
    longer -= __shfl_sync(0xffffffffu, up_to, 31);
  }
  best = int_warp_min(best);
  if (best / 64 < total * longest) return best % 64;
  return longest < 8 * B ? longest : 8 * B - 1;
}

// The mapped differences in this lane's register of tile `tile` of the sample; zero where no words are.
template <u32 B>
MGC_DEV IntOf<B> int_sampled(const IntSource& source, const IntHeader& header, u32 at) {
  if (at >= source.len) return 0;
  const IntOf<B> base = int_splat<B>((IntOf<B>)header.base);
  const IntOf<B> left = int_difference<B>(source, base, int_lag_a(header), int_lag_b(header), at);
  return int_first_bytes<B>(int_mapped<B>(int_map(header), left), 0, (int)source.len - (int)at);
}

// Completes the header by what the sample's residuals say; a warp looks at each tile.
template <u32 B>
MGC_DEV void int_finish_header(const IntSource& source, IntHeader& header, IntShared& shared) {
  constexpr u32 TILES = INT_SAMPLE_TILES(B);
  const u32 warp = threadIdx.x / 32;
  IntOf<B> mapped = 0, any = 0;
  u32 at = 0;
  if (warp < TILES) {
    at = int_sample_at<B>(source, warp);
    mapped = int_sampled<B>(source, header, at);
    any = int_warp_or(int_folded<B>(mapped));
    if (threadIdx.x % 32 == 0) shared.sampled_any[warp] = any;
  }
  __syncthreads();
  any = 0;
#pragma unroll
  for (u32 tile = 0; tile < TILES; tile++) any |= (IntOf<B>)shared.sampled_any[tile];
  if (header.lags != 0 && any != 0) {
    const IntOf<B> lowest = any & (0 - any);
    header.fields |= (int_length<B>(lowest) - 1) << 8;
  }
  const u32 rotation = int_rotation(header);
  const IntOf<B> residuals = int_rotated<B>(mapped, rotation);
#pragma unroll
  for (u32 i = 0; i < INT_PER_LANE(B); i++) {
    if (warp >= TILES || at + i * B >= source.len) continue;
    atomicAdd(&shared.lengths[int_length<B>(int_word_of<B>(residuals, i))], 1u);
  }
  __syncthreads();
  const u32 longest = any == 0 ? 0 : int_length<B>(int_rotated<B>(any, rotation));
  const u32 total = int_is_sampled(source) ? INT_SAMPLE_LEN / B : source.len / B;
  header.fields |= int_cheapest_low_bits<B>(shared.lengths, total, longest) << 16;
}

// How to code the words, of which there must be one at least; also in `int_shared().header`, once there was a
// barrier. All threads must call it.
template <u32 B>
MGC_DEV IntHeader int_choose(const IntSource& source) {
  IntShared& shared = int_shared();
  IntHeader header = {INT_IDENTITY, 0, int_word<B>(source.raw, 0)};
  if (threadIdx.x <= 64) shared.lengths[threadIdx.x] = 0;
  if (int_is_sampled(source)) int_choose_predictor<B>(source, shared, &header);
  if (header.lags == 0) int_survey<B>(source, shared, &header);
  int_finish_header<B>(source, header, shared);
  if (threadIdx.x == 0) shared.header = header;
  return header;
}
