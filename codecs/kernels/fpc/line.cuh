// Lines of 64 bytes: their kinds, and data sections by the width of their fields. FORMAT.md draws both.
//
// No field waits for another: where a line starts in each section is a running sum over the lines before it,
// and where a word starts is a count of bits in masks of the line's 16 words.
#pragma once
#include "common/block.cuh"
#include "common/bytes.cuh"
#include "frame/frame.cuh"

#define MGC_LINE_LEN 64
#define MGC_MAX_LINES ((1 << MGC_MAX_CHUNK_LOG2) / MGC_LINE_LEN)

MGC_DEV u32 line_count(u32 raw_len) { return (raw_len + MGC_LINE_LEN - 1) / MGC_LINE_LEN; }

// Where the raw bits, and what follows them, start in bytes; the coded bits are at 0.
struct LineKinds {
  u32 raw, end;
};

MGC_DEV LineKinds line_kinds(u32 lines, u32 coded) {
  const u32 raw = (lines + 7) / 8;
  return {raw, round_up(raw + (lines - coded + 7) / 8, 2)};
}

// How many fields of each section something takes, and how many coded lines it has. Of a chunk that is up to
// 2^14 each.
struct LineFields {
  u32 words_halves;   // words in the low half, halfwords in the high half
  u32 bytes_nibbles;  // bytes in the low half, 4-bit fields in the high half
  u32 coded;
};

// Those of up to 256 lines in one number, so that one scan sums them all: at most 16 fields a line.
MGC_DEV u64 pack_fields(const LineFields& fields) {
  const u32 low = (fields.words_halves & 0xffff) | fields.words_halves >> 16 << 13;
  const u32 high = (fields.bytes_nibbles & 0xffff) | fields.bytes_nibbles >> 16 << 13;
  return low | (u64)high << 26 | (u64)fields.coded << 52;
}

MGC_DEV void add_fields(LineFields* sum, u64 packed) {
  const u32 low = (u32)packed, high = (u32)(packed >> 26);
  sum->words_halves += (low & 0x1fff) | (low >> 13 & 0x1fff) << 16;
  sum->bytes_nibbles += (high & 0x1fff) | (high >> 13 & 0x1fff) << 16;
  sum->coded += (u32)(packed >> 52);
}

// Where the data sections start, in bytes, and where the last one ends.
struct LineData {
  u32 words, halves, bytes, nibbles, end;
};

// Those behind tags that end at byte `start`.
MGC_DEV LineData line_data(u32 start, const LineFields& sum) {
  LineData at;
  at.words = round_up(start, 4);
  at.halves = at.words + 4 * (sum.words_halves & 0xffff);
  at.bytes = at.halves + 2 * (sum.words_halves >> 16);
  at.nibbles = at.bytes + (sum.bytes_nibbles & 0xffff);
  at.end = at.nibbles + ((sum.bytes_nibbles >> 16) + 1) / 2;
  return at;
}

// Writing.
//
// Words of the 4-bit fields are shared by several threads, so they start as zeros and threads add their bits
// to them. The first such word may hold the last bytes and halfwords as well.

// Writes a halfword or byte to byte `to`, which is no longer where its section ends.
template <class T>
MGC_DEV void put_field(const LineData& at, u8* coded, u32 to, T field) {
  if (to < at.nibbles / 4 * 4) {
    *(T*)(coded + to) = field;
  } else {
    or_bits(coded, 8 * to, field);
  }
}

// Bit i: the i-th of the lines that are not coded is raw.
struct RawLines {
  u32 bits[MGC_MAX_LINES / 32 + 1];  // with room for the padding
};

// All bits clear. A barrier must follow.
MGC_DEV void clear_raw_lines(RawLines& raw) {
  if (threadIdx.x < MGC_MAX_LINES / 32 + 1) raw.bits[threadIdx.x] = 0;
}

MGC_DEV void add_raw_line(RawLines& raw, u32 index) { atomicOr(&raw.bits[index / 32], 1u << index % 32); }

// Writes the raw bits and the padding behind them.
MGC_DEV void write_raw_lines(const RawLines& raw, const LineKinds& kinds, u8* coded) {
  const u32 at = kinds.raw + threadIdx.x;
  if (at < kinds.end) coded[at] = (u8)(raw.bits[threadIdx.x / 4] >> threadIdx.x % 4 * 8);
}

// Writes the coded bits of the lines of a warp; `line` is that of the lane.
MGC_DEV void write_coded_bits(bool is_coded, u32 line, u32 lines, u8* coded) {
  const u32 bits = __ballot_sync(0xffffffffu, is_coded);
  if (line % 8 == 0 && line < lines) coded[line / 8] = (u8)(bits >> line % 32);
}

// Reading.

// Whether line `line`, which has so many coded lines before it, is raw; it is not coded.
MGC_DEV bool is_raw_line(const CodedChunk& chunk, const LineKinds& kinds, u32 line, u32 coded_before) {
  return chunk_bits(chunk, 8 * kinds.raw + line - coded_before) & 1;
}

// Counts the coded lines. `put(line, before)` is called for each line, by the thread that has line number
// threadIdx.x plus a multiple of the block's threads, with the number of coded lines before it.
template <class Put>
MGC_DEV u32 rank_coded_lines(const CodedChunk& chunk, u32 lines, Put put) {
  MGC_SHARED(ScanShared<u32>, shared);
  u32 coded = 0;
  for (u32 first = 0; first < lines; first += MGC_BLOCK_THREADS) {
    const u32 line = first + threadIdx.x;
    const u32 is_coded = line < lines ? chunk_bits(chunk, line) & 1 : 0;
    u32 total;
    const u32 before = block_scan(is_coded, shared, &total);
    if (line < lines) put(line, coded + before);
    coded += total;
  }
  return coded;
}

// Checks that the kinds, and tags that end at byte `tags_end`, are there, and the padding.
MGC_DEV u32 check_kinds(const CodedChunk& chunk, u32 lines, u32 coded, const LineKinds& kinds, u32 tags_end) {
  if (tags_end > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
  const bool zero = padding_is_zero(chunk, lines, kinds.raw) &&
                    padding_is_zero(chunk, 8 * kinds.raw + lines - coded, kinds.end);
  return zero ? MGC_GOOD : MGC_BAD_CHUNK_PADDING;
}

// Checks that the data sections, for these fields, fill the chunk, and the padding before and behind them. The
// tags end at bit `tags_end`.
MGC_DEV u32 check_line_data(const CodedChunk& chunk, const LineData& at, u32 tags_end, const LineFields& sum) {
  const u32 code = check_chunk_end(chunk, at.end);
  if (code != MGC_GOOD) return code;
  const u32 nibbles_end = 8 * at.nibbles + 4 * (sum.bytes_nibbles >> 16);
  const bool zero = padding_is_zero(chunk, tags_end, at.words) && padding_is_zero(chunk, nibbles_end, at.end);
  return zero ? MGC_GOOD : MGC_BAD_CHUNK_PADDING;
}

// 4-bit field `index`.
MGC_DEV u32 nibble_at(const CodedChunk& chunk, const LineData& at, u32 index) {
  return chunk.stored[at.nibbles + index / 2] >> index % 2 * 4 & 15;
}
