// Where a BDI chunk has its sections, and how long lines are.
#pragma once
#include "common/bytes.cuh"
#include "frame/frame.cuh"

#define BDI_LINE_LEN 64

// Forms; those between are base and deltas.
#define BDI_ZERO 0
#define BDI_REPEATED 1
#define BDI_RAW 8

// What a line has in the masks and data sections, or what lines have: bytes of masks in the low 13 bits, of data
// above them. All lines of a chunk have at most 2^12 and 2^16.
#define BDI_MASKS_BITS 13

MGC_DEV u32 bdi_masks_len(u32 lens) { return lens & ((1u << BDI_MASKS_BITS) - 1); }
MGC_DEV u32 bdi_data_len(u32 lens) { return lens >> BDI_MASKS_BITS; }

// The lengths of a form, 0 for one without a meaning.
MGC_DEV u32 bdi_lens(u32 form) {
  // A byte per form: half the data, which is even.
  const u64 halves = 0x11120a140c080400ull;
  const u64 masks = 0x0402020101010000ull;
  if (form < 8) return (u32)(halves >> 8 * form & 0xff) << (BDI_MASKS_BITS + 1) | (u32)(masks >> 8 * form & 0xff);
  return form == BDI_RAW ? BDI_LINE_LEN << BDI_MASKS_BITS : 0;
}

// Where the sections start, in bytes.
struct BdiSections {
  u32 masks, masks_end, data;
};

MGC_DEV u32 bdi_line_count(u32 raw_len) { return (raw_len + BDI_LINE_LEN - 1) / BDI_LINE_LEN; }

MGC_DEV BdiSections bdi_sections(u32 lines, u32 masks_len) {
  const u32 masks = (lines + 1) / 2;
  return {masks, masks + masks_len, round_up(masks + masks_len, 4)};
}

// Base-2 logarithms of the bytes of an element, and of a delta, of forms 2 to 7: 8/1 8/2 8/4 4/1 4/2 2/1.
MGC_DEV u32 bdi_element_log2(u32 form) { return 0x12233300u >> 4 * form & 15; }
MGC_DEV u32 bdi_delta_log2(u32 form) { return 0x01021000u >> 4 * form & 15; }
MGC_DEV bool bdi_has_deltas(u32 form) { return form > BDI_REPEATED && form < BDI_RAW; }
