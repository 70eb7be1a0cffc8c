// Zero-value compression. FORMAT.md draws the chunk: masks, elements that are not zero, tail.
//
// Block:   one chunk at a time (4 to 64 KiB of raw bytes), any element width; see frame/write.cuh and read.cuh.
// Traffic: each byte is read from memory once and written once. Encoding reads the raw bytes twice in shared
//          memory, 16 at a time, and writes the kept elements there one by one; decoding reads them so.
// Tail:    the last window may be partial (its unused mask bits are clear), and so may the last unit; bytes
//          short of an element are kept as they are.
// Scope:   threads of one block meet at barriers.
// Input:   anything; see frame/read.cuh.
#include "common/elements.cuh"
#include "kernels.cuh"

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
  const u32 masks_len = (elements + MGC_WINDOW - 1) / MGC_WINDOW * 4;
  return {elements, elements_len, raw_len - elements_len, masks_len, round_up(masks_len, 8)};
}

// Counts the elements to keep; `*warps_before` becomes how many of them the warps before this one have. What a
// unit has before it in its warp's part goes to the scratch, for the thread that wrote it.
template <class T>
MGC_DEV u32 zvc_count(const RawChunk& chunk, const ZvcSections& at, u32* warps_before) {
  MGC_SHARED(ScanShared<u32>, shared);
  u16* const unit_before = (u16*)chunk.scratch;
  const UnitRange units = warp_units(units_of_masks<T>(at.kept));
  u32 kept = 0;
  for (u32 index = units.first; index < units.end; index += 32) {
    u32 mask;
    load_elements<T>(chunk.raw, at.elements, index, &mask);
    const u32 own = (u32)__popc(mask);
    const u32 inclusive = warp_scan(own);
    if (mask != 0) unit_before[index] = (u16)(kept + inclusive - own);
    kept += __shfl_sync(0xffffffffu, inclusive, 31);
  }
  u32 total;
  *warps_before = block_scan(threadIdx.x % 32 == 0 ? kept : 0, shared, &total);
  *warps_before = __shfl_sync(0xffffffffu, *warps_before, 0);
  return total;
}

template <class T>
MGC_DEV void zvc_emit(const RawChunk& chunk, const ZvcSections& at, u32 warps_before, u8* coded) {
  const u16* const unit_before = (const u16*)chunk.scratch;
  T* const kept = (T*)(coded + at.kept) + warps_before;
  const UnitRange units = warp_units(units_of_masks<T>(at.kept));
  for (u32 index = units.first; index < units.end; index += 32) {
    u32 mask;
    const uint4 unit = load_elements<T>(chunk.raw, at.elements, index, &mask);
    put_unit_mask<T>(coded, at.kept, index, mask);
    if (mask != 0) keep_elements(unit, mask, kept + unit_before[index]);
  }
}

// Whether the masks of a chunk that holds them, and their padding, say nothing of elements that are not there.
// Each thread looks at its own part.
MGC_DEV u32 zvc_check_masks(const CodedChunk& chunk, const ZvcSections& at) {
  const u32* masks = (const u32*)chunk.stored;
  const u32 rest = at.elements % MGC_WINDOW;
  const bool unused = rest != 0 && masks[at.elements / MGC_WINDOW] >> rest != 0;
  const bool padding = at.masks_len < at.kept && masks[at.masks_len / 4] != 0;
  return unused || padding ? MGC_BAD_CHUNK_PADDING : MGC_GOOD;
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

    const u32* masks = (const u32*)chunk.stored;
    const u32 kept = count_kept(masks, at.masks_len / 4, kept_before);
    const u32 tail = at.kept + (kept << chunk.width_log2);
    u32 code = zvc_check_masks(chunk, at);
    if (code == MGC_GOOD) code = check_chunk_end(chunk, tail + at.tail_len);
    if (block_fails(code)) return code;

    expand_elements(chunk, at.elements_len, masks, kept_before, chunk.stored + at.kept);
    const u32 t = threadIdx.x;
    if (t < at.tail_len) chunk.dst[at.elements_len + t] = chunk.stored[tail + t];
    return MGC_GOOD;
  }
};

MGC_KERNELS(zvc, Zvc)
