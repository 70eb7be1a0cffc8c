// Decoding a BDI chunk: where its lines start, a line per thread; then 16 bytes per thread.
#pragma once
#include "bdi/layout.cuh"

// Adds up the lengths of the lines, and notes in `starts` those of the lines before each. Each thread says what
// is wrong with its forms.
MGC_DEV u32 bdi_read_forms(const CodedChunk& chunk, u32 lines, u32* starts, u32* sum) {
  MGC_SHARED(ScanShared<u32>, shared);
  u32 code = MGC_GOOD;
  *sum = 0;
  for (u32 first = 0; first < lines; first += MGC_BLOCK_THREADS) {
    const u32 line = first + threadIdx.x;
    const u32 form = line < lines ? chunk.stored[line / 2] >> line % 2 * 4 & 15 : BDI_ZERO;
    if (form > BDI_RAW) code = MGC_BAD_CHUNK_TAG;
    u32 total;
    const u32 before = block_scan(bdi_lens(form), shared, &total);
    if (line < lines) starts[line] = *sum + before;
    *sum += total;
  }
  if (lines % 2 != 0 && chunk.stored[lines / 2] >> 4 != 0) code = MGC_BAD_CHUNK_PADDING;
  return code;
}

// Checks that the sections fill the chunk, padding zero.
MGC_DEV u32 bdi_check_sections(const CodedChunk& chunk, const BdiSections& at, u32 data_len) {
  const u32 code = check_chunk_end(chunk, at.data + data_len);
  if (code != MGC_GOOD) return code;
  const u32 padding = at.masks_end + threadIdx.x;
  return padding < at.data && chunk.stored[padding] != 0 ? MGC_BAD_CHUNK_PADDING : MGC_GOOD;
}

// An element of BITS bits: its delta, the low DELTA_BITS of `delta`, with a sign, or upon the base.
template <u32 DELTA_BITS>
MGC_DEV u64 bdi_element(u32 delta, u64 base, u32 is_explicit) {
  const u32 unused = 32 - DELTA_BITS;
  if (is_explicit & 1) return base + (delta << unused >> unused);
  return (u64)(long long)((int)(delta << unused) >> unused);
}

// The two 8-byte elements of quarter `quarter`, of a line whose data are at byte `data`.
MGC_DEV Unit bdi_unit_8(const u8* stored, u32 form, u32 data, u32 quarter, u32 mask) {
  const u64 base = (u64)load_u32(stored, data + 4) << 32 | load_u32(stored, data);
  const u32 deltas = data + 8;
  if (form == 2) {
    const u32 two = *(const u16*)(stored + deltas + 2 * quarter);
    return {{bdi_element<8>(two, base, mask), bdi_element<8>(two >> 8, base, mask >> 1)}};
  }
  if (form == 3) {
    const u32 two = load_u32(stored, deltas + 4 * quarter);
    return {{bdi_element<16>(two, base, mask), bdi_element<16>(two >> 16, base, mask >> 1)}};
  }
  const u32 first = load_u32(stored, deltas + 8 * quarter), second = load_u32(stored, deltas + 8 * quarter + 4);
  return {{bdi_element<32>(first, base, mask), bdi_element<32>(second, base, mask >> 1)}};
}

// The four 4-byte elements, likewise.
MGC_DEV Unit bdi_unit_4(const u8* stored, u32 form, u32 data, u32 quarter, u32 mask) {
  const u32 base = load_u32(stored, data);
  Unit unit = {{0, 0}};
  if (form == 5) {
    const u32 deltas = load_u32(stored, data + 4 + 4 * quarter);
#pragma unroll
    for (u32 i = 0; i < 4; i++) put(unit, i, (u32)bdi_element<8>(deltas >> 8 * i, base, mask >> i));
    return unit;
  }
#pragma unroll
  for (u32 i = 0; i < 4; i += 2) {
    const u32 deltas = load_u32(stored, data + 4 + 8 * quarter + 2 * i);
    put(unit, i, (u32)bdi_element<16>(deltas, base, mask >> i));
    put(unit, i + 1, (u32)bdi_element<16>(deltas >> 16, base, mask >> (i + 1)));
  }
  return unit;
}

// The eight 2-byte elements, likewise.
MGC_DEV Unit bdi_unit_2(const u8* stored, u32 data, u32 quarter, u32 mask) {
  const u32 base = *(const u16*)(stored + data);
  Unit unit = {{0, 0}};
#pragma unroll
  for (u32 i = 0; i < 8; i += 4) {
    const u32 deltas = load_u32(stored, data + 2 + 8 * quarter + i);
#pragma unroll
    for (u32 j = 0; j < 4; j++) put(unit, i + j, (u16)bdi_element<8>(deltas >> 8 * j, base, mask >> (i + j)));
  }
  return unit;
}

// 16 bytes of a line that is stored whole.
MGC_DEV Unit bdi_raw_unit(const u8* stored, u32 at) {
  const u64 low = (u64)load_u32(stored, at + 4) << 32 | load_u32(stored, at);
  return {{low, (u64)load_u32(stored, at + 12) << 32 | load_u32(stored, at + 8)}};
}

// Writes the chunk, a quarter of a line per thread.
MGC_DEV void bdi_expand(const CodedChunk& chunk, const BdiSections& at, const u32* starts) {
  const u8* const stored = chunk.stored;
  for (u32 i = threadIdx.x; i * MGC_UNIT < chunk.raw_len; i += MGC_BLOCK_THREADS) {
    const u32 line = i / 4, quarter = i % 4;
    const u32 form = stored[line / 2] >> line % 2 * 4 & 15;
    const u32 data = at.data + bdi_data_len(starts[line]);
    Unit unit = {{0, 0}};
    if (bdi_has_deltas(form)) {
      const u32 bits = MGC_UNIT >> bdi_element_log2(form);
      const u32 mask_at = at.masks + bdi_masks_len(starts[line]) + quarter * bits / 8;
      const u32 mask = stored[mask_at] >> quarter * bits % 8;
      if (form < 5) {
        unit = bdi_unit_8(stored, form, data, quarter, mask);
      } else {
        unit = form < 7 ? bdi_unit_4(stored, form, data, quarter, mask) : bdi_unit_2(stored, data, quarter, mask);
      }
    } else if (form == BDI_RAW) {
      unit = bdi_raw_unit(stored, data + quarter * MGC_UNIT);
    } else if (form == BDI_REPEATED) {
      unit.halves[0] = unit.halves[1] = (u64)load_u32(stored, data + 4) << 32 | load_u32(stored, data);
    }
    store_unit(chunk, i, unit, chunk.raw_len);
  }
}
