// Encoding a BDI chunk: forms and bases of its lines, a line per thread; then their bytes, a line per 16 lanes.
#pragma once
#include "bdi_layout.cuh"
#include "write.cuh"

// Lanes that write a line, a word each.
#define BDI_LANES 16

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

// Bits 0 to 3 of a number at bits 0, 2, 4 and 6.
MGC_DEV u32 bdi_spread(u32 bits) {
  bits = (bits | bits << 2) & 0x33;
  return (bits | bits << 1) & 0x55;
}

// Bits 0, 2 to 14 of a number next to each other.
MGC_DEV u32 bdi_gather(u32 bits) {
  bits &= 0x5555;
  bits = (bits | bits >> 1) & 0x3333;
  bits = (bits | bits >> 2) & 0x0f0f;
  return (bits | bits >> 4) & 0xff;
}

// Byte `index` of a line's mask. `low` and `high` have a bit for each word: whether the element in it, or in its
// lower half, has the explicit base; and that in its upper half.
MGC_DEV u32 bdi_mask_byte(u32 element_log2, u32 low, u32 high, u32 index) {
  if (element_log2 == 3) return bdi_gather(low);
  if (element_log2 == 2) return low >> 8 * index & 0xff;
  return bdi_spread(low >> 4 * index & 15) | bdi_spread(high >> 4 * index & 15) << 1;
}

// Writes a word on a multiple of 2.
MGC_DEV void bdi_put_word(u8* to, u32 word) {
  if ((u64)to % 4 == 0) {
    *(u32*)to = word;
  } else {
    ((u16*)to)[0] = (u16)word;
    ((u16*)to)[1] = (u16)(word >> 16);
  }
}

// Writes the delta or deltas of the lane's word to a line's data behind the base. `low` and `high` are as for
// bdi_mask_byte, of this word; of 8-byte elements only the lower word has a delta.
MGC_DEV void bdi_put_deltas(const BdiPlannedLine& line, u32 index, u32 word, bool low, bool high, u8* deltas) {
  const u32 element_log2 = bdi_element_log2(line.form), delta_log2 = bdi_delta_log2(line.form);
  const u32 base = (u32)line.base;
  if (element_log2 == 1) {
    const u32 lower = word - (low ? base : 0), upper = (word >> 16) - (high ? base : 0);
    ((u16*)deltas)[index] = (u16)((lower & 0xff) | upper << 8);
    return;
  }
  if (element_log2 == 3 && index % 2 != 0) return;
  const u32 delta = word - (low ? base : 0), element = element_log2 == 3 ? index / 2 : index;
  if (delta_log2 == 0) {
    deltas[element] = (u8)delta;
  } else if (delta_log2 == 1) {
    ((u16*)deltas)[element] = (u16)delta;
  } else {
    bdi_put_word(deltas + 4 * element, delta);
  }
}

// Writes masks and data of a line. All lanes of a warp must call it; a line of zeros has nothing.
MGC_DEV void bdi_put_line(const RawChunk& chunk, const BdiPlannedLine& line, u32 number, const BdiSections& at,
                          u8* coded) {
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32, index = lane % BDI_LANES, line_lane = lane - index;
  const u32 word = ((const u32*)chunk.raw)[number * (BDI_LINE_LEN / 4) + index];
  const u32 upper_word = __shfl_xor_sync(all, word, 1);
  const u32 element_log2 = bdi_element_log2(line.form);
  const u64 half = 1ull << ((8 << bdi_delta_log2(line.form)) - 1);
  bool low, high = false;
  if (element_log2 == 3) {
    low = ((u64)upper_word << 32 | word) + half >= 2 * half;
  } else if (element_log2 == 2) {
    low = word + (u32)half >= 2 * (u32)half;
  } else {
    low = (word << 16) + (0x80u << 16) >= 0x100u << 16;
    high = (word & 0xffff0000u) + (0x80u << 16) >= 0x100u << 16;
  }
  const u32 lows = (__ballot_sync(all, low) >> line_lane) & 0xffff;
  const u32 highs = (__ballot_sync(all, high) >> line_lane) & 0xffff;

  u8* const masks = coded + at.masks + bdi_masks_len(line.lens_before);
  u8* const data = coded + at.data + bdi_data_len(line.lens_before);
  if (line.form == BDI_RAW || (line.form == BDI_REPEATED && index < 2)) bdi_put_word(data + 4 * index, word);
  if (!bdi_has_deltas(line.form)) return;
  const u32 mask_len = bdi_masks_len(bdi_lens(line.form)), element_len = 1u << element_log2;
  if (index < mask_len) masks[index] = (u8)bdi_mask_byte(element_log2, lows, highs, index);
  if (2 * index < element_len) ((u16*)data)[index] = (u16)(line.base >> 16 * index);
  bdi_put_deltas(line, index, word, low, high, data + element_len);
}
