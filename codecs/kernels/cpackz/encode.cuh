// Encoding a C-Pack+Z chunk: tokens and sums of its lines, then fields. 16 lanes work on a line.
//
// The first word of a line with some upper half is the new one, and all later words with this half refer to it;
// so lanes look for equal halves, and none waits for a dictionary.
#pragma once
#include "common/bytes.cuh"
#include "cpackz/layout.cuh"
#include "frame/write.cuh"

// A line as it is encoded; the u16 say how many fields of a section the lines before it take, and how many of
// them are coded.
struct CpackzPlannedLine {
  u32 planes;    // as above
  u32 subcodes;  // low half: bit 0 of the sub-code of each word; high half: bit 1
  u16 words, extended, halves, bytes, nibbles, coded;
};

// What a word is to its line; the masks have one bit per word of the line.
struct CpackzToken {
  u32 planes, subcodes;
  u32 first;  // the first word of the line with the same upper half, where that counts
};

// The lane's word among the 16 lanes of its line. The whole warp must call it.
MGC_DEV CpackzToken cpackz_token(u32 word) {
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32, line_lane = lane & 16;
  const bool joins = word > 0xff;
  const u32 key = joins ? 0x10000u | word >> 16 : 0;
  const u32 equals = (__match_any_sync(all, key) >> line_lane) & 0xffff;
  const u32 first = (u32)__ffs((int)equals) - 1;
  const u32 differs = word ^ __shfl_sync(all, word, (int)(line_lane + first));
  const bool is_new = joins && first == lane - line_lane;
  const bool is_extended = word != 0 && !is_new;
  const bool is_low = word <= 0xff;
  const bool low_bit = is_extended && !is_low && differs != 0;
  const bool high_bit = is_extended && (is_low || (differs != 0 && differs <= 0xff));
  const u32 not_new = (__ballot_sync(all, !is_new) >> line_lane) & 0xffff;
  const u32 not_zero = (__ballot_sync(all, word != 0) >> line_lane) & 0xffff;
  const u32 low_bits = (__ballot_sync(all, low_bit) >> line_lane) & 0xffff;
  const u32 high_bits = (__ballot_sync(all, high_bit) >> line_lane) & 0xffff;
  return {not_new | not_zero << 16, low_bits | high_bits << 16, first};
}

MGC_DEV bool cpackz_is_coded(u32 planes) {
  return planes != CPACKZ_ZERO_PLANES && planes != CPACKZ_RAW_PLANES;
}

// What a line takes.
MGC_DEV CpackzCounts cpackz_fields(u32 planes, u32 subcodes) {
  const u32 low = subcodes & 0xffff, high = subcodes >> 16;
  const u32 extended = (u32)__popc(cpackz_extended_words(planes));
  return {(u32)__popc(cpackz_new_words(planes)), extended, (u32)__popc(low & ~high), (u32)__popc(high),
          extended - (u32)__popc(high & ~low)};
}

// Whether a line with these tokens is stored raw.
MGC_DEV bool cpackz_is_long(const CpackzCounts& line) {
  const u32 codes = 2 * CPACKZ_LINE_WORDS + 2 * line.extended;
  const u32 data = 32 * line.words + 16 * line.halves + 8 * line.bytes + 4 * line.nibbles;
  return codes + data >= CPACKZ_RAW_BITS;
}

// The lane's word of the lines that a warp works on together, two at a time; 0 behind the last line.
struct CpackzLanes {
  u32 line, index;  // of the word in the line
};

MGC_DEV CpackzLanes cpackz_lanes(u32 round) {
  const u32 t = threadIdx.x;
  return {(round * MGC_BLOCK_THREADS + t) / CPACKZ_LINE_WORDS, t % CPACKZ_LINE_WORDS};
}

MGC_DEV u32 cpackz_load(const RawChunk& chunk, u32 lines, CpackzLanes at) {
  return at.line < lines ? ((const u32*)chunk.raw)[at.line * CPACKZ_LINE_WORDS + at.index] : 0;
}

// Finds the tokens of all lines.
MGC_DEV void cpackz_plan_lines(const RawChunk& chunk, u32 lines, CpackzPlannedLine* planned) {
  for (u32 round = 0; round * (MGC_BLOCK_THREADS / CPACKZ_LINE_WORDS) < lines; round++) {
    const CpackzLanes at = cpackz_lanes(round);
    const CpackzToken token = cpackz_token(cpackz_load(chunk, lines, at));
    if (at.line >= lines || at.index != 0) continue;
    const bool is_raw = cpackz_is_long(cpackz_fields(token.planes, token.subcodes));
    planned[at.line].planes = is_raw ? CPACKZ_RAW_PLANES : token.planes;
    planned[at.line].subcodes = is_raw ? 0 : token.subcodes;
  }
}

// Sums up the fields of the lines, a line per thread; returns how many lines are coded.
MGC_DEV u32 cpackz_sum_lines(u32 lines, CpackzPlannedLine* planned, CpackzCounts* sum) {
  MGC_SHARED(ScanShared<u32>, scan);
  MGC_SHARED(ScanShared<u64>, wide_scan);
  u64 fields_sum = 0;
  u32 nibbles_coded = 0;
  for (u32 first = 0; first < lines; first += MGC_BLOCK_THREADS) {
    const u32 line = first + threadIdx.x;
    const bool is_line = line < lines;
    const u32 planes = is_line ? planned[line].planes : CPACKZ_ZERO_PLANES;
    const CpackzCounts own = cpackz_fields(planes, is_line ? planned[line].subcodes : 0);
    u64 fields_total;
    u32 total;
    const u64 fields = (u64)(own.bytes << 16 | own.halves) << 32 | own.extended << 16 | own.words;
    const u64 before = fields_sum + block_scan(fields, wide_scan, &fields_total);
    const u32 others = own.nibbles << 16 | (cpackz_is_coded(planes) ? 1 : 0);
    const u32 others_before = nibbles_coded + block_scan(others, scan, &total);
    fields_sum += fields_total;
    nibbles_coded += total;
    if (!is_line) continue;
    CpackzPlannedLine& to = planned[line];
    to.words = (u16)before;
    to.extended = (u16)(before >> 16);
    to.halves = (u16)(before >> 32);
    to.bytes = (u16)(before >> 48);
    to.nibbles = (u16)(others_before >> 16);
    to.coded = (u16)others_before;
  }
  __syncthreads();
  *sum = {(u32)fields_sum & 0xffff, (u32)fields_sum >> 16, (u32)(fields_sum >> 32) & 0xffff,
          (u32)(fields_sum >> 48), nibbles_coded >> 16};
  return nibbles_coded & 0xffff;
}

// Writes the bits that say which lines are coded, and which of the others are raw.
MGC_DEV void cpackz_put_kinds(const CpackzPlannedLine* planned, u32 lines, const CpackzSections& at, u8* coded) {
  for (u32 line = threadIdx.x; line < lines; line += MGC_BLOCK_THREADS) {
    const u32 planes = planned[line].planes;
    if (cpackz_is_coded(planes)) or_bits(coded, line, 1);
    if (planes == CPACKZ_RAW_PLANES) or_bits(coded, 8 * at.raw + line - planned[line].coded, 1);
  }
}

// The bits of all lanes of a line.
MGC_DEV u32 cpackz_join(u32 bits) {
#pragma unroll
  for (u32 lanes = 8; lanes > 0; lanes /= 2) bits |= __shfl_xor_sync(0xffffffffu, bits, (int)lanes);
  return bits;
}

// Where a word of code 3 has its fields: ranks among those of the line.
struct CpackzRanks {
  u32 extended, half, byte, nibble;
};

MGC_DEV CpackzRanks cpackz_ranks(const CpackzPlannedLine& line, u32 index) {
  const u32 below = (1u << index) - 1;
  const u32 low = line.subcodes & below, high = line.subcodes >> 16 & below;
  const u32 extended = (u32)__popc(cpackz_extended_words(line.planes) & below);
  return {extended, (u32)__popc(low & ~high), (u32)__popc(high), extended - (u32)__popc(high & ~low)};
}

// Writes what the words of one line have in the data sections, a word per lane. Lanes without such a word and
// lines without words call it too.
MGC_DEV void cpackz_put_line(const CpackzPlannedLine& line, const CpackzSections& at, u32 index, u32 word,
                             u32 first, u8* coded) {
  const u32 new_words = cpackz_new_words(line.planes), below = (1u << index) - 1;
  if (new_words >> index & 1) {
    ((u32*)(coded + at.words))[line.words + __popc(new_words & below)] = word;
  }
  const bool is_extended = cpackz_extended_words(line.planes) >> index & 1;
  const u32 low = line.subcodes >> index & 1, high = line.subcodes >> (16 + index) & 1;
  const CpackzRanks rank = cpackz_ranks(line, index);
  u32 subcode = 0, low_nibbles = 0, high_nibbles = 0;
  if (is_extended) {
    subcode = (high << 1 | low) << 2 * rank.extended;
    if (low && !high) ((u16*)(coded + at.halves))[line.halves + rank.half] = (u16)word;
    if (high) {
      // A byte that shares a word with indices must not be lost to their atomics.
      const u32 byte = at.bytes + line.bytes + rank.byte;
      if (byte / 4 < at.nibbles / 4) {
        coded[byte] = (u8)word;
      } else {
        or_bits(coded, 8 * byte, word & 0xff);
      }
    }
    const u32 entry = (u32)__popc(new_words & ((1u << first) - 1));
    const u32 nibble = low || !high ? entry << rank.nibble % 8 * 4 : 0;
    low_nibbles = rank.nibble < 8 ? nibble : 0;
    high_nibbles = rank.nibble < 8 ? 0 : nibble;
  }
  subcode = cpackz_join(subcode);
  low_nibbles = cpackz_join(low_nibbles);
  high_nibbles = cpackz_join(high_nibbles);
  if (index != 0 || !cpackz_is_coded(line.planes)) return;
  or_bits(coded, 8 * (at.planes + 4 * line.coded), line.planes);
  or_bits(coded, 8 * at.subcodes + 2 * line.extended, subcode);
  or_bits(coded, 8 * at.nibbles + 4 * line.nibbles, low_nibbles);
  or_bits(coded, 8 * at.nibbles + 4 * line.nibbles + 32, high_nibbles);
}
