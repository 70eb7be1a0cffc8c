// C-Pack with zero lines. FORMAT.md draws the chunk.
//
// Block:   one chunk at a time (at most 1,024 lines of 64 bytes); see frame/write.cuh and read.cuh.
// Traffic: each byte is read from memory once and written once. What a line needs to be coded or decoded alone
//          stays in shared memory: 32 and 16 bytes per line.
// Threads: one has a line to code.
// Tail:    the last line is coded whole; what of it lies behind the raw length is not written.
// Scope:   threads of one block meet at barriers.
// Input:   anything; see frame/read.cuh.
#include "cpackz/decode.cuh"
#include "cpackz/encode.cuh"
#include "kernels.cuh"

struct CpackZ {
  static constexpr u32 ENCODE_BLOCKS = 4, DECODE_BLOCKS = 4;

  struct Plan {
    u32 len;
    CpackzSections at;
  };

  MGC_DEV u32 line_count(u32 raw_len) { return (raw_len + CPACKZ_LINE_LEN - 1) / CPACKZ_LINE_LEN; }

  MGC_DEV Plan plan_chunk(const RawChunk& chunk) {
    const u32 lines = line_count(chunk.raw_len);
    CpackzCounts sum;
    const u32 coded = cpackz_plan_lines(chunk, lines, cpackz_plan(chunk), &sum);
    Plan plan;
    cpackz_place_lines(lines, coded, &plan.at);
    cpackz_place_fields(sum, &plan.at);
    plan.len = plan.at.end;
    return plan;
  }

  MGC_DEV void emit_chunk(const RawChunk& chunk, const Plan& plan, u8* coded) {
    const CpackzPlan planned_lines = cpackz_plan(chunk);
    const u32 lines = line_count(chunk.raw_len);
    zero_words(coded, 0, plan.at.words);
    zero_words(coded, plan.at.nibbles, plan.at.end);
    __syncthreads();
    for (u32 line = threadIdx.x; line < lines; line += MGC_BLOCK_THREADS) {
      const CpackzPlannedLine planned = cpackz_planned(planned_lines, line);
      cpackz_put_kind(planned, line, plan.at, coded);
      cpackz_put_line(planned, plan.at, (const u32*)chunk.raw + line * CPACKZ_LINE_WORDS, coded);
    }
    // A byte that shares a word with indices must not be lost to their atomics.
    __syncthreads();
    for (u32 line = threadIdx.x; line < lines; line += MGC_BLOCK_THREADS) {
      cpackz_put_indices(planned_lines, line, plan.at, coded);
    }
  }

  MGC_DEV u32 decode_chunk(const CodedChunk& chunk) {
    MGC_SHARED(ScanShared<u32>, scan);
    MGC_SHARED(ScanShared<u64>, wide_scan);
    const CpackzShared shared = {(CpackzLine*)chunk.scratch, scan, wide_scan};
    const u32 lines = line_count(chunk.raw_len);
    const u32 coded = cpackz_rank_lines(chunk, lines, shared);
    CpackzSections at;
    cpackz_place_lines(lines, coded, &at);
    if (at.subcodes > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
    u32 code = MGC_GOOD;
    const u32 kinds_end = 8 * at.raw + lines - coded;
    if (!padding_is_zero(chunk, lines, at.raw) || !padding_is_zero(chunk, kinds_end, at.planes)) {
      code = MGC_BAD_CHUNK_PADDING;
    }
    if (block_fails(code)) return code;

    CpackzCounts sum;
    code = cpackz_read_lines(chunk, lines, at, shared, &sum);
    cpackz_place_fields(sum, &at);
    const u32 misplaced = cpackz_check_sections(chunk, sum, at);
    if (code == MGC_GOOD) code = misplaced;
    if (block_fails(code)) return code;
    return cpackz_expand(chunk, at, shared);
  }
};

MGC_KERNELS(cpackz, CpackZ)
