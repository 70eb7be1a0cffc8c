// Integers, indices and fields: differences in bit-planes, with patches. FORMAT.md draws the chunk and says how an
// encoder chooses.
//
// Block:   one chunk at a time (4 to 64 KiB of raw bytes), any element width; see write.cuh and read.cuh.
// Files:   int_words.cuh arithmetic; int_planes.cuh transposes; int_choose.cuh what the header says; int_encode.cuh,
//          int_sums.cuh, int_decode.cuh the rest.
// Traffic: each byte is read from memory once and written once. In shared memory, encoding reads a word, and
//          those it is predicted from, twice; decoding reads and writes it once per lag and twice besides.
// Tail:    words past the last one count as zero residuals; bytes short of a word are kept as they are.
// Scope:   threads of one block meet at barriers.
// Input:   anything; see read.cuh.
#include "int_decode.cuh"

struct Int {
  static constexpr u32 ENCODE_BLOCKS = 4, DECODE_BLOCKS = 4;

  struct Plan {
    u32 len;
    u32 total;  // planes and bytes of patches, as int_place says
  };

  MGC_DEV Plan plan_chunk(const RawChunk& chunk) {
    Plan plan;
    switch (chunk.width_log2) {
      case 0: plan.len = int_plan_chunk<1>(chunk, &plan.total); break;
      case 1: plan.len = int_plan_chunk<2>(chunk, &plan.total); break;
      case 2: plan.len = int_plan_chunk<4>(chunk, &plan.total); break;
      default: plan.len = int_plan_chunk<8>(chunk, &plan.total); break;
    }
    return plan;
  }

  MGC_DEV void emit_chunk(const RawChunk& chunk, const Plan& plan, u8* coded) {
    switch (chunk.width_log2) {
      case 0: int_emit_chunk<1>(chunk, plan.total, coded); break;
      case 1: int_emit_chunk<2>(chunk, plan.total, coded); break;
      case 2: int_emit_chunk<4>(chunk, plan.total, coded); break;
      default: int_emit_chunk<8>(chunk, plan.total, coded); break;
    }
  }

  MGC_DEV u32 decode_chunk(const CodedChunk& chunk) {
    switch (chunk.width_log2) {
      case 0: return int_decode_chunk<1>(chunk);
      case 1: return int_decode_chunk<2>(chunk);
      case 2: return int_decode_chunk<4>(chunk);
      default: return int_decode_chunk<8>(chunk);
    }
  }
};

MGC_KERNELS(int, Int)
