// Zero-value compression: decodes the chunks of a frame.
//
// Block:   one chunk at a time (4 to 64 KiB of raw bytes), any element width; see decode_frame for the grid.
// Traffic: each stored byte is read from memory once, each raw byte written once, 16 bytes per thread. Masks
//          and their running sums stay in shared memory: 8 bytes per 32 elements.
// Tail:    the last window may be partial (its unused mask bits must be clear), the last 16-byte unit is
//          written byte by byte, and bytes short of an element are copied as they are.
// Scope:   threads of one block meet at barriers; blocks share nothing but the status word.
// Input:   anything. A frame that the portable decoder refuses sets the status word, and no byte outside
//          `frame` and `dst` is touched. Checksums in the chunk table are not compared here.
#include "frame.cuh"

#define ZVC_WINDOW 32
#define ZVC_MAX_WINDOWS ((1 << MGC_MAX_CHUNK_LOG2) / ZVC_WINDOW)

struct ZvcShared {
  u32 masks[ZVC_MAX_WINDOWS];
  u32 kept_before[ZVC_MAX_WINDOWS];  // elements stored for the windows before this one
  ScanShared<u32> scan;
};

// Fills `masks` and `kept_before`; `*kept` becomes the number of stored elements of the chunk.
MGC_DEV u32 zvc_read_masks(const ChunkView& chunk, u32 elements, ZvcShared& shared, u32* kept) {
  const u32* masks = (const u32*)chunk.stored;
  const u32 windows = (elements + ZVC_WINDOW - 1) / ZVC_WINDOW;
  u32 code = MGC_GOOD;
  *kept = 0;
  for (u32 first = 0; first < windows; first += MGC_BLOCK_THREADS) {
    const u32 window = first + threadIdx.x;
    const u32 mask = window < windows ? masks[window] : 0;
    u32 total;
    const u32 before = block_scan((u32)__popc(mask), shared.scan, &total);
    if (window < windows) {
      shared.masks[window] = mask;
      shared.kept_before[window] = *kept + before;
    }
    const bool partial = window + 1 == windows && elements % ZVC_WINDOW != 0;
    if (partial && mask >> elements % ZVC_WINDOW != 0) code = MGC_BAD_CHUNK_PADDING;
    *kept += total;
  }
  return code;
}

// Writes the chunk's elements of type T, 16 bytes at a time. A unit never spans two windows.
template <class T>
MGC_DEV void zvc_expand(const ChunkView& chunk, const T* kept, u32 elements, const ZvcShared& shared) {
  const u32 per_unit = MGC_UNIT / sizeof(T);
  const u32 end = elements * (u32)sizeof(T);
  for (u32 i = threadIdx.x; i * MGC_UNIT < end; i += MGC_BLOCK_THREADS) {
    const u32 window = i * per_unit / ZVC_WINDOW, first = i * per_unit % ZVC_WINDOW;
    const u32 mask = shared.masks[window];
    u32 next = shared.kept_before[window] + __popc(mask & ((1u << first) - 1));
    Unit unit = {{0, 0}};
#pragma unroll
    for (u32 e = 0; e < per_unit; e++) {
      if (mask >> (first + e) & 1) put(unit, e, kept[next++]);
    }
    store_unit(chunk, i, unit, end);
  }
}

MGC_DEV u32 zvc_decode_chunk(const FrameView& frame, const ChunkView& chunk) {
  MGC_SHARED(ZvcShared, shared);
  const u32 elements = chunk.raw_len >> frame.width_log2;
  const u32 elements_len = elements << frame.width_log2, tail_len = chunk.raw_len - elements_len;
  const u32 masks_len = (elements + ZVC_WINDOW - 1) / ZVC_WINDOW * 4;
  const u32 kept_offset = round_up(masks_len, 8);
  if (kept_offset > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;

  u32 kept;
  u32 code = zvc_read_masks(chunk, elements, shared, &kept);
  if (masks_len < kept_offset && *(const u32*)(chunk.stored + masks_len) != 0) code = MGC_BAD_CHUNK_PADDING;
  const u32 tail_offset = kept_offset + (kept << frame.width_log2);
  if (code == MGC_GOOD) code = check_chunk_end(chunk, tail_offset + tail_len);
  if (block_fails(code)) return code;

  const u8* from = chunk.stored + kept_offset;
  switch (frame.width_log2) {
    case 0: zvc_expand(chunk, from, elements, shared); break;
    case 1: zvc_expand(chunk, (const u16*)from, elements, shared); break;
    case 2: zvc_expand(chunk, (const u32*)from, elements, shared); break;
    default: zvc_expand(chunk, (const u64*)from, elements, shared); break;
  }
  if (threadIdx.x < tail_len) {
    chunk.dst[elements_len + threadIdx.x] = chunk.stored[tail_offset + threadIdx.x];
  }
  return MGC_GOOD;
}

// Decodes the `frame_len` bytes at `frame`, which starts on a multiple of 16, into exactly `dst_len` bytes at
// `dst`. `*status` must be zero before the launch and is zero after it if all is well.
MGC_KERNEL void __launch_bounds__(MGC_BLOCK_THREADS)
zvc_decode(const u8* __restrict__ frame, u64 frame_len, u8* __restrict__ dst, u64 dst_len, u64* status) {
  decode_frame<zvc_decode_chunk>(MGC_ALGORITHM_ZVC, frame, frame_len, dst, dst_len, status);
}
