// INT, encoding: the length of each block, its place, and its planes and patches.
//
// The residuals are computed twice, to measure and to write, which takes fewer instructions than to keep them
// takes shared memory. A warp works on one tile at a time, a lane on one register of it.
#pragma once
#include "int/choose.cuh"
#include "int/planes.cuh"

// Bytes of scratch for each KiB of the chunk: a word and a byte for each block, which has 32 raw bytes or more.
#define INT_ENCODE_SCRATCH 160

// What is to be written about the blocks; entries behind the last block say that it is empty.
struct IntBlocks {
  u32* places;  // at first what int_measure says of the longest residual; then the planes before the block, and
                // the bytes of patches before it from bit 16 on
  u8* codes;    // at first how many residuals would be patched
};

MGC_DEV IntBlocks int_blocks(const RawChunk& chunk) {
  return {(u32*)chunk.scratch, chunk.scratch + (chunk.capacity >> 5) * 4};
}

template <u32 B>
MGC_DEV IntSource int_source(const RawChunk& chunk) {
  return {chunk.raw, chunk.raw_len / B * B};
}

// In each round, each warp has a tile. All of them go through all rounds, since the compiler then knows that
// lanes of a warp are together; a whole number of rounds always fits into the smallest chunk size.
template <u32 B>
MGC_DEV u32 int_rounds(u32 words_len) {
  return (words_len + MGC_BLOCK_WARPS * INT_TILE(B) - 1) / (MGC_BLOCK_WARPS * INT_TILE(B));
}
static_assert((1 << MGC_MIN_CHUNK_LOG2) % (MGC_BLOCK_WARPS * INT_TILE(8)) == 0, "rounds fit");

MGC_DEV u32 int_tile(u32 round) { return round * MGC_BLOCK_WARPS + threadIdx.x / 32; }

#define INT_BLOCKS_PER_TILE(B) INT_PER_LANE(B)

template <u32 B>
MGC_DEV u32 int_codes_len(u32 words) {
  const u32 blocks = (words + 31) / 32;
  return B == 1 ? (blocks + 1) / 2 : blocks;
}

// Where planes start.
template <u32 B>
MGC_DEV u32 int_planes_offset(u32 words) {
  return round_up(8 + B + int_codes_len<B>(words), 4);
}

// What the rounds need of the header, in registers.
struct IntRounds {
  u32 count;
  u32 first_whole, whole;  // rounds in which all warps' tiles are whole, as are those that they are predicted from
  u32 rotation, low_bits;
};

template <u32 B>
MGC_DEV IntRounds int_all_rounds(const IntSource& source, const IntHeader& header) {
  const u32 round_len = MGC_BLOCK_WARPS * INT_TILE(B), before = (int_lag_a(header) + int_lag_b(header)) * B;
  const u32 first = (before + round_len - 1) / round_len, end = source.len / round_len;
  const u32 rotation = in_register(int_rotation(header)), low_bits = in_register(int_patched_from(header));
  return {int_rounds<B>(source.len), first, first < end ? end - first : 0, rotation, low_bits};
}

// What the lags leave of this lane's register at byte `at`, where nothing is missing.
template <u32 B, u32 LAGS>
MGC_DEV IntOf<B> int_whole_difference(const IntSource& source, const IntHeader& header, IntOf<B> base, u32 at) {
  const u32 a = int_lag_a(header), b = int_lag_b(header);
  const u8* const own = source.raw + at;
  IntOf<B> left = int_sub<B>(*(const IntOf<B>*)own, LAGS == 0 ? base : int_load_back<B>(own, a * B));
  if (LAGS == 2) {
    left = int_sub<B>(left, int_load_back<B>(own, b * B));
    left = int_add<B>(left, int_load_back<B>(own, (a + b) * B));
  }
  return left;
}

// This lane's residuals of its warp's tile in round `round`, with LAGS lags; those behind the last word are zero.
template <u32 B, u32 LAGS>
MGC_DEV IntOf<B> int_residuals(const IntSource& source, const IntHeader& header, const IntRounds& rounds,
                               u32 round) {
  const IntOf<B> base = int_splat<B>((IntOf<B>)header.base);
  const u32 at = (round * MGC_BLOCK_THREADS + threadIdx.x) * INT_BYTES(B);
  IntOf<B> left;
  if (round - rounds.first_whole < rounds.whole) {
    left = int_whole_difference<B, LAGS>(source, header, base, at);
  } else {
    // Words that are not there are what they are predicted to be.
    const u32 a = int_lag_a(header), b = int_lag_b(header);
    left = at < source.len ? int_difference<B>(source, base, LAGS == 0 ? 0 : a, LAGS < 2 ? 0 : b, at) : 0;
    left = int_first_bytes<B>(left, 0, (int)source.len - (int)at);
  }
  const u32 map = LAGS != 0 ? INT_ZIGZAG : int_map(header);
  return int_rotated<B>(int_mapped<B>(map, left), rounds.rotation);
}

// Measures the blocks of a tile: the length of their longest residuals, and how many are longer than
// `low_bits`. Registers of 32 bits or-ed stand for the length. A whole warp must call it.
template <u32 B>
MGC_DEV void int_measure(IntOf<B> residuals, u32 low_bits, u32 tile, const IntBlocks& blocks) {
  const u32 all = 0xffffffffu;
  const IntOf<B> patches = residuals & ~int_low_bits<B>(low_bits);
  u32 longest, count;
  if (B >= 4) {
    const IntOf<B> any = int_warp_or(residuals);
    longest = B == 8 ? int_length<B>(any) : (u32)any;
    count = (u32)__popc(__ballot_sync(all, patches != 0));
  } else {
    longest = (u32)residuals;
    count = int_nonzeros<B>(patches);
#pragma unroll
    for (u32 distance = INT_BLOCK_LANES(B) / 2; distance > 0; distance /= 2) {
      longest |= __shfl_xor_sync(all, longest, distance);
      count += __shfl_xor_sync(all, count, distance);
    }
  }
  if (int_first_word<B>() != 0) return;
  const u32 block = tile * INT_BLOCKS_PER_TILE(B) + threadIdx.x % 32 / INT_BLOCK_LANES(B);
  blocks.places[block] = longest;
  blocks.codes[block] = (u8)count;
}

template <u32 B, u32 LAGS>
MGC_DEV void int_measure_all(const IntSource& source, const IntHeader& header, const IntBlocks& blocks) {
  const IntRounds rounds = int_all_rounds<B>(source, header);
#pragma unroll 1
  for (u32 round = 0; round < rounds.count; round++) {
    const IntOf<B> residuals = int_residuals<B, LAGS>(source, header, rounds, round);
    int_measure<B>(residuals, rounds.low_bits, int_tile(round), blocks);
  }
}

// What of a block is stored.
struct IntForm {
  u32 code;
  u32 planes;
  u32 patch_bytes;
};

// The cheaper form of a block that has been measured, or the one without patches.
template <u32 B>
MGC_DEV IntForm int_form(const IntBlocks& blocks, u32 block, u32 low_bits, bool may_patch) {
  const u32 measure = blocks.places[block], patches = blocks.codes[block];
  const u32 longest = B == 8 ? measure : int_length<4>((u32)int_folded<B>(measure));
  const u32 patch_len = (longest - low_bits + 7) / 8, patch_bytes = patches * patch_len;
  const bool shorter = longest > low_bits && 4 * (low_bits + 1) + patch_bytes < 4 * longest;
  if (shorter && may_patch) return {8 * B + patch_len, low_bits + 1, patch_bytes};
  return {longest, longest, 0};
}

// Finds the form and place of every block. Returns the planes of all blocks, and the bytes of their patches from
// bit 16 on: in a chunk of 64 KiB there are at most 2^14 planes and less than 2^16 bytes of patches.
template <u32 B>
MGC_DEV u32 int_place(const IntSource& source, u32 low_bits, const IntBlocks& blocks) {
  ScanShared<u32>& scan = int_scan();
  const u32 count = int_rounds<B>(source.len) * MGC_BLOCK_WARPS * INT_BLOCKS_PER_TILE(B);
  const u32 per_thread = (count + MGC_BLOCK_THREADS - 1) / MGC_BLOCK_THREADS;
  const u32 first = threadIdx.x * per_thread;
  const u32 end = first + per_thread < count ? first + per_thread : count;
  const u32 most_patch_bytes = source.len / 2;

  u32 own = 0;
#pragma unroll 1
  for (u32 i = first; i < end; i++) {
    const IntForm form = int_form<B>(blocks, i, low_bits, true);
    own += form.planes | form.patch_bytes << 16;
  }
  u32 total;
  u32 before = block_scan(own, scan, &total);
  const u32 wanted_before = before >> 16;
  if (total >> 16 > most_patch_bytes) {
    // Rare: from some block on there is no room for patches. Those count on, so that all later ones see it.
    u32 wanted = wanted_before;
    own = 0;
  #pragma unroll 1
  for (u32 i = first; i < end; i++) {
      wanted += int_form<B>(blocks, i, low_bits, true).patch_bytes;
      const IntForm form = int_form<B>(blocks, i, low_bits, wanted <= most_patch_bytes);
      own += form.planes | form.patch_bytes << 16;
    }
    before = block_scan(own, scan, &total);
  }
  u32 wanted = wanted_before;
#pragma unroll 1
  for (u32 i = first; i < end; i++) {
    IntForm form = int_form<B>(blocks, i, low_bits, true);
    wanted += form.patch_bytes;
    if (wanted > most_patch_bytes) form = int_form<B>(blocks, i, low_bits, false);
    blocks.codes[i] = (u8)form.code;
    blocks.places[i] = before;
    before += form.planes | form.patch_bytes << 16;
  }
  __syncthreads();
  return total;
}

// Chooses how to code the chunk and finds the place of each block. Returns the length of the code.
template <u32 B>
MGC_DEV u32 int_plan_chunk(const RawChunk& chunk, u32* total) {
  const IntSource source = int_source<B>(chunk);
  const IntBlocks blocks = int_blocks(chunk);
  const u32 tail_len = chunk.raw_len - source.len;
  *total = 0;
  if (source.len == 0) return int_planes_offset<B>(0) + tail_len;  // longer than the chunk

  const IntHeader header = int_choose<B>(source);
  switch (int_lags(header)) {
    case 0: int_measure_all<B, 0>(source, header, blocks); break;
    case 1: int_measure_all<B, 1>(source, header, blocks); break;
    default: int_measure_all<B, 2>(source, header, blocks); break;
  }
  __syncthreads();  // All blocks are measured.
  *total = int_place<B>(source, int_patched_from(header), blocks);
  return int_planes_offset<B>(source.len / B) + 4 * (*total & 0xffff) + (*total >> 16) + tail_len;
}

template <u32 B>
MGC_DEV void int_put_header(const IntHeader& header, u8* coded) {
  *(uint2*)coded = make_uint2(header.fields, header.lags);
  *(typename IntWord<B>::Type*)(coded + 8) = (typename IntWord<B>::Type)header.base;
}

// The codes, and the padding behind them.
template <u32 B>
MGC_DEV void int_put_codes(const u8* codes, u32 words, u8* coded) {
  const u32 len = int_codes_len<B>(words), padded_len = int_planes_offset<B>(words) - 8 - B;
  for (u32 i = threadIdx.x; i < padded_len; i += MGC_BLOCK_THREADS) {
    const u32 code = i >= len ? 0 : B == 1 ? codes[2 * i] | codes[2 * i + 1] << 4 : codes[i];
    coded[8 + B + i] = (u8)code;
  }
}

// Bit i of the result: whether word i of this lane's block is not zero from bit `low_bits` on. `plane` is what
// int_to_planes gave of `residuals`. A whole warp must call it.
template <u32 B>
MGC_DEV u32 int_marks(IntOf<B> residuals, u32 plane, u32 low_bits) {
  const u32 all = 0xffffffffu;
  if (B >= 4) return __ballot_sync(all, (residuals & ~int_low_bits<B>(low_bits)) != 0);
  u32 marks = int_plane<B>() >= low_bits ? plane : 0;
#pragma unroll
  for (u32 distance = INT_BLOCK_LANES(B) / 2; distance > 0; distance /= 2) {
    marks |= __shfl_xor_sync(all, marks, distance);
  }
  return marks;
}

// Writes this lane's patches, of `patch_len` bytes each; those of its block start at `patches`.
template <u32 B>
MGC_DEV void int_put_patches(IntOf<B> residuals, u32 low_bits, u32 marks, u32 patch_len, u8* patches) {
  const u32 word = int_first_word<B>();
  u8* to = patches + (u32)__popc(marks & ((1u << word) - 1)) * patch_len;
#pragma unroll
  for (u32 i = 0; i < INT_PER_LANE(B); i++) {
    if ((marks >> (word + i) & 1) == 0) continue;
    const IntOf<B> patch = int_word_of<B>(residuals, i) >> low_bits;
#pragma unroll
    for (u32 byte = 0; byte < B; byte++) {
      if (byte < patch_len) to[byte] = (u8)(patch >> 8 * byte);
    }
    to += patch_len;
  }
}

// Writes the planes and patches of the warp's tile in round `round`.
template <u32 B, u32 LAGS>
MGC_DEV void int_put_tile(const IntSource& source, const IntHeader& header, const IntBlocks& blocks,
                          const IntRounds& rounds, const IntSwaps& swaps, u32 round, u32* planes, u8* patches) {
  const u32 all = 0xffffffffu, plane = int_plane<B>();
  const u32 block = int_tile(round) * INT_BLOCKS_PER_TILE(B) + threadIdx.x % 32 / INT_BLOCK_LANES(B);
  const u32 code = blocks.codes[block], place = blocks.places[block];
  if (!__any_sync(all, code != 0)) return;

  const bool patched = code > 8 * B;
  const u32 count = patched ? rounds.low_bits : code;
  u32* const to = planes + (place & 0xffff);
  const IntOf<B> residuals = int_residuals<B, LAGS>(source, header, rounds, round);
  const u32 low = int_to_planes<B>((u32)residuals, swaps);
  if (plane < count) to[plane] = low;
  if (B == 8 && __any_sync(all, count > 32)) {
    const u32 high = int_to_planes<B>((u32)((u64)residuals >> 32), swaps);
    if (32 + plane < count) to[32 + plane] = high;
  }
  if (!__any_sync(all, patched)) return;
  const u32 marks = int_marks<B>(residuals, low, rounds.low_bits);
  if (!patched) return;
  if (int_first_word<B>() == 0) to[count] = marks;
  int_put_patches<B>(residuals, rounds.low_bits, marks, code - 8 * B, patches + (place >> 16));
}

template <u32 B, u32 LAGS>
MGC_DEV void int_put_all(const IntSource& source, const IntHeader& header, const IntBlocks& blocks, u32* planes,
                         u8* patches) {
  const IntSwaps swaps = int_swaps<B>();
  const IntRounds rounds = int_all_rounds<B>(source, header);
#pragma unroll 1
  for (u32 round = 0; round < rounds.count; round++) {
    int_put_tile<B, LAGS>(source, header, blocks, rounds, swaps, round, planes, patches);
  }
}

// Writes the code of a chunk that int_plan_chunk gave `total` for.
template <u32 B>
MGC_DEV void int_emit_chunk(const RawChunk& chunk, u32 total, u8* coded) {
  const IntSource source = int_source<B>(chunk);
  const IntBlocks blocks = int_blocks(chunk);
  const IntHeader header = int_shared().header;
  u32* const planes = (u32*)(coded + int_planes_offset<B>(source.len / B));
  u8* const patches = (u8*)(planes + (total & 0xffff));
  u8* const tail = patches + (total >> 16);

  if (threadIdx.x == 0) int_put_header<B>(header, coded);
  int_put_codes<B>(blocks.codes, source.len / B, coded);
  switch (int_lags(header)) {
    case 0: int_put_all<B, 0>(source, header, blocks, planes, patches); break;
    case 1: int_put_all<B, 1>(source, header, blocks, planes, patches); break;
    default: int_put_all<B, 2>(source, header, blocks, planes, patches); break;
  }
  const u32 at = source.len + threadIdx.x;
  if (at < chunk.raw_len) tail[threadIdx.x] = chunk.raw[at];
}
