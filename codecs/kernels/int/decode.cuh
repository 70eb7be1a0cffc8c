// INT, decoding: codes give the places of planes, their marks those of patches; then all tiles decode at once, and
// what predictions took away is put back by sums over the chunk.
#pragma once
#include "int/encode.cuh"
#include "int/sums.cuh"

// Bytes of scratch for each KiB of the chunk: the words, and a place for each block.
#define INT_DECODE_SCRATCH 1152

// The parts of a coded chunk, while they are checked and later.
struct IntCoded {
  IntHeader header;
  u32 words;
  u32 blocks;
  u32 planes_at;   // in bytes, as the others
  u32 patches_at;
  u32 end;
};

template <u32 B>
MGC_DEV u32 int_code_at(const u8* stored, u32 block) {
  const u8* const codes = stored + 8 + B;
  return B == 1 ? codes[block / 2] >> block % 2 * 4 & 15 : codes[block];
}

// Planes of a block, its marks included. A code without a meaning has none.
template <u32 B>
MGC_DEV u32 int_planes_of(u32 code, u32 low_bits) {
  return code <= 8 * B ? code : code <= 9 * B ? low_bits + 1 : 0;
}

template <u32 B>
MGC_DEV u32 int_read_header(const u8* stored, IntHeader* header) {
  *header = {((const u32*)stored)[0], ((const u32*)stored)[1], int_word<B>(stored + 8, 0)};
  const bool rotates = int_rotation(*header) < 8 * B && int_patched_from(*header) < 8 * B;
  const bool good = rotates && int_map(*header) <= INT_REVERSED && header->fields >> 24 == 0;
  return good ? MGC_GOOD : MGC_BAD_CHUNK_FIELD;
}

// Checks what stands between the codes and the planes: an unused half byte, and padding.
template <u32 B>
MGC_DEV u32 int_check_codes_end(const u8* stored, const IntCoded& at) {
  const u32 end = 8 + B + int_codes_len<B>(at.words), byte = end + threadIdx.x;
  if (byte < at.planes_at && stored[byte] != 0) return MGC_BAD_CHUNK_PADDING;
  return B == 1 && at.blocks % 2 != 0 && stored[end - 1] >> 4 != 0 ? MGC_BAD_CHUNK_PADDING : MGC_GOOD;
}

// Checks that the planes of a last block that is not full are zero past the last word.
template <u32 B>
MGC_DEV u32 int_check_unused_bits(const u8* stored, const IntCoded& at) {
  const u32 used = at.words % 32, last = int_code_at<B>(stored, at.blocks - 1);
  if (used == 0 || threadIdx.x >= int_planes_of<B>(last, int_patched_from(at.header))) return MGC_GOOD;
  const u32 plane = ((const u32*)(stored + at.patches_at))[-1 - (int)threadIdx.x];
  return plane >> used != 0 ? MGC_BAD_CHUNK_PADDING : MGC_GOOD;
}

// Finds the parts of the chunk and the places of its blocks: the planes before each, and the bytes of patches from
// bit 16 on. The code returned is this thread's, and GOOD only in chunks whose parts are all there.
template <u32 B>
MGC_DEV u32 int_open(const CodedChunk& chunk, IntCoded* at, u32* places) {
  ScanShared<u32>& scan = int_scan();
  at->words = chunk.raw_len / B;
  at->blocks = (at->words + 31) / 32;
  at->planes_at = int_planes_offset<B>(at->words);
  if (at->planes_at > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
  u32 code = int_read_header<B>(chunk.stored, &at->header);
  if (code != MGC_GOOD) return code;
  code = int_check_codes_end<B>(chunk.stored, *at);

  const u32 per_thread = (at->blocks + MGC_BLOCK_THREADS - 1) / MGC_BLOCK_THREADS;
  const u32 first = threadIdx.x * per_thread, low_bits = int_patched_from(at->header);
  const u32 end = first + per_thread < at->blocks ? first + per_thread : at->blocks;
  u32 planes = 0;
#pragma unroll 1
  for (u32 i = first; i < end; i++) {
    const u32 form = int_code_at<B>(chunk.stored, i);
    if (form > 9 * B) code = MGC_BAD_CHUNK_FIELD;
    planes += int_planes_of<B>(form, low_bits);
  }
  u32 total;
  const u32 planes_before = block_scan(planes, scan, &total);
  at->patches_at = at->planes_at + 4 * total;
  if (at->patches_at > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;

  u32 patches = 0, plane = planes_before;
#pragma unroll 1
  for (u32 i = first; i < end; i++) {
    const u32 form = int_code_at<B>(chunk.stored, i);
    places[i] = plane | patches << 16;
    plane += int_planes_of<B>(form, low_bits);
    if (form <= 8 * B || form > 9 * B) continue;
    const u32 marks = ((const u32*)(chunk.stored + at->planes_at))[plane - 1];
    patches += (u32)__popc(marks) * (form - 8 * B);
  }
  const u32 patches_before = block_scan(patches, scan, &total);
  for (u32 i = first; i < end; i++) places[i] += patches_before << 16;
  at->end = at->patches_at + total;
  if (code == MGC_GOOD) code = int_check_unused_bits<B>(chunk.stored, *at);
  return code != MGC_GOOD ? code : check_chunk_end(chunk, at->end + chunk.raw_len % B);
}

// The patches of this lane's words, in their places.
template <u32 B>
MGC_DEV IntOf<B> int_patches(u32 marks, u32 low_bits, u32 patch_len, const u8* patches) {
  const u32 word = int_first_word<B>();
  const u8* from = patches + (u32)__popc(marks & ((1u << word) - 1)) * patch_len;
  IntOf<B> words = 0;
#pragma unroll
  for (u32 i = 0; i < INT_PER_LANE(B); i++) {
    if ((marks >> (word + i) & 1) == 0) continue;
    IntOf<B> patch = 0;
#pragma unroll
    for (u32 byte = 0; byte < B; byte++) {
      if (byte < patch_len) patch |= (IntOf<B>)from[byte] << 8 * byte;
    }
    // Bits that the word does not have are dropped.
    words |= int_word_of<B>(patch << low_bits, 0) << 8 * B * i % (8 * INT_BYTES(B));
    from += patch_len;
  }
  return words;
}

// The differences in this lane's register of tile `tile`.
template <u32 B>
MGC_DEV IntOf<B> int_differences(const CodedChunk& chunk, const IntCoded& at, const u32* places,
                                 const IntSwaps& swaps, u32 tile) {
  const u32 all = 0xffffffffu, plane = int_plane<B>();
  const u32 block = tile * INT_BLOCKS_PER_TILE(B) + threadIdx.x % 32 / INT_BLOCK_LANES(B);
  const bool is_block = block < at.blocks;
  const u32 code = is_block ? int_code_at<B>(chunk.stored, block) : 0, place = is_block ? places[block] : 0;
  if (!__any_sync(all, code != 0)) return 0;

  const bool patched = code > 8 * B;
  const u32 count = patched ? int_patched_from(at.header) : code;
  const u32* const planes = (const u32*)(chunk.stored + at.planes_at) + (place & 0xffff);
  IntOf<B> residuals = int_from_planes<B>(plane < count ? planes[plane] : 0, swaps);
  if (B == 8 && __any_sync(all, count > 32)) {
    const u32 high = int_from_planes<B>(32 + plane < count ? planes[32 + plane] : 0, swaps);
    residuals |= (IntOf<B>)((u64)high << 32);
  }
  if (patched) {
    const u8* const patches = chunk.stored + at.patches_at + (place >> 16);
    residuals |= int_patches<B>(planes[count], int_patched_from(at.header), code - 8 * B, patches);
  }
  const u32 rotation = int_rotation(at.header);
  const IntOf<B> mapped = int_rotated<B>(residuals, rotation == 0 ? 0 : 8 * B - rotation);
  if (int_map(at.header) == INT_ZIGZAG) return int_unzigzag<B>(mapped);
  return int_map(at.header) == INT_REVERSED ? int_reversed<B>(mapped) : mapped;
}

// Replaces differences by words. Lags of 0 are none; one is not.
template <u32 B>
MGC_DEV void int_undo_lags(u8* words, const IntCoded& at, u32 a, u32 b) {
  // With the base in place of all words before the first, differences from it are sums of sums of differences.
  const IntOf<B> base = (IntOf<B>)at.header.base;
#pragma unroll 1
  for (u32 lag = a != 0 ? a : b; lag != 0; lag = a != 0 ? b : 0, a = 0) {
    const bool is_last = a == 0 || b == 0;
    int_sum_words<B>(words, at.words, lag, is_last ? base : 0);
  }
}

// Decodes a chunk.
template <u32 B>
MGC_DEV u32 int_decode_chunk(const CodedChunk& chunk) {
  u8* const words = chunk.scratch;
  u32* const places = (u32*)(chunk.scratch + chunk.capacity);
  IntCoded at = {};
  const u32 code = int_open<B>(chunk, &at, places);
  if (block_fails(code)) return code;

  // A lag past the last word adds nothing but the base, which is added once.
  const u32 a = int_lag_a(at.header) < at.words ? int_lag_a(at.header) : 0;
  const u32 b = int_lag_b(at.header) < at.words ? int_lag_b(at.header) : 0;
  const bool sums = (a | b) != 0;
  const IntOf<B> base = sums ? 0 : int_splat<B>((IntOf<B>)at.header.base);
  const u32 words_len = at.words * B, rounds = int_rounds<B>(words_len);
  const IntSwaps swaps = int_swaps<B>();
#pragma unroll 1
  for (u32 round = 0; round < rounds; round++) {
    const u32 tile = int_tile(round);
    const IntOf<B> left = int_differences<B>(chunk, at, places, swaps, tile);
    *(IntOf<B>*)(words + tile * INT_TILE(B) + threadIdx.x % 32 * INT_BYTES(B)) = int_add<B>(left, base);
  }
  __syncthreads();
  if (sums) int_undo_lags<B>(words, at, a, b);

  for (u32 i = threadIdx.x; i * MGC_UNIT < words_len; i += MGC_BLOCK_THREADS) {
    const uint4 from = *(const uint4*)(words + i * MGC_UNIT);
    const Unit unit = {{(u64)from.y << 32 | from.x, (u64)from.w << 32 | from.z}};
    store_unit(chunk, i, unit, words_len);
  }
  const u32 byte = words_len + threadIdx.x;
  if (byte < chunk.raw_len) chunk.dst[byte] = chunk.stored[at.end + threadIdx.x];
  return MGC_GOOD;
}
