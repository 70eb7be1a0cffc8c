// Encoding a BDI chunk: forms and bases of its lines, a line per thread; then their bytes, a line per four lanes.
#pragma once
#include "bdi/layout.cuh"
#include "frame/write.cuh"

// A line as it is encoded.
struct BdiPlannedLine {
  u64 base;
  u32 lens_before;  // of the lines before it, as bdi_lens has them
  u32 form;
};

// The words of a line in quarters whose order does not matter, so that lanes read different banks.
struct BdiWords {
  u32 words[16];
};

MGC_DEV BdiWords bdi_load(const u8* line) {
  BdiWords to;
#pragma unroll
  for (u32 q = 0; q < 4; q++) {
    const uint4 quarter = *(const uint4*)(line + (q + threadIdx.x / 2) % 4 * MGC_UNIT);
    to.words[4 * q] = quarter.x;
    to.words[4 * q + 1] = quarter.y;
    to.words[4 * q + 2] = quarter.z;
    to.words[4 * q + 3] = quarter.w;
  }
  return to;
}

// Whether the elements of 8 bytes that are no signed numbers of DELTA bytes lie within as many; the smallest
// of them becomes the base, 0 if there is none.
template <u32 DELTA>
MGC_DEV bool bdi_fits_8(const BdiWords& line, u64* base) {
  const u64 half = 1ull << (8 * DELTA - 1);
  u64 smallest = ~0ull, largest = 0;
#pragma unroll
  for (u32 i = 0; i < 16; i += 2) {
    const u64 element = (u64)line.words[i + 1] << 32 | line.words[i];
    if (element + half < 2 * half) continue;
    smallest = element < smallest ? element : smallest;
    largest = element > largest ? element : largest;
  }
  const bool any = smallest <= largest;
  *base = any ? smallest : 0;
  return !any || largest - smallest < 2 * half;
}

// The same for elements of 4 bytes.
template <u32 DELTA>
MGC_DEV bool bdi_fits_4(const BdiWords& line, u32* base) {
  const u32 half = 1u << (8 * DELTA - 1);
  u32 smallest = ~0u, largest = 0;
#pragma unroll
  for (u32 i = 0; i < 16; i++) {
    const u32 element = line.words[i];
    if (element + half < 2 * half) continue;
    smallest = element < smallest ? element : smallest;
    largest = element > largest ? element : largest;
  }
  const bool any = smallest <= largest;
  *base = any ? smallest : 0;
  return !any || largest - smallest < 2 * half;
}

// The same for elements of 2 bytes and deltas of one, with all numbers in the upper half of a word.
MGC_DEV bool bdi_fits_2(const BdiWords& line, u32* base) {
  const u32 half = 0x80u << 16;
  u32 smallest = ~0u, largest = 0;
#pragma unroll
  for (u32 i = 0; i < 32; i++) {
    const u32 element = i % 2 ? line.words[i / 2] & 0xffff0000u : line.words[i / 2] << 16;
    if (element + half < 2 * half) continue;
    smallest = element < smallest ? element : smallest;
    largest = element > largest ? element : largest;
  }
  const bool any = smallest <= largest;
  *base = any ? smallest >> 16 : 0;
  return !any || largest - smallest < 2 * half;
}

// Whether any form of 8-byte elements can fit: their upper words are signs or next to each other.
MGC_DEV bool bdi_may_fit_8(const BdiWords& line) {
  u32 upper = 0;
  bool may = true;
#pragma unroll
  for (u32 i = 1; i < 16; i += 2) {
    const u32 word = line.words[i];
    if (word + 1 <= 1) continue;
    if (upper == 0) upper = word;
    may = may && word - upper + 1 <= 2;
  }
  return may;
}

MGC_DEV bool bdi_is_repeated(const BdiWords& line) {
  u32 differs = 0;
#pragma unroll
  for (u32 i = 2; i < 16; i++) differs |= line.words[i] ^ line.words[i % 2];
  return differs == 0;
}

// The form of a line, and its base: the first that fits of 0, 1, 2, 5, 3, 6, 7, 4, 8. The warp skips what none of
// its lines can take: a line that fits narrow deltas fits wide ones.
MGC_DEV u32 bdi_form(const BdiWords& line, u64* base) {
  const u32 all = 0xffffffffu;
  u32 form = BDI_RAW, base_2, base_4;
  *base = 0;
  const bool may_8 = bdi_may_fit_8(line);
  if (__any_sync(all, may_8)) {
    u64 base_8;
    if (bdi_fits_8<4>(line, &base_8)) form = 4, *base = base_8;
  }
  const bool fits_8 = form == 4;
  if (bdi_fits_2(line, &base_2)) form = 7, *base = base_2;
  const bool fits_4 = bdi_fits_4<2>(line, &base_4);
  if (fits_4) form = 6, *base = base_4;
  if (__any_sync(all, fits_8)) {
    u64 base_8;
    if (bdi_fits_8<2>(line, &base_8)) form = 3, *base = base_8;
  }
  if (__any_sync(all, fits_4)) {
    if (bdi_fits_4<1>(line, &base_4)) form = 5, *base = base_4;
  }
  if (__any_sync(all, fits_8)) {
    u64 base_8;
    if (bdi_fits_8<1>(line, &base_8)) form = 2, *base = base_8;
    if (bdi_is_repeated(line)) form = line.words[0] | line.words[1] ? BDI_REPEATED : BDI_ZERO;
  }
  return form;
}

// Finds the forms of all lines; returns what they take. There is a barrier behind.
MGC_DEV u32 bdi_plan_lines(const RawChunk& chunk, u32 lines, BdiPlannedLine* planned) {
  MGC_SHARED(ScanShared<u32>, shared);
  u32 sum = 0;
  for (u32 first = 0; first < lines; first += MGC_BLOCK_THREADS) {
    const u32 line = first + threadIdx.x;
    const bool is_line = line < lines;
    u64 base;
    const u32 form = bdi_form(bdi_load(chunk.raw + (is_line ? line : 0) * BDI_LINE_LEN), &base);
    u32 total;
    const u32 before = sum + block_scan(is_line ? bdi_lens(form) : 0, shared, &total);
    if (is_line) planned[line] = {base, before, form};
    sum += total;
  }
  __syncthreads();
  return sum;
}

MGC_DEV void bdi_put_forms(const BdiPlannedLine* planned, u32 lines, const BdiSections& at, u8* coded) {
  for (u32 i = threadIdx.x; i < at.masks; i += MGC_BLOCK_THREADS) {
    const u32 upper = 2 * i + 1 < lines ? planned[2 * i + 1].form : 0;
    coded[i] = (u8)(upper << 4 | planned[2 * i].form);
  }
  const u32 padding = at.masks_end + threadIdx.x;
  if (padding < at.data) coded[padding] = 0;
}

// What a quarter of a line has: a bit for each element, set if it has the explicit base, and the deltas, one
// behind the other.
struct BdiQuarter {
  u32 mask;
  u64 deltas;
};

// Two elements of 8 bytes, with deltas of 1, 2 or 4.
MGC_DEV BdiQuarter bdi_quarter_8(uint4 words, u64 base, u32 delta_log2) {
  const u32 delta_bits = 8u << delta_log2;
  const u64 half = 1ull << (delta_bits - 1), first = (u64)words.y << 32 | words.x;
  const u64 second = (u64)words.w << 32 | words.z;
  const bool first_explicit = first + half >= 2 * half, second_explicit = second + half >= 2 * half;
  const u32 low = words.x - (first_explicit ? (u32)base : 0), high = words.z - (second_explicit ? (u32)base : 0);
  const u64 deltas = (u64)high << delta_bits | (low & (u32)(2 * half - 1));
  return {(first_explicit ? 1u : 0) | (second_explicit ? 2u : 0), deltas};
}

// Four elements of 4 bytes, with deltas of 1 or 2.
MGC_DEV BdiQuarter bdi_quarter_4(uint4 words, u32 base, u32 delta_log2) {
  const u32 elements[4] = {words.x, words.y, words.z, words.w};
  const u32 delta_bits = 8u << delta_log2, half = 1u << (delta_bits - 1);
  BdiQuarter to = {0, 0};
#pragma unroll
  for (u32 i = 4; i-- > 0;) {
    const bool is_explicit = elements[i] + half >= 2 * half;
    const u32 delta = (elements[i] - (is_explicit ? base : 0)) & (2 * half - 1);
    to.mask = to.mask << 1 | (is_explicit ? 1 : 0);
    to.deltas = to.deltas << delta_bits | delta;
  }
  return to;
}

// Eight elements of 2 bytes, with deltas of 1.
MGC_DEV BdiQuarter bdi_quarter_2(uint4 words, u32 base) {
  const u32 pairs[4] = {words.x, words.y, words.z, words.w};
  u32 deltas[2] = {0, 0}, mask = 0;
#pragma unroll
  for (u32 i = 0; i < 8; i++) {
    const u32 element = i % 2 ? pairs[i / 2] >> 16 : pairs[i / 2] & 0xffff;
    const bool is_explicit = ((element + 0x80) & 0xffff) >= 0x100;
    deltas[i / 4] |= ((element - (is_explicit ? base : 0)) & 0xff) << i % 4 * 8;
    mask |= (is_explicit ? 1u : 0) << i;
  }
  return {mask, (u64)deltas[1] << 32 | deltas[0]};
}

// Writes the first `len` bytes of a number to a multiple of 2; 2, 4 or 8 of them.
MGC_DEV void bdi_put(u8* to, u64 bytes, u32 len) {
  u16* const halves = (u16*)to;
  halves[0] = (u16)bytes;
  if (len > 2) halves[1] = (u16)(bytes >> 16);
  if (len > 4) {
    halves[2] = (u16)(bytes >> 32);
    halves[3] = (u16)(bytes >> 48);
  }
}

// Writes what quarter `quarter` of a line has in masks and data. All lanes of a warp must call it, four
// neighbours for a line.
MGC_DEV void bdi_put_quarter(const BdiPlannedLine& line, u32 quarter, uint4 words, u8* masks, u8* data) {
  const u32 all = 0xffffffffu, form = line.form;
  const u32 element_log2 = bdi_element_log2(form), delta_log2 = bdi_delta_log2(form);
  const u32 elements = MGC_UNIT >> element_log2;
  BdiQuarter own = {0, 0};
  if (bdi_has_deltas(form)) {
    own = element_log2 == 3   ? bdi_quarter_8(words, line.base, delta_log2)
          : element_log2 == 2 ? bdi_quarter_4(words, (u32)line.base, delta_log2)
                              : bdi_quarter_2(words, (u32)line.base);
  }
  u32 mask = own.mask << (elements * quarter & 31);
  mask |= __shfl_xor_sync(all, mask, 1);
  mask |= __shfl_xor_sync(all, mask, 2);
  if (bdi_has_deltas(form)) {
    const u32 element_len = 1u << element_log2, deltas_len = elements << delta_log2;
    if (8 * quarter < 4 * elements) masks[quarter] = (u8)(mask >> 8 * quarter);
    if (2 * quarter < element_len) ((u16*)data)[quarter] = (u16)(line.base >> 16 * quarter);
    bdi_put(data + element_len + deltas_len * quarter, own.deltas, deltas_len);
  } else if (form == BDI_RAW || (form == BDI_REPEATED && quarter == 0)) {
    u8* const to = data + MGC_UNIT * quarter;
    bdi_put(to, (u64)words.y << 32 | words.x, 8);
    if (form == BDI_RAW) bdi_put(to + 8, (u64)words.w << 32 | words.z, 8);
  }
}

// Writes masks and data of all lines.
MGC_DEV void bdi_put_lines(const RawChunk& chunk, const BdiPlannedLine* planned, u32 lines, const BdiSections& at,
                           u8* coded) {
  const u32 quarter = threadIdx.x % 4;
  for (u32 first = 0; first < lines; first += MGC_BLOCK_THREADS / 4) {
    const u32 number = first + threadIdx.x / 4, in_chunk = number < lines ? number : 0;
    BdiPlannedLine line = planned[in_chunk];
    if (number >= lines) line.form = BDI_ZERO;  // writes nothing
    const uint4 words = *(const uint4*)(chunk.raw + in_chunk * BDI_LINE_LEN + quarter * MGC_UNIT);
    u8* const masks = coded + at.masks + bdi_masks_len(line.lens_before);
    bdi_put_quarter(line, quarter, words, masks, coded + at.data + bdi_data_len(line.lens_before));
  }
}
