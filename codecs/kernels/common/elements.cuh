// What the codecs of elements share: masks of elements that are not zero, and moving those that a mask keeps.
//
// A mask has one bit per element of a chunk, in windows of 32. Elements are kept next to each other, in order.
#pragma once
#include "frame/frame.cuh"

#define MGC_WINDOW 32

// One bit for each byte, half or whole of a word: set if it is not zero.
template <u32 WIDTH>
MGC_DEV u32 word_mask(u32 word) {
  if (WIDTH == 1) {
    const u32 top_bits = (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u;
    return (top_bits >> 7) * 0x01020408u >> 24 & 15;  // brings bits 0, 8, 16, 24 to 24, 25, 26, 27
  }
  if (WIDTH == 2) return (word & 0xffff ? 1 : 0) | (word >> 16 ? 2 : 0);
  return word ? 1 : 0;
}

// The mask of the 16 / WIDTH elements of a unit.
template <u32 WIDTH>
MGC_DEV u32 unit_mask(uint4 unit) {
  if (WIDTH == 8) return (unit.x | unit.y ? 1 : 0) | (unit.z | unit.w ? 2 : 0);
  constexpr u32 BITS = WIDTH == 8 ? 1 : 4 / WIDTH;
  return word_mask<WIDTH>(unit.x) | word_mask<WIDTH>(unit.y) << BITS |
         word_mask<WIDTH>(unit.z) << 2 * BITS | word_mask<WIDTH>(unit.w) << 3 * BITS;
}

// A warp works on neighbouring units, 32 at a time, and the warps on neighbouring parts of `units` units.
struct UnitRange {
  u32 first, end;  // of this thread, which takes every 32nd; all lanes take equally many
};

MGC_DEV UnitRange warp_units(u32 units) {
  const u32 per_warp = round_up((units + MGC_BLOCK_WARPS - 1) / MGC_BLOCK_WARPS, 32);
  const u32 first = threadIdx.x / 32 * per_warp;
  return {first + threadIdx.x % 32, first + per_warp};
}

// How many units have their masks in `len` bytes.
template <class T>
MGC_DEV u32 units_of_masks(u32 len) {
  return len * (u32)sizeof(T) / 2;  // 8 * len bits, 16 / sizeof(T) of a unit
}

// Unit `index` of a chunk of `elements` whole elements and its mask; zeros where no element is.
template <class T>
MGC_DEV uint4 load_elements(const u8* raw, u32 elements, u32 index, u32* mask) {
  constexpr u32 PER_UNIT = MGC_UNIT / sizeof(T);
  *mask = 0;
  if (index * PER_UNIT >= elements) return make_uint4(0, 0, 0, 0);
  const uint4 unit = *(const uint4*)(raw + index * MGC_UNIT);
  const u32 left = elements - index * PER_UNIT;
  *mask = unit_mask<sizeof(T)>(unit);
  if (left < PER_UNIT) *mask &= (1u << left) - 1;  // the tail is no element
  return unit;
}

// Writes the mask of unit `index` to `masks`, which end at byte `end`; together with neighbouring lanes where it
// is less than a byte. All lanes of a warp must call it for neighbouring units, the first one's a multiple of 32.
template <class T>
MGC_DEV void put_unit_mask(u8* masks, u32 end, u32 index, u32 mask) {
  const u32 all = 0xffffffffu;
  if (sizeof(T) == 1) {
    if (index * 2 < end) ((u16*)masks)[index] = (u16)mask;
    return;
  }
  if (sizeof(T) >= 8) mask |= __shfl_down_sync(all, mask, 1) << 2;
  if (sizeof(T) >= 4) mask |= __shfl_down_sync(all, mask, sizeof(T) / 4) << 4;
  constexpr u32 per_byte = sizeof(T) / 2 ? sizeof(T) / 2 : 1;  // units
  if (index % per_byte == 0 && index / per_byte < end) masks[index / per_byte] = (u8)mask;
}

// Element `index` of a unit; `index` is known at compile time.
template <class T>
MGC_DEV T element_of(const uint4& unit, u32 index) {
  const u32 words[4] = {unit.x, unit.y, unit.z, unit.w};
  const u32 at = index * (u32)sizeof(T);
  if (sizeof(T) == 8) return (T)((u64)words[(at / 4 + 1) % 4] << 32 | words[at / 4]);
  return (T)(words[at / 4] >> at % 4 * 8);
}

// Writes the elements of a unit that `mask` keeps, one behind the other.
template <class T>
MGC_DEV void keep_elements(const uint4& unit, u32 mask, T* to) {
#pragma unroll
  for (u32 e = 0; e < MGC_UNIT / sizeof(T); e++) {
    if (mask >> e & 1) *to++ = element_of<T>(unit, e);
  }
}

// Writes `kept_before` for each of `windows` windows: how many elements the windows before it keep. Returns how
// many all keep. The caller puts a barrier before others read what was written.
MGC_DEV u32 count_kept(const u32* masks, u32 windows, u16* kept_before) {
  MGC_SHARED(ScanShared<u32>, shared);
  u32 kept = 0;
  for (u32 first = 0; first < windows; first += MGC_BLOCK_THREADS) {
    const u32 window = first + threadIdx.x;
    u32 total;
    const u32 own = window < windows ? (u32)__popc(masks[window]) : 0;
    const u32 before = block_scan(own, shared, &total);
    if (window < windows) kept_before[window] = (u16)(kept + before);
    kept += total;
  }
  return kept;
}

// Writes the first `end` bytes of a chunk, which are whole elements: those that the masks keep from `kept`,
// zeros for the others. A unit never spans two windows.
template <class T>
MGC_DEV void expand_elements(const CodedChunk& chunk, u32 end, const u32* masks, const u16* kept_before,
                             const u8* kept) {
  const u32 per_unit = MGC_UNIT / sizeof(T);
  for (u32 i = threadIdx.x; i * MGC_UNIT < end; i += MGC_BLOCK_THREADS) {
    const u32 window = i * per_unit / MGC_WINDOW, first = i * per_unit % MGC_WINDOW;
    const u32 mask = masks[window], own = mask >> first;
    u32 next = kept_before[window] + (u32)__popc(mask & ((1u << first) - 1));
    Unit unit = {{0, 0}};
#pragma unroll
    for (u32 e = 0; e < per_unit; e++) {
      if (own >> e & 1) put(unit, e, ((const T*)kept)[next]);
      next += own >> e & 1;
    }
    store_unit(chunk, i, unit, end);
  }
}

// The same for elements of any width.
MGC_DEV void expand_elements(const CodedChunk& chunk, u32 end, const u32* masks, const u16* kept_before,
                             const u8* kept) {
  switch (chunk.width_log2) {
    case 0: expand_elements<u8>(chunk, end, masks, kept_before, kept); break;
    case 1: expand_elements<u16>(chunk, end, masks, kept_before, kept); break;
    case 2: expand_elements<u32>(chunk, end, masks, kept_before, kept); break;
    default: expand_elements<u64>(chunk, end, masks, kept_before, kept); break;
  }
}
