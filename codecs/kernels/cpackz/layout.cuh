// Where a C-Pack+Z chunk has its sections, and what a line's planes say.
#pragma once
#include "frame/frame.cuh"

#define CPACKZ_LINE_LEN 64
#define CPACKZ_LINE_WORDS 16
#define CPACKZ_RAW_BITS 512

// Sub-codes: the second half of a 4-bit prefix.
#define CPACKZ_EQUAL 0
#define CPACKZ_UPPER_HALF 1
#define CPACKZ_LOW_BYTE 2

// All 16 codes of a line that stores none: zero lines hold 16 zero words, raw lines 16 new words.
#define CPACKZ_ZERO_PLANES 0x0000ffffu
#define CPACKZ_RAW_PLANES 0xffff0000u

// Where the sections of a chunk start, in bytes, and where the last one ends.
struct CpackzSections {
  u32 raw, planes, subcodes, words, halves, bytes, nibbles, end;
};

// How many fields of each section something takes. The largest count is 2^14.
struct CpackzCounts {
  u32 words, extended, halves, bytes, nibbles;
};

// Places the sections up to the sub-codes.
MGC_DEV void cpackz_place_lines(u32 lines, u32 coded, CpackzSections* at) {
  at->raw = (lines + 7) / 8;
  at->planes = round_up(8 * at->raw + lines - coded, 16) / 8;
  at->subcodes = at->planes + 4 * coded;
}

// Places the sections behind the sub-codes.
MGC_DEV void cpackz_place_fields(const CpackzCounts& sum, CpackzSections* at) {
  at->words = round_up(8 * at->subcodes + 2 * sum.extended, 32) / 8;
  at->halves = at->words + 4 * sum.words;
  at->bytes = at->halves + 2 * sum.halves;
  at->nibbles = at->bytes + sum.bytes;
  at->end = at->nibbles + (sum.nibbles + 1) / 2;
}

MGC_DEV u32 cpackz_new_words(u32 planes) { return planes >> 16 & ~planes; }
MGC_DEV u32 cpackz_extended_words(u32 planes) { return planes >> 16 & planes; }
