// How an INT chunk is coded: predictor, map, base, rotation and low bits, the same as every encoder chooses;
// FORMAT.md says how. What warps find out goes through shared memory, and all threads draw the same conclusions
// from it.
#pragma once
#include "int/price.cuh"

// The lag with which the sample takes fewest bits, and the bits; 0 if none beats `*bits` by enough. A whole warp must
// call it.
template <u32 B>
MGC_DEV u32 int_pick_lag(const IntPrices& prices, u32 short_lags, u32 words, u32* bits) {
  constexpr u32 TILES = INT_SAMPLE_TILES(B);
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32, candidate = lane / TILES;
  u32 lag = candidate < INT_CANDIDATES ? int_fixed_lag(candidate, words) : 0;
  if (candidate - 1 < short_lags) lag = prices.short_lag[candidate - 1];
  u32 price = lag != 0 ? prices.bits[lane] : 0;
#pragma unroll
  for (u32 distance = 1; distance < TILES; distance *= 2) price += __shfl_xor_sync(all, price, distance);
  // Each step takes the first one that beats the best before it: those ahead of it did not, and never will.
  for (u32 best = 0;;) {
    const u32 better = __ballot_sync(all, lag != 0 && price + INT_MARGIN_BITS < *bits);
    if (better == 0) return best;
    const int first = __ffs((int)better) - 1;
    best = __shfl_sync(all, lag, first);
    *bits = __shfl_sync(all, price, first);
  }
}

// Map and lags of a chunk that is large enough to be sampled.
template <u32 B>
MGC_DEV void int_choose_predictor(const IntSource& source, IntShared& shared, IntHeader* header) {
  u32 bits = 0, lags = 0;
#pragma unroll 1
  for (u32 round = 0; round < 2; round++) {
    int_price_all<B>(source, lags, shared, shared.prices[round]);
    if (round == 0) bits = shared.unpredicted_bits;
    const u32 lag = int_pick_lag<B>(shared.prices[round], 2 - round, source.len / B, &bits);
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

// Completes the header by what the sample's residuals say; a warp looks at each tile. It is in `shared` afterwards.
template <u32 B>
MGC_DEV void int_finish_header(const IntSource& source, IntHeader header, IntShared& shared) {
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
  if (warp == 0) {
    const u32 longest = any == 0 ? 0 : int_length<B>(int_rotated<B>(any, rotation));
    const u32 total = int_is_sampled(source) ? INT_SAMPLE_LEN / B : source.len / B;
    header.fields |= int_cheapest_low_bits<B>(shared.lengths, total, longest) << 16;
    if (threadIdx.x == 0) shared.header = header;
  }
  __syncthreads();  // The header is told.
}

// How to code the words, of which there must be one at least; also in `int_shared().header`. All threads must call it.
template <u32 B>
MGC_DEV IntHeader int_choose(const IntSource& source) {
  IntShared& shared = int_shared();
  IntHeader header = {INT_IDENTITY, 0, int_word<B>(source.raw, 0)};
  if (threadIdx.x <= 64) shared.lengths[threadIdx.x] = 0;
  if (int_is_sampled(source)) int_choose_predictor<B>(source, shared, &header);
  if (header.lags == 0) int_survey<B>(source, shared, &header);
  int_finish_header<B>(source, header, shared);
  return shared.header;
}
