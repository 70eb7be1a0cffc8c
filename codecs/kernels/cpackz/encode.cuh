// Encoding a C-Pack+Z chunk: tokens and sums of its lines, then fields. A thread works on a line, whose words it has in
// registers: it needs no ranks of words, and no other lane.
//
// The first word of a line with some upper half is the new one, and all later words with this half refer to it; so each
// word looks for its half among all before it, and none waits for a dictionary.
#pragma once
#include "common/bytes.cuh"
#include "cpackz/layout.cuh"
#include "frame/write.cuh"

// What the words of a line are; the masks have one bit per word.
struct CpackzTokens {
  u32 planes;
  u32 subcodes;                   // low half: bit 0 of the sub-code of each word; high half: bit 1
  u32 codes;                      // the sub-codes of those that have one, one behind the other
  u32 low_indices, high_indices;  // likewise
};

// How many fields of a section the lines before some line take, and how many of them are coded.
struct CpackzPlace {
  u32 words, extended, halves, bytes, nibbles, coded;
};

// A line as it is encoded.
struct CpackzPlannedLine {
  CpackzTokens tokens;
  CpackzPlace before;
};

// Planned lines: 16 bytes of each, then 16 others of each, so that neighbouring threads use other banks. Places are less
// than 2^16, two in a word.
struct CpackzPlan {
  uint4* codes;    // planes, sub-codes, their list; words and extended ones before
  uint4* indices;  // two words of indices; halves and bytes, nibbles and coded lines before
};

MGC_DEV CpackzPlan cpackz_plan(const RawChunk& chunk) {
  uint4* const lines = (uint4*)chunk.scratch;
  return {lines, lines + chunk.capacity / CPACKZ_LINE_LEN};
}

MGC_DEV void cpackz_keep(const CpackzPlan& plan, u32 line, const CpackzTokens& tokens, const CpackzPlace& before) {
  const u32 words = before.words | before.extended << 16, halves = before.halves | before.bytes << 16;
  plan.codes[line] = make_uint4(tokens.planes, tokens.subcodes, tokens.codes, words);
  const u32 nibbles = before.nibbles | before.coded << 16;
  plan.indices[line] = make_uint4(tokens.low_indices, tokens.high_indices, halves, nibbles);
}

MGC_DEV CpackzPlannedLine cpackz_planned(const CpackzPlan& plan, u32 line) {
  const uint4 codes = plan.codes[line], indices = plan.indices[line];
  return {{codes.x, codes.y, codes.z, indices.x, indices.y},
          {codes.w & 0xffff, codes.w >> 16, indices.z & 0xffff, indices.z >> 16, indices.w & 0xffff, indices.w >> 16}};
}

struct CpackzWords {
  u32 words[CPACKZ_LINE_WORDS];
};

MGC_DEV CpackzWords cpackz_load(const u32* line) {
  CpackzWords to;
#pragma unroll
  for (u32 i = 0; i < CPACKZ_LINE_WORDS; i += 4) {
    const uint4 four = *(const uint4*)(line + i);
    to.words[i] = four.x;
    to.words[i + 1] = four.y;
    to.words[i + 2] = four.z;
    to.words[i + 3] = four.w;
  }
  return to;
}

// The tokens of the line at `line`, a multiple of 16.
//
// A word is looked for by keys of the words before it: the upper half, the dictionary's length, the place in the line.
// The least one that differs from the word's own half in nothing else is the entry's.
MGC_DEV CpackzTokens cpackz_tokens(const u32* line) {
  const CpackzWords at = cpackz_load(line);
  const u32 keys_end = CPACKZ_LINE_WORDS * CPACKZ_LINE_WORDS, no_key = 0x8000;
  CpackzTokens to = {0, 0, 0, 0, 0};
  u32 keys[CPACKZ_LINE_WORDS], entries = 0;
#pragma unroll
  for (u32 i = 0; i < CPACKZ_LINE_WORDS; i++) {
    const u32 word = at.words[i], upper = word & 0xffff0000u;
    u32 key = ~0u;
#pragma unroll
    for (u32 j = 0; j < i; j++) key = (upper ^ keys[j]) < key ? upper ^ keys[j] : key;
    const bool joins = word > 0xff, is_new = joins && key >= keys_end, refers = joins && key < keys_end;
    const bool is_extended = word != 0 && !is_new;
    const u32 differs = word ^ line[key % CPACKZ_LINE_WORDS];
    const u32 code = !joins ? CPACKZ_LOW_BYTE : differs == 0 ? CPACKZ_EQUAL : differs <= 0xff ? 3 : CPACKZ_UPPER_HALF;

    keys[i] = joins ? upper | entries * CPACKZ_LINE_WORDS | i : no_key;
    entries += is_new ? 1 : 0;
    to.planes |= (is_new ? 0 : 1u << i) | (word != 0 ? 0x10000u << i : 0);
    // Both lists come in from above.
    if (is_extended) {
      to.subcodes |= (code & 1) << i | (code >> 1) << (16 + i);
      to.codes = __funnelshift_r(to.codes, code, 2);
    }
    if (refers) {
      to.low_indices = __funnelshift_r(to.low_indices, to.high_indices, 4);
      to.high_indices = __funnelshift_r(to.high_indices, key / CPACKZ_LINE_WORDS, 4);
    }
  }
  return to;
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

// Brings the lists of a line down to bit 0, which ended at the top.
MGC_DEV CpackzTokens cpackz_settled(const CpackzTokens& tokens, const CpackzCounts& own) {
  CpackzTokens to = tokens;
  to.codes >>= (0 - 2 * own.extended) % 32;  // no codes, no bits to move
  const u64 indices = ((u64)tokens.high_indices << 32 | tokens.low_indices) >> (0 - 4 * own.nibbles) % 64;
  to.low_indices = (u32)indices;
  to.high_indices = (u32)(indices >> 32);
  return to;
}

// The tokens of line `line`, and what it takes; those of a line of zeros behind the last one.
MGC_DEV CpackzTokens cpackz_plan_line(const RawChunk& chunk, u32 lines, u32 line, CpackzCounts* own) {
  const CpackzTokens zero = {CPACKZ_ZERO_PLANES, 0, 0, 0, 0};
  const CpackzTokens raw = {CPACKZ_RAW_PLANES, 0, 0, 0, 0};
  CpackzTokens tokens = zero;
  if (line < lines) {
    tokens = cpackz_tokens((const u32*)chunk.raw + line * CPACKZ_LINE_WORDS);
    if (cpackz_is_long(cpackz_fields(tokens.planes, tokens.subcodes))) tokens = raw;
  }
  *own = cpackz_fields(tokens.planes, tokens.subcodes);
  return cpackz_settled(tokens, *own);
}

// Finds the tokens of all lines, a line per thread, and sums up their fields; returns how many lines are coded. There is
// a barrier behind.
MGC_DEV u32 cpackz_plan_lines(const RawChunk& chunk, u32 lines, const CpackzPlan& plan, CpackzCounts* sum) {
  MGC_SHARED(ScanShared<u32>, scan);
  MGC_SHARED(ScanShared<u64>, wide_scan);
  u64 fields_sum = 0;
  u32 nibbles_coded = 0;
  for (u32 first = 0; first < lines; first += MGC_BLOCK_THREADS) {
    const u32 line = first + threadIdx.x;
    CpackzCounts own;
    const CpackzTokens tokens = cpackz_plan_line(chunk, lines, line, &own);
    u64 fields_total;
    u32 total;
    const u64 fields = (u64)(own.bytes << 16 | own.halves) << 32 | own.extended << 16 | own.words;
    const u64 before = fields_sum + block_scan(fields, wide_scan, &fields_total);
    const u32 others = own.nibbles | (cpackz_is_coded(tokens.planes) ? 1u << 16 : 0);
    const u32 others_before = nibbles_coded + block_scan(others, scan, &total);
    fields_sum += fields_total;
    nibbles_coded += total;
    if (line >= lines) continue;
    const u32 words = (u32)before, halves = (u32)(before >> 32);
    cpackz_keep(plan, line, tokens, {words & 0xffff, words >> 16, halves & 0xffff, halves >> 16,
                                     others_before & 0xffff, others_before >> 16});
  }
  __syncthreads();
  *sum = {(u32)fields_sum & 0xffff, (u32)fields_sum >> 16, (u32)(fields_sum >> 32) & 0xffff,
          (u32)(fields_sum >> 48), nibbles_coded & 0xffff};
  return nibbles_coded >> 16;
}

// Writes the bits that say which lines are coded, and which of the others are raw.
MGC_DEV void cpackz_put_kind(const CpackzPlannedLine& planned, u32 line, const CpackzSections& at, u8* coded) {
  const u32 planes = planned.tokens.planes;
  if (cpackz_is_coded(planes)) or_bits(coded, line, 1);
  if (planes == CPACKZ_RAW_PLANES) or_bits(coded, 8 * at.raw + line - planned.before.coded, 1);
}

// Writes the codes of a line, its words, halfwords and bytes.
MGC_DEV void cpackz_put_line(const CpackzPlannedLine& planned, const CpackzSections& at, const u32* line, u8* coded) {
  const CpackzTokens& tokens = planned.tokens;
  if (cpackz_is_coded(tokens.planes)) {
    or_bits(coded, 8 * (at.planes + 4 * planned.before.coded), tokens.planes);
    or_bits(coded, 8 * at.subcodes + 2 * planned.before.extended, tokens.codes);
  }
  const u32 new_words = cpackz_new_words(tokens.planes), with_byte = tokens.subcodes >> 16;
  const u32 with_half = tokens.subcodes & ~with_byte & 0xffff;
  u32* words = (u32*)(coded + at.words) + planned.before.words;
  u16* halves = (u16*)(coded + at.halves) + planned.before.halves;
  u8* bytes = coded + at.bytes + planned.before.bytes;
  const CpackzWords own = cpackz_load(line);
#pragma unroll
  for (u32 i = 0; i < CPACKZ_LINE_WORDS; i++) {
    if (new_words >> i & 1) *words++ = own.words[i];
    if (with_half >> i & 1) *halves++ = (u16)own.words[i];
    if (with_byte >> i & 1) *bytes++ = (u8)own.words[i];
  }
}

// Writes the indices of line `line`.
MGC_DEV void cpackz_put_indices(const CpackzPlan& plan, u32 line, const CpackzSections& at, u8* coded) {
  const CpackzPlannedLine planned = cpackz_planned(plan, line);
  const u32 to = 8 * at.nibbles + 4 * planned.before.nibbles;
  or_bits(coded, to, planned.tokens.low_indices);
  or_bits(coded, to + 32, planned.tokens.high_indices);
}
