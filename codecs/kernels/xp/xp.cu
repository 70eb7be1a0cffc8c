// XP: few bits for the exponents that are common, all other bits as they are. FORMAT.md draws the chunk.
//
// Block:   one chunk at a time (4 to 64 KiB of raw bytes), any element; see frame/write.cuh and read.cuh. A thread
//          has eight values at a time, an octet, or two that lie beside each other.
// Traffic: each byte is read from memory once and written once. Encoding reads the raw bytes twice in shared
//          memory, looks each value up once, or twice where its code is not kept, and has a barrier per 2048 or 4096 values and tier; decoding reads the
//          first tier twice, to count and to decode, and has none while values are written.
// Tail:    the last octet may be partial, its unused bits are clear; bytes short of an element are kept.
// Scope:   threads of one block meet at barriers; while values are decoded only those of a warp.
// Input:   anything; see frame/read.cuh.
#include "xp/decode.cuh"
#include "xp/encode.cuh"

// What fits without spills; the assembler needs more registers for other architectures than for 9.0.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ / 100 != 9
#define XP_ENCODE_BLOCKS 2
#else
#define XP_ENCODE_BLOCKS 4
#endif

// What the threads of an encoding block share, from the plan of a chunk to its end.
MGC_DEV XpEncodeShared& xp_encode_shared() {
  MGC_SHARED(XpEncodeShared, shared);
  return shared;
}

struct Xp {
  static constexpr u32 ENCODE_BLOCKS = XP_ENCODE_BLOCKS, DECODE_BLOCKS = 3;

  struct Plan {
    u32 len;
  };

  MGC_DEV Plan plan_chunk(const RawChunk& chunk) {
    XpEncodeShared& shared = xp_encode_shared();
    switch (chunk.width_log2) {
      case 0: return {xp_plan<u8>(shared, chunk)};
      case 1: return {xp_plan<u16>(shared, chunk)};
      case 2: return {xp_plan<u32>(shared, chunk)};
      default: return {xp_plan<u64>(shared, chunk)};
    }
  }

  MGC_DEV void emit_chunk(const RawChunk& chunk, const Plan&, u8* coded) {
    XpEncodeShared& shared = xp_encode_shared();
    switch (chunk.width_log2) {
      case 0: xp_emit<u8>(shared, chunk, coded); break;
      case 1: xp_emit<u16>(shared, chunk, coded); break;
      case 2: xp_emit<u32>(shared, chunk, coded); break;
      default: xp_emit<u64>(shared, chunk, coded); break;
    }
  }

  MGC_DEV u32 decode_chunk(const CodedChunk& chunk) {
    MGC_SHARED(XpDecodeShared, shared);
    return xp_decode(shared, chunk);
  }
};

MGC_KERNELS(xp, Xp)
