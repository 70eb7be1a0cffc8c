// Decoding a C-Pack+Z chunk: records of its lines, then words.
//
// No word waits for another: a dictionary index is a position in the words section, counted from the first word
// of the line, and where each line starts in each section is a running sum over the lines before it.
#pragma once
#include "cpackz/layout.cuh"

// The even bits of a string of 2-bit fields.
#define CPACKZ_EVEN_BITS 0x55555555u

// A line as it is decoded; the u16 say how many fields of a section the lines before it take.
struct CpackzLine {
  u32 planes;    // low half: bit 0 of the 16 codes; high half: bit 1
  u32 subcodes;  // of its words with code 3, two bits each
  u16 words, halves, bytes, nibbles;
};

// What a block keeps of a chunk to decode.
struct CpackzShared {
  CpackzLine* lines;
  ScanShared<u32>& scan;
  ScanShared<u64>& wide_scan;
};

// Counts the coded lines, which says where the planes start; each line's `planes` becomes the number of coded
// lines before it.
MGC_DEV u32 cpackz_rank_lines(const CodedChunk& chunk, u32 lines, const CpackzShared& shared) {
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
MGC_DEV u32 cpackz_planes(const CodedChunk& chunk, const CpackzSections& at, u32 line, u32 coded_before) {
  if (chunk_bits(chunk, line) & 1) return chunk_bits(chunk, 8 * (at.planes + 4 * coded_before));
  const u32 is_raw = chunk_bits(chunk, 8 * at.raw + line - coded_before) & 1;
  return is_raw ? CPACKZ_RAW_PLANES : CPACKZ_ZERO_PLANES;
}

// The `extended` sub-codes of a line, `before` sub-codes behind the first; bits behind them are clear.
MGC_DEV u32 cpackz_subcodes(const CodedChunk& chunk, const CpackzSections& at, u32 before, u32 extended) {
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
MGC_DEV u32 cpackz_read_lines(const CodedChunk& chunk, u32 lines, const CpackzSections& at,
                              const CpackzShared& shared, CpackzCounts* sum) {
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

// Checks that the sections fill the chunk, padding and unused bits zero.
MGC_DEV u32 cpackz_check_sections(const CodedChunk& chunk, const CpackzCounts& sum, const CpackzSections& at) {
  const u32 subcodes_end = 8 * at.subcodes + 2 * sum.extended;
  const u32 code = check_chunk_end(chunk, at.end);
  if (code != MGC_GOOD) return code;
  const bool zero = padding_is_zero(chunk, subcodes_end, at.words) &&
                    padding_is_zero(chunk, 8 * at.nibbles + 4 * sum.nibbles, at.end);
  return zero ? MGC_GOOD : MGC_BAD_CHUNK_PADDING;
}

// Word `i` of a line. An index that names no word sets `*code`.
MGC_DEV u32 cpackz_word(const CodedChunk& chunk, const CpackzSections& at, const CpackzLine& line, u32 i,
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
MGC_DEV u32 cpackz_expand(const CodedChunk& chunk, const CpackzSections& at, const CpackzShared& shared) {
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
