// Zero-value compression. FORMAT.md draws the chunk: masks, elements that are not zero, tail.
//
// Block:   one chunk at a time (4 to 64 KiB of raw bytes), any element width; see write.cuh and read.cuh.
// Traffic: each byte is read from memory once and written once. Encoding reads the raw bytes twice in shared
//          memory, 16 at a time, and writes the kept elements there one by one; decoding reads them so.
// Tail:    the last window may be partial (its unused mask bits are clear), and so may the last unit; bytes
//          short of an element are kept as they are.
// Scope:   threads of one block meet at barriers.
// Input:   anything; see read.cuh.
#include "kernels.cuh"

#define ZVC_WINDOW 32

// Where the sections of a chunk start, in bytes.
struct ZvcSections {
  u32 elements;      // number of whole ones
  u32 elements_len;  // their raw length
  u32 tail_len;
  u32 masks_len;  // without padding
  u32 kept;
};

MGC_DEV ZvcSections zvc_sections(u32 raw_len, u32 width_log2) {
  const u32 elements = raw_len >> width_log2, elements_len = elements << width_log2;
  const u32 masks_len = (elements + ZVC_WINDOW - 1) / ZVC_WINDOW * 4;
  return {elements, elements_len, raw_len - elements_len, masks_len, round_up(masks_len, 8)};
}

// One bit for each byte, half or whole of a word: set if it is not zero.
template <u32 WIDTH>
MGC_DEV u32 zvc_word_mask(u32 word) {
  if (WIDTH == 1) {
    const u32 top_bits = (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u;
    return (top_bits >> 7) * 0x01020408u >> 24 & 15;  // brings bits 0, 8, 16, 24 to 24, 25, 26, 27
  }
  if (WIDTH == 2) return (word & 0xffff ? 1 : 0) | (word >> 16 ? 2 : 0);
  return word ? 1 : 0;
}

// The mask of the 16 / WIDTH elements of a unit.
template <u32 WIDTH>
MGC_DEV u32 zvc_unit_mask(uint4 unit) {
  if (WIDTH == 8) return (unit.x | unit.y ? 1 : 0) | (unit.z | unit.w ? 2 : 0);
  constexpr u32 BITS = WIDTH == 8 ? 1 : 4 / WIDTH;
  return zvc_word_mask<WIDTH>(unit.x) | zvc_word_mask<WIDTH>(unit.y) << BITS |
         zvc_word_mask<WIDTH>(unit.z) << 2 * BITS | zvc_word_mask<WIDTH>(unit.w) << 3 * BITS;
}

// A warp works on neighbouring units, 32 at a time: as many as masks are written for, padding included.
struct ZvcUnits {
  u32 first, end;  // of this thread; it takes every 32nd
};

template <class T>
MGC_DEV ZvcUnits zvc_units(const ZvcSections& at) {
  const u32 units = at.kept * (u32)sizeof(T) / 2;  // bits of all masks / elements of a unit
  const u32 per_warp = round_up((units + MGC_BLOCK_WARPS - 1) / MGC_BLOCK_WARPS, 32);
  const u32 first = threadIdx.x / 32 * per_warp;
  return {first + threadIdx.x % 32, first + per_warp};
}

// Unit `index` of the raw bytes and its mask; zeros where no element is.
template <class T>
MGC_DEV uint4 zvc_load(const RawChunk& chunk, const ZvcSections& at, u32 index, u32* mask) {
  constexpr u32 PER_UNIT = MGC_UNIT / sizeof(T);
  *mask = 0;
  if (index * MGC_UNIT >= at.elements_len) return make_uint4(0, 0, 0, 0);
  const uint4 unit = *(const uint4*)(chunk.raw + index * MGC_UNIT);
  const u32 left = at.elements - index * PER_UNIT;
  *mask = zvc_unit_mask<sizeof(T)>(unit);
  if (left < PER_UNIT) *mask &= (1u << left) - 1;  // the tail is no element
  return unit;
}

// Counts the elements to keep; `*warps_before` becomes how many of them the warps before this one have. What a
// unit has before it in its warp's part goes to the scratch, for the thread that wrote it.
template <class T>
MGC_DEV u32 zvc_count(const RawChunk& chunk, const ZvcSections& at, u32* warps_before) {
  MGC_SHARED(ScanShared<u32>, shared);
  u16* const unit_before = (u16*)chunk.scratch;
  const ZvcUnits units = zvc_units<T>(at);
  const u32 lane = threadIdx.x % 32;
  u32 kept = 0;
  for (u32 index = units.first; index < units.end; index += 32) {
    u32 mask;
    zvc_load<T>(chunk, at, index, &mask);
    const u32 own = (u32)__popc(mask);
    const u32 inclusive = warp_scan(own);
    if (index * MGC_UNIT < at.elements_len) unit_before[index] = (u16)(kept + inclusive - own);
    kept += __shfl_sync(0xffffffffu, inclusive, 31);
  }
  u32 total;
  *warps_before = block_scan(lane == 0 ? kept : 0, shared, &total);
  *warps_before = __shfl_sync(0xffffffffu, *warps_before, 0);
  return total;
}

// Writes the mask of unit `index`, together with neighbouring lanes where it is less than a byte.
template <class T>
MGC_DEV void zvc_put_mask(u8* coded, u32 masks_end, u32 index, u32 mask) {
  const u32 all = 0xffffffffu;
  if (sizeof(T) == 1) {
    if (index * 2 < masks_end) ((u16*)coded)[index] = (u16)mask;
    return;
  }
  if (sizeof(T) >= 8) mask |= __shfl_down_sync(all, mask, 1) << 2;
  if (sizeof(T) >= 4) mask |= __shfl_down_sync(all, mask, sizeof(T) / 4) << 4;
  constexpr u32 per_byte = sizeof(T) / 2 ? sizeof(T) / 2 : 1;  // units whose masks share a byte
  if (index % per_byte == 0 && index / per_byte < masks_end) coded[index / per_byte] = (u8)mask;
}

// The low bits of unit field `index`; `index` is known at compile time.
template <class T>
MGC_DEV T zvc_element(const uint4& unit, u32 index) {
  const u32 words[4] = {unit.x, unit.y, unit.z, unit.w};
  const u32 at = index * (u32)sizeof(T);
  if (sizeof(T) == 8) return (T)((u64)words[(at / 4 + 1) % 4] << 32 | words[at / 4]);
  return (T)(words[at / 4] >> at % 4 * 8);
}

template <class T>
MGC_DEV void zvc_emit(const RawChunk& chunk, const ZvcSections& at, u32 warps_before, u8* coded) {
  const u16* const unit_before = (const u16*)chunk.scratch;
  T* const kept = (T*)(coded + at.kept) + warps_before;
  const ZvcUnits units = zvc_units<T>(at);
  for (u32 index = units.first; index < units.end; index += 32) {
    u32 mask;
    const uint4 unit = zvc_load<T>(chunk, at, index, &mask);
    zvc_put_mask<T>(coded, at.kept, index, mask);
    u32 next = mask != 0 ? unit_before[index] : 0;
#pragma unroll
    for (u32 e = 0; e < MGC_UNIT / sizeof(T); e++) {
      if (mask >> e & 1) kept[next++] = zvc_element<T>(unit, e);
    }
  }
}

// Writes `kept_before` for every window: how many elements are stored for the windows before it. `*kept`
// becomes the number of all that are stored.
MGC_DEV u32 zvc_read_masks(const CodedChunk& chunk, const ZvcSections& at, u16* kept_before, u32* kept) {
  MGC_SHARED(ScanShared<u32>, shared);
  const u32* masks = (const u32*)chunk.stored;
  const u32 windows = at.masks_len / 4;
  u32 code = MGC_GOOD;
  *kept = 0;
  for (u32 first = 0; first < windows; first += MGC_BLOCK_THREADS) {
    const u32 window = first + threadIdx.x;
    const u32 mask = window < windows ? masks[window] : 0;
    u32 total;
    const u32 before = block_scan((u32)__popc(mask), shared, &total);
    if (window < windows) kept_before[window] = (u16)(*kept + before);
    const bool partial = window + 1 == windows && at.elements % ZVC_WINDOW != 0;
    if (partial && mask >> at.elements % ZVC_WINDOW != 0) code = MGC_BAD_CHUNK_PADDING;
    *kept += total;
  }
  return code;
}

// Writes the chunk's elements of type T, 16 bytes at a time. A unit never spans two windows.
template <class T>
MGC_DEV void zvc_expand(const CodedChunk& chunk, const ZvcSections& at, const u16* kept_before) {
  const u32 per_unit = MGC_UNIT / sizeof(T);
  const u32* masks = (const u32*)chunk.stored;
  const T* kept = (const T*)(chunk.stored + at.kept);
  for (u32 i = threadIdx.x; i * MGC_UNIT < at.elements_len; i += MGC_BLOCK_THREADS) {
    const u32 window = i * per_unit / ZVC_WINDOW, first = i * per_unit % ZVC_WINDOW;
    const u32 mask = masks[window];
    u32 next = kept_before[window] + __popc(mask & ((1u << first) - 1));
    Unit unit = {{0, 0}};
#pragma unroll
    for (u32 e = 0; e < per_unit; e++) {
      if (mask >> (first + e) & 1) put(unit, e, kept[next++]);
    }
    store_unit(chunk, i, unit, at.elements_len);
  }
}

struct Zvc {
  static constexpr u32 ENCODE_BLOCKS = 5, DECODE_BLOCKS = 5;

  struct Plan {
    u32 len;
    u32 warps_before;  // elements kept by the warps before this one
  };

  MGC_DEV Plan plan_chunk(const RawChunk& chunk) {
    const ZvcSections at = zvc_sections(chunk.raw_len, chunk.width_log2);
    Plan plan;
    u32 kept;
    switch (chunk.width_log2) {
      case 0: kept = zvc_count<u8>(chunk, at, &plan.warps_before); break;
      case 1: kept = zvc_count<u16>(chunk, at, &plan.warps_before); break;
      case 2: kept = zvc_count<u32>(chunk, at, &plan.warps_before); break;
      default: kept = zvc_count<u64>(chunk, at, &plan.warps_before); break;
    }
    plan.len = at.kept + (kept << chunk.width_log2) + at.tail_len;
    return plan;
  }

  MGC_DEV void emit_chunk(const RawChunk& chunk, const Plan& plan, u8* coded) {
    const ZvcSections at = zvc_sections(chunk.raw_len, chunk.width_log2);
    switch (chunk.width_log2) {
      case 0: zvc_emit<u8>(chunk, at, plan.warps_before, coded); break;
      case 1: zvc_emit<u16>(chunk, at, plan.warps_before, coded); break;
      case 2: zvc_emit<u32>(chunk, at, plan.warps_before, coded); break;
      default: zvc_emit<u64>(chunk, at, plan.warps_before, coded); break;
    }
    const u32 t = threadIdx.x;
    if (t < at.tail_len) coded[plan.len - at.tail_len + t] = chunk.raw[at.elements_len + t];
  }

  MGC_DEV u32 decode_chunk(const CodedChunk& chunk) {
    u16* const kept_before = (u16*)chunk.scratch;
    const ZvcSections at = zvc_sections(chunk.raw_len, chunk.width_log2);
    if (at.kept > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;

    u32 kept;
    u32 code = zvc_read_masks(chunk, at, kept_before, &kept);
    const bool padded = at.masks_len < at.kept;
    if (padded && *(const u32*)(chunk.stored + at.masks_len) != 0) code = MGC_BAD_CHUNK_PADDING;
    const u32 tail = at.kept + (kept << chunk.width_log2);
    if (code == MGC_GOOD) code = check_chunk_end(chunk, tail + at.tail_len);
    if (block_fails(code)) return code;

    switch (chunk.width_log2) {
      case 0: zvc_expand<u8>(chunk, at, kept_before); break;
      case 1: zvc_expand<u16>(chunk, at, kept_before); break;
      case 2: zvc_expand<u32>(chunk, at, kept_before); break;
      default: zvc_expand<u64>(chunk, at, kept_before); break;
    }
    const u32 t = threadIdx.x;
    if (t < at.tail_len) chunk.dst[at.elements_len + t] = chunk.stored[tail + t];
    return MGC_GOOD;
  }
};

MGC_KERNELS(zvc, Zvc)
