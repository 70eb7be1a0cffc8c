// Integers, indices and fields: differences in bit-planes, with patches. FORMAT.md draws the chunk and says how an
// encoder chooses.
//
// Block:   one chunk at a time (4 to 64 KiB of raw bytes), any element width; see frame/write.cuh and read.cuh.
// Files:   words.cuh arithmetic; planes.cuh transposes; price.cuh and choose.cuh what the header says; encode.cuh,
//          sums.cuh, decode.cuh the rest.
// Traffic: each byte is read from memory once and written once. In shared memory, encoding reads a word, and
//          those it is predicted from, twice; decoding writes it and reads it once, and reads it twice and writes
//          it once for each lag.
// Bound:   instructions of a warp for 128 bytes with one lag, counted in the machine code for sm_90. Encoding words
//          of 4 bytes takes 25 to measure and 46 to write, bytes 51 and 70; patches 30 to 50 more. Decoding takes 80
//          and 110, for each lag 12 and 46 (bytes: 14 where 4 divides the lag), and 5 to write. The choice of a
//          predictor takes about 5,000 for a chunk. So at four instructions a cycle, 132 multiprocessors of
//          1.7 GHz encode chunks of 16 KiB at no more than 0.8 TB/s of words of 4 bytes and 0.6 of bytes, and
//          decode them at no more than 0.9 and 0.6.
// Serial:  chains of 16 words in a chunk of 16 KiB of words of 4 bytes, 64 of bytes, in the sums; else none.
// Tail:    words past the last one count as zero residuals; bytes short of a word are kept as they are.
// Scope:   threads of one block meet at barriers: 11 times to encode with two lags, 10 times to decode.
// Input:   anything; see frame/read.cuh.
#include "int/decode.cuh"

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
