// C-Pack with zero lines: decodes the chunks of a frame.
//
// Block:   one chunk at a time (at most 1,024 lines of 64 bytes); see decode_frame for the grid.
// Traffic: each stored byte is read from memory once, each raw byte written once, 16 bytes per thread. What a
//          line needs to be decoded alone stays in shared memory: 16 bytes per line.
// Tail:    the last line is stored whole; what of it lies behind the raw length is not written.
// Scope:   threads of one block meet at barriers; blocks share nothing but the status word.
// Input:   anything. A frame that the portable decoder refuses sets the status word, and no byte outside
//          `frame` and `dst` is touched. Checksums in the chunk table are not compared here.
//
// No word waits for another: a dictionary index is a position in the words section, counted from the first
// word of the line, and where each line starts in each section is a running sum over the lines before it.
#include "frame.cuh"

#define CPACKZ_LINE_LEN 64
#define CPACKZ_MAX_LINES ((1 << MGC_MAX_CHUNK_LOG2) / CPACKZ_LINE_LEN)

// Sub-codes: the second half of a 4-bit prefix.
#define CPACKZ_EQUAL 0
#define CPACKZ_UPPER_HALF 1
#define CPACKZ_LOW_BYTE 2

// All 16 codes of a line that stores none: zero lines hold 16 zero words, raw lines 16 new words.
#define CPACKZ_ZERO_PLANES 0x0000ffffu
#define CPACKZ_RAW_PLANES 0xffff0000u

// The even bits of a string of 2-bit fields.
#define CPACKZ_EVEN_BITS 0x55555555u

// A line as it is decoded; the u16 say how many fields of a section the lines before it take.
struct CpackzLine {
  u32 planes;    // low half: bit 0 of the 16 codes; high half: bit 1
  u32 subcodes;  // of its words with code 3, two bits each
  u16 words, halves, bytes, nibbles;
};

struct CpackzShared {
  CpackzLine lines[CPACKZ_MAX_LINES];
  ScanShared<u32> scan;
  ScanShared<u64> wide_scan;
};

// Where the sections of a chunk start, in bytes, and where the last one ends.
struct CpackzSections {
  u32 raw, planes, subcodes, words, halves, bytes, nibbles, end;
};

// How many fields of each section something takes. The largest count is 2^14.
struct CpackzCounts {
  u32 words, extended, halves, bytes, nibbles;
};

MGC_DEV u32 cpackz_new_words(u32 planes) { return planes >> 16 & ~planes; }
MGC_DEV u32 cpackz_extended_words(u32 planes) { return planes >> 16 & planes; }

// 32 bits of the chunk from bit `at` on; bits behind its end read as zero.
MGC_DEV u32 chunk_bits(const ChunkView& chunk, u32 at) {
  const u32* words = (const u32*)chunk.stored;
  const u32 count = chunk.stored_len / 4, index = at / 32;
  const u32 low = index < count ? words[index] : 0;
  const u32 high = index + 1 < count ? words[index + 1] : 0;
  return __funnelshift_r(low, high, at % 32);
}

// Whether the padding from bit `from` up to byte `to` is zero; it is less than 32 bits long.
MGC_DEV bool padding_is_zero(const ChunkView& chunk, u32 from, u32 to) {
  return (chunk_bits(chunk, from) & ((1u << (8 * to - from)) - 1)) == 0;
}

// Counts the coded lines, which says where the planes start; each line's `planes` becomes the number of coded
// lines before it.
MGC_DEV u32 cpackz_rank_lines(const ChunkView& chunk, u32 lines, CpackzShared& shared) {
  u32 coded = 0;
  for (u32 first = 0; first < lines; first += MGC_BLOCK_THREADS) {
    const u32 line = first + threadIdx.x;
    const u32 is_coded = line < lines ? chunk_bits(chunk, line) & 1 : 0;
    u32 total;
    const u32 before = block_scan(is_coded, shared.scan, &total);
    if (line < lines) shared.lines[line].planes = coded + before;
    coded += total;
  }
  return coded;
}

// The planes of a line, `coded_before` coded lines behind the first. The planes section is known to be there.
MGC_DEV u32 cpackz_planes(const ChunkView& chunk, const CpackzSections& at, u32 line, u32 coded_before) {
  if (chunk_bits(chunk, line) & 1) return chunk_bits(chunk, 8 * (at.planes + 4 * coded_before));
  const u32 is_raw = chunk_bits(chunk, 8 * at.raw + line - coded_before) & 1;
  return is_raw ? CPACKZ_RAW_PLANES : CPACKZ_ZERO_PLANES;
}

// The `extended` sub-codes of a line, `before` sub-codes behind the first; bits behind them are clear.
MGC_DEV u32 cpackz_subcodes(const ChunkView& chunk, const CpackzSections& at, u32 before, u32 extended) {
  if (extended == 0) return 0;
  const u32 unused = 32 - 2 * extended;
  return chunk_bits(chunk, 8 * at.subcodes + 2 * before) << unused >> unused;
}

// What the sub-codes of one line ask of the data sections, packed: halves, bytes and nibbles, 16 bits each.
MGC_DEV u64 cpackz_count_subcodes(u32 subcodes, u32 extended) {
  const u32 low = subcodes & CPACKZ_EVEN_BITS, high = subcodes >> 1 & CPACKZ_EVEN_BITS;
  const u32 halves = __popc(low & ~high), bytes = __popc(high);
  const u32 nibbles = extended - __popc(high & ~low);
  return (u64)nibbles << 32 | bytes << 16 | halves;
}

// Completes the line records, a line per thread, and sums up their fields: words and sub-codes in one scan,
// 16 bits each, then what the sub-codes ask for. Reads are bounded by the chunk, so that the sections need
// not be known to be there yet.
MGC_DEV u32 cpackz_read_lines(const ChunkView& chunk, u32 lines, const CpackzSections& at,
                              CpackzShared& shared, CpackzCounts* sum) {
  u32 code = MGC_GOOD;
  u32 words_extended = 0;
  u64 data = 0;
  for (u32 first = 0; first < lines; first += MGC_BLOCK_THREADS) {
    const u32 line = first + threadIdx.x;
    const bool is_line = line < lines;
    u32 planes = CPACKZ_ZERO_PLANES;
    if (is_line) planes = cpackz_planes(chunk, at, line, shared.lines[line].planes);
    if (((planes | planes >> 16) & 0xffff) != 0xffff) code = MGC_BAD_CHUNK_TAG;  // a word with code 0

    const u32 extended = __popc(cpackz_extended_words(planes));
    u32 total;
    const u32 counts = extended << 16 | __popc(cpackz_new_words(planes));
    const u32 before = words_extended + block_scan(counts, shared.scan, &total);
    words_extended += total;

    const u32 subcodes = cpackz_subcodes(chunk, at, before >> 16, extended);
    u64 data_total;
    const u64 data_counts = cpackz_count_subcodes(subcodes, extended);
    const u64 data_before = data + block_scan(data_counts, shared.wide_scan, &data_total);
    data += data_total;

    if (is_line) {
      shared.lines[line] = {planes, subcodes, (u16)before, (u16)data_before, (u16)(data_before >> 16),
                            (u16)(data_before >> 32)};
    }
  }
  *sum = {words_extended & 0xffff, words_extended >> 16, (u32)data & 0xffff, (u32)data >> 16,
          (u32)(data >> 32)};
  return code;
}

// Places the sections behind the planes and checks that they fill the chunk, padding and unused bits zero.
MGC_DEV u32 cpackz_place_sections(const ChunkView& chunk, const CpackzCounts& sum, CpackzSections* at) {
  const u32 subcodes_end = 8 * at->subcodes + 2 * sum.extended;
  at->words = round_up(subcodes_end, 32) / 8;
  at->halves = at->words + 4 * sum.words;
  at->bytes = at->halves + 2 * sum.halves;
  at->nibbles = at->bytes + sum.bytes;
  at->end = at->nibbles + (sum.nibbles + 1) / 2;
  const u32 code = check_chunk_end(chunk, at->end);
  if (code != MGC_GOOD) return code;
  const bool zero = padding_is_zero(chunk, subcodes_end, at->words) &&
                    padding_is_zero(chunk, 8 * at->nibbles + 4 * sum.nibbles, at->end);
  return zero ? MGC_GOOD : MGC_BAD_CHUNK_PADDING;
}

// Word `i` of a line. An index that names no word sets `*code`.
MGC_DEV u32 cpackz_word(const ChunkView& chunk, const CpackzSections& at, const CpackzLine& line, u32 i,
                        u32* code) {
  const u32* dictionary = (const u32*)(chunk.stored + at.words) + line.words;
  const u32 new_words = cpackz_new_words(line.planes), extended = cpackz_extended_words(line.planes);
  const u32 before = (1u << i) - 1;
  const u32 dictionary_len = __popc(new_words & before);
  if (new_words >> i & 1) return dictionary[dictionary_len];
  if (!(extended >> i & 1)) return 0;

  const u32 rank = __popc(extended & before), rank_mask = (1u << 2 * rank) - 1;
  const u32 subcode = line.subcodes >> 2 * rank & 3;
  const u32 low = line.subcodes & CPACKZ_EVEN_BITS, high = line.subcodes >> 1 & CPACKZ_EVEN_BITS;
  const u8* byte = chunk.stored + at.bytes + line.bytes + __popc(high & rank_mask);
  if (subcode == CPACKZ_LOW_BYTE) return *byte;

  const u32 nibble = line.nibbles + rank - __popc(high & ~low & rank_mask);
  const u32 index = chunk.stored[at.nibbles + nibble / 2] >> nibble % 2 * 4 & 15;
  if (index >= dictionary_len) {
    *code = MGC_BAD_CHUNK_INDEX;
    return 0;
  }
  const u32 entry = dictionary[index];
  if (subcode == CPACKZ_EQUAL) return entry;
  if (subcode == CPACKZ_UPPER_HALF) {
    const u16* halves = (const u16*)(chunk.stored + at.halves) + line.halves;
    return (entry & 0xffff0000u) | halves[__popc(low & ~high & rank_mask)];
  }
  return (entry & 0xffffff00u) | *byte;
}

// Writes the chunk, four words per thread.
MGC_DEV u32 cpackz_expand(const ChunkView& chunk, const CpackzSections& at, const CpackzShared& shared) {
  u32 code = MGC_GOOD;
  for (u32 i = threadIdx.x; i * MGC_UNIT < chunk.raw_len; i += MGC_BLOCK_THREADS) {
    const CpackzLine line = shared.lines[i / 4];
    Unit unit = {{0, 0}};
#pragma unroll
    for (u32 w = 0; w < 4; w++) put(unit, w, cpackz_word(chunk, at, line, i % 4 * 4 + w, &code));
    store_unit(chunk, i, unit, chunk.raw_len);
  }
  return code;
}

MGC_DEV u32 cpackz_decode_chunk(const FrameView&, const ChunkView& chunk) {
  MGC_SHARED(CpackzShared, shared);
  const u32 lines = (chunk.raw_len + CPACKZ_LINE_LEN - 1) / CPACKZ_LINE_LEN;
  CpackzSections at;
  at.raw = (lines + 7) / 8;
  const u32 coded = cpackz_rank_lines(chunk, lines, shared);
  const u32 kinds_end = 8 * at.raw + lines - coded;
  at.planes = round_up(kinds_end, 16) / 8;
  at.subcodes = at.planes + 4 * coded;
  if (at.subcodes > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
  u32 code = MGC_GOOD;
  if (!padding_is_zero(chunk, lines, at.raw) || !padding_is_zero(chunk, kinds_end, at.planes)) {
    code = MGC_BAD_CHUNK_PADDING;
  }
  if (block_fails(code)) return code;

  CpackzCounts sum;
  code = cpackz_read_lines(chunk, lines, at, shared, &sum);
  const u32 misplaced = cpackz_place_sections(chunk, sum, &at);
  if (code == MGC_GOOD) code = misplaced;
  if (block_fails(code)) return code;
  return cpackz_expand(chunk, at, shared);
}

// Decodes the `frame_len` bytes at `frame`, which starts on a multiple of 16, into exactly `dst_len` bytes at
// `dst`. `*status` must be zero before the launch and is zero after it if all is well.
MGC_KERNEL void __launch_bounds__(MGC_BLOCK_THREADS)
cpackz_decode(const u8* __restrict__ frame, u64 frame_len, u8* __restrict__ dst, u64 dst_len, u64* status) {
  decode_frame<cpackz_decode_chunk>(MGC_ALGORITHM_CPACKZ, frame, frame_len, dst, dst_len, status);
}
