// Encoding a BDI chunk: forms and bases of its lines, a line per thread; then their bytes, a line per four lanes.
#pragma once
#include "bdi/layout.cuh"
#include "frame/write.cuh"

// A line as it is encoded.
struct BdiPlannedLine {
  u64 base;
  u32 lens_before;  // of the lines before it, as bdi_lens has them
  u32 form;         // and, from bit 8 on, a byte each: bytes of its mask, of an element, of the deltas of a quarter
};

MGC_DEV u32 bdi_form_of(const BdiPlannedLine& line) { return line.form & 0xff; }
MGC_DEV u32 bdi_mask_len(const BdiPlannedLine& line) { return line.form >> 8 & 0xff; }
MGC_DEV u32 bdi_element_len(const BdiPlannedLine& line) { return line.form >> 16 & 0xff; }
MGC_DEV u32 bdi_deltas_len(const BdiPlannedLine& line) { return line.form >> 24; }

// A form as a planned line has it; zeros follow one without deltas.
MGC_DEV u32 bdi_described(u32 form) {
  if (!bdi_has_deltas(form)) return form;
  const u32 element_log2 = bdi_element_log2(form), deltas_len = MGC_UNIT >> element_log2 << bdi_delta_log2(form);
  return form | 8u >> element_log2 << 8 | 1u << element_log2 << 16 | deltas_len << 24;
}

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

// A form's elements e of some bits, seen from both sides of the signed numbers of DELTA bytes: with half a delta's range
// added, those are the smallest of all; with it taken off, the largest, all modulo 2 to the element's bits. So the
// largest sum and the smallest difference are those of the other elements, if there are any. Where they lie within
// DELTA bytes or there are none, and only then, the sum is less than four halves above the difference.
template <class T>
struct BdiRange {
  T largest_sum, smallest_difference;
};

template <class T>
MGC_DEV void bdi_add(BdiRange<T>& range, T element, T half) {
  const T sum = element + half, difference = element - half;
  range.largest_sum = sum > range.largest_sum ? sum : range.largest_sum;
  range.smallest_difference = difference < range.smallest_difference ? difference : range.smallest_difference;
}

// Whether the elements fit; the smallest one that is no signed number of DELTA bytes becomes the base, 0 if there is
// none.
template <class T>
MGC_DEV bool bdi_fits(const BdiRange<T>& range, T half, T* base) {
  *base = range.largest_sum < 2 * half ? 0 : range.smallest_difference + half;
  return range.largest_sum - range.smallest_difference < 4 * half;
}

// Whether the elements of 8 bytes fit deltas of DELTA bytes, and the base.
template <u32 DELTA>
MGC_DEV bool bdi_fits_8(const BdiWords& line, u64* base) {
  const u64 half = 1ull << (8 * DELTA - 1);
  BdiRange<u64> range = {0, ~0ull};
#pragma unroll
  for (u32 i = 0; i < 16; i += 2) bdi_add<u64>(range, (u64)line.words[i + 1] << 32 | line.words[i], half);
  return bdi_fits(range, half, base);
}

// The same for elements of 4 bytes.
template <u32 DELTA>
MGC_DEV bool bdi_fits_4(const BdiWords& line, u64* base) {
  const u32 half = 1u << (8 * DELTA - 1);
  BdiRange<u32> range = {0, ~0u};
  u32 base_4;
#pragma unroll
  for (u32 i = 0; i < 16; i++) bdi_add(range, line.words[i], half);
  const bool fits = bdi_fits(range, half, &base_4);
  *base = base_4;
  return fits;
}

// The same for elements of 2 bytes and deltas of one, with all numbers in the upper half of a word; what is in the lower
// half then decides nothing.
MGC_DEV bool bdi_fits_2(const BdiWords& line, u64* base) {
  const u32 half = 0x80u << 16;
  BdiRange<u32> range = {0, ~0u};
  u32 base_2;
#pragma unroll
  for (u32 i = 0; i < 16; i++) {
    bdi_add(range, line.words[i] << 16, half);
    bdi_add(range, line.words[i], half);
  }
  range.largest_sum &= 0xffff0000u;
  range.smallest_difference &= 0xffff0000u;
  const bool fits = bdi_fits(range, half, &base_2);
  *base = base_2 >> 16;
  return fits;
}

// Whether any form of 8-byte elements can fit: their upper words are signs or next to each other.
MGC_DEV bool bdi_may_fit_8(const BdiWords& line) {
  BdiRange<u32> range = {0, ~0u};
  u32 base;
#pragma unroll
  for (u32 i = 1; i < 16; i += 2) bdi_add(range, line.words[i], 1u);
  return bdi_fits(range, 1u, &base);
}

MGC_DEV bool bdi_is_repeated(const BdiWords& line) {
  u32 differs = 0;
#pragma unroll
  for (u32 i = 2; i < 16; i++) differs |= line.words[i] ^ line.words[i % 2];
  return differs == 0;
}

// Makes `tried` the form of a line that has none yet, if `fits` says so of it. The warp does not ask where all of its
// lines have one, or are out of question.
template <class Fits>
MGC_DEV void bdi_try(u32 tried, bool in_question, u32* form, u64* base, Fits fits) {
  in_question = in_question && *form == BDI_RAW;
  if (!__any_sync(0xffffffffu, in_question)) return;
  u64 tried_base;
  if (fits(&tried_base) && in_question) *form = tried, *base = tried_base;
}

// The form of a line, and its base: the first that fits of 0, 1, 2, 5, 3, 6, 7, 4, 8.
MGC_DEV u32 bdi_form(const BdiWords& line, u64* base) {
  u32 form = BDI_RAW;
  *base = 0;
  const bool may_8 = bdi_may_fit_8(line);
  if (__any_sync(0xffffffffu, may_8)) {
    if (bdi_is_repeated(line)) form = line.words[0] | line.words[1] ? BDI_REPEATED : BDI_ZERO;
    bdi_try(2, may_8, &form, base, [&](u64* to) { return bdi_fits_8<1>(line, to); });
  }
  bdi_try(5, true, &form, base, [&](u64* to) { return bdi_fits_4<1>(line, to); });
  bdi_try(3, may_8, &form, base, [&](u64* to) { return bdi_fits_8<2>(line, to); });
  bdi_try(6, true, &form, base, [&](u64* to) { return bdi_fits_4<2>(line, to); });
  bdi_try(7, true, &form, base, [&](u64* to) { return bdi_fits_2(line, to); });
  bdi_try(4, may_8, &form, base, [&](u64* to) { return bdi_fits_8<4>(line, to); });
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
    if (is_line) planned[line] = {base, before, bdi_described(form)};
    sum += total;
  }
  __syncthreads();
  return sum;
}

MGC_DEV void bdi_put_forms(const BdiPlannedLine* planned, u32 lines, const BdiSections& at, u8* coded) {
  for (u32 i = threadIdx.x; i < at.masks; i += MGC_BLOCK_THREADS) {
    const u32 upper = 2 * i + 1 < lines ? planned[2 * i + 1].form : 0;
    coded[i] = (u8)((upper & 15) << 4 | (planned[2 * i].form & 15));
  }
  const u32 padding = at.masks_end + threadIdx.x;
  if (padding < at.data) coded[padding] = 0;
}

// What a quarter of a line has: a bit for each element, set if it has the explicit base, and the deltas, one
// behind the other.
struct BdiQuarter {
  u32 mask;
  u32 low, high;  // of the deltas
};

// Two elements of 8 bytes; `len` is that of their deltas, 2, 4 or 8.
MGC_DEV BdiQuarter bdi_quarter_8(uint4 words, u64 base, u32 len) {
  const u64 half = 1ull << (4 * len - 1), first = (u64)words.y << 32 | words.x;
  const u64 second = (u64)words.w << 32 | words.z;
  const bool first_explicit = first + half >= 2 * half, second_explicit = second + half >= 2 * half;
  const u32 low = words.x - (first_explicit ? (u32)base : 0), high = words.z - (second_explicit ? (u32)base : 0);
  const u32 mask = (first_explicit ? 1u : 0) | (second_explicit ? 2u : 0);
  return {mask, len == 8 ? low : __byte_perm(low, high, len == 4 ? 0x5410 : 0x5540), high};
}

// Four elements of 4 bytes; `len` is that of their deltas, 4 or 8.
MGC_DEV BdiQuarter bdi_quarter_4(uint4 words, u32 base, u32 len) {
  const u32 elements[4] = {words.x, words.y, words.z, words.w};
  const u32 half = len == 8 ? 0x8000 : 0x80;
  u32 mask = 0, deltas[4];
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    const bool is_explicit = elements[i] + half >= 2 * half;
    deltas[i] = elements[i] - (is_explicit ? base : 0);
    mask |= is_explicit ? 1u << i : 0;
  }
  // Two, or the first byte of each, as the first ones of the last two follow them.
  const u32 pick = len == 8 ? 0x5410 : 0x5140;
  const u32 low = __byte_perm(deltas[0], deltas[1], pick), high = __byte_perm(deltas[2], deltas[3], pick);
  return {mask, len == 8 ? low : __byte_perm(low, high, 0x5410), high};
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
  return {mask, deltas[0], deltas[1]};
}

// Writes the first `len` bytes of two words to a multiple of 2; 2, 4 or 8 of them.
MGC_DEV void bdi_put(u8* to, u32 low, u32 high, u32 len) {
  u16* const halves = (u16*)to;
  halves[0] = (u16)low;
  if (len > 2) halves[1] = (u16)(low >> 16);
  if (len > 4) {
    halves[2] = (u16)high;
    halves[3] = (u16)(high >> 16);
  }
}

// Writes what quarter `quarter` of a line has in masks and data. All lanes of a warp must call it, four
// neighbours for a line.
MGC_DEV void bdi_put_quarter(const BdiPlannedLine& line, u32 quarter, uint4 words, u8* masks, u8* data) {
  const u32 all = 0xffffffffu, form = bdi_form_of(line);
  const u32 element_len = bdi_element_len(line), deltas_len = bdi_deltas_len(line);
  BdiQuarter own = {0, 0, 0};
  if (element_len == 4) own = bdi_quarter_4(words, (u32)line.base, deltas_len);
  if (element_len == 8) own = bdi_quarter_8(words, line.base, deltas_len);
  if (element_len == 2) own = bdi_quarter_2(words, (u32)line.base);
  // A quarter has twice as many bits of the mask as the line has bytes.
  u32 mask = own.mask << (2 * bdi_mask_len(line) * quarter & 31);
  mask |= __shfl_xor_sync(all, mask, 1);
  mask |= __shfl_xor_sync(all, mask, 2);
  if (element_len != 0) {
    if (quarter < bdi_mask_len(line)) masks[quarter] = (u8)(mask >> 8 * quarter);
    if (2 * quarter < element_len) ((u16*)data)[quarter] = (u16)(line.base >> 16 * quarter);
    bdi_put(data + element_len + deltas_len * quarter, own.low, own.high, deltas_len);
  } else if (form == BDI_RAW || (form == BDI_REPEATED && quarter == 0)) {
    u8* const to = data + MGC_UNIT * quarter;
    bdi_put(to, words.x, words.y, 8);
    if (form == BDI_RAW) bdi_put(to + 8, words.z, words.w, 8);
  }
}

// Writes masks and data of all lines.
MGC_DEV void bdi_put_lines(const RawChunk& chunk, const BdiPlannedLine* planned, u32 lines, const BdiSections& at,
                           u8* coded) {
  const u32 quarter = in_register(threadIdx.x % 4);
  // From the start of the raw bytes.
  const u32 masks = in_register((u32)(coded - chunk.raw) + at.masks);
  const u32 data = in_register((u32)(coded - chunk.raw) + at.data);
  for (u32 first = 0; first < lines; first += MGC_BLOCK_THREADS / 4) {
    const u32 number = first + threadIdx.x / 4, in_chunk = number < lines ? number : 0;
    BdiPlannedLine line = planned[in_chunk];
    if (number >= lines) line.form = BDI_ZERO;  // writes nothing
    const uint4 words = *(const uint4*)(chunk.raw + in_chunk * BDI_LINE_LEN + quarter * MGC_UNIT);
    u8* const own_masks = chunk.raw + masks + bdi_masks_len(line.lens_before);
    bdi_put_quarter(line, quarter, words, own_masks, chunk.raw + data + bdi_data_len(line.lens_before));
  }
}
