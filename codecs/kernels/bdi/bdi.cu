// Base-delta-immediate. FORMAT.md draws the chunk: forms, masks, data.
//
// Block:   one chunk at a time (at most 1,024 lines of 64 bytes); see frame/write.cuh and read.cuh.
// Traffic: each byte is read from memory once and written once. A thread finds the form of a line, four
//          lanes write it or decode it; what they need of it stays in shared memory.
// Tail:    the last line is coded whole; what of it lies behind the raw length is not written.
// Scope:   threads of one block meet at barriers.
// Input:   anything; see frame/read.cuh.
#include "bdi/decode.cuh"
#include "bdi/encode.cuh"
#include "kernels.cuh"

struct Bdi {
  static constexpr u32 ENCODE_BLOCKS = 5, DECODE_BLOCKS = 5;

  struct Plan {
    u32 len;
    u32 masks_len;
  };

  MGC_DEV Plan plan_chunk(const RawChunk& chunk) {
    BdiPlannedLine* const planned = (BdiPlannedLine*)chunk.scratch;
    const u32 lines = bdi_line_count(chunk.raw_len);
    const u32 sum = bdi_plan_lines(chunk, lines, planned);
    const BdiSections at = bdi_sections(lines, bdi_masks_len(sum));
    return {at.data + bdi_data_len(sum), bdi_masks_len(sum)};
  }

  MGC_DEV void emit_chunk(const RawChunk& chunk, const Plan& plan, u8* coded) {
    const BdiPlannedLine* const planned = (const BdiPlannedLine*)chunk.scratch;
    const u32 lines = bdi_line_count(chunk.raw_len);
    const BdiSections at = bdi_sections(lines, plan.masks_len);
    bdi_put_forms(planned, lines, at, coded);
    bdi_put_lines(chunk, planned, lines, at, coded);
  }

  MGC_DEV u32 decode_chunk(const CodedChunk& chunk) {
    u32* const starts = (u32*)chunk.scratch;
    const u32 lines = bdi_line_count(chunk.raw_len);
    if ((lines + 1) / 2 > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
    u32 sum;
    u32 code = bdi_read_forms(chunk, lines, starts, &sum);
    const BdiSections at = bdi_sections(lines, bdi_masks_len(sum));
    const u32 misplaced = bdi_check_sections(chunk, at, bdi_data_len(sum));
    if (code == MGC_GOOD) code = misplaced;
    if (block_fails(code)) return code;
    bdi_expand(chunk, at, starts);
    return MGC_GOOD;
  }
};

MGC_KERNELS(bdi, Bdi)
