// Reading frames: every chunk of a batch is read once, decoded from shared memory, and written once.
//
// A codec's author supplies, beside what write.cuh says,
//
//   MGC_DEV u32 decode_chunk(const CodedChunk&);
//
// for chunks that are not stored raw. All threads of the block call it together; the coded bytes are in shared
// memory. It writes all raw bytes of the chunk (store_unit does the last unit and odd addresses), or says what
// is wrong: each thread returns what it found itself, MGC_GOOD if nothing, and all return from the same place,
// because barriers follow. Nothing in the coded bytes may be believed before it was checked: no access outside
// of `stored`, `scratch` and `dst`, whatever they hold. The kernel accepts what the portable decoder accepts.
//
// Block b takes chunks b, b + gridDim.x, and so on, counted over all frames of the batch, so that the host can
// choose the grid before it knows the headers; it reports what is wrong and goes on with the next chunk.
// Checksums in the chunk table are not compared.
#pragma once
#include "frame/batch.cuh"
#include "frame/frame.cuh"

struct DecodeShared {
  FrameView frames[MGC_MAX_JOBS];
  u32 first_chunk[MGC_MAX_JOBS];  // number of chunks of the frames before; a bad frame has none
  ScanShared<u32> scan;
};

// Opens the frame of a job.
MGC_DEV u32 open_job(const MgcJob& job, u32 algorithm, u32 chunk_log2, FrameView* frame) {
  const u64 len = job.src_len_at == nullptr ? job.src_len : *job.src_len_at;
  if (len > job.src_len) return MGC_BAD_TRUNCATED;
  const u32 code = open_frame(job.src, len, algorithm, job.dst, job.dst_len, frame);
  if (code == MGC_GOOD && frame->chunk_log2 > chunk_log2) return MGC_BAD_CHUNK_LIMIT;
  return code;
}

// Opens all frames, one per thread, and returns how many chunks they have.
MGC_DEV u32 open_jobs(const MgcBatch& batch, u32 algorithm, DecodeShared& shared) {
  const u32 j = threadIdx.x;
  u32 chunks = 0;
  if (j < batch.jobs) {
    FrameView frame;
    const u32 code = open_job(batch.job[j], algorithm, batch.chunk_log2, &frame);
    if (code == MGC_GOOD) {
      chunks = frame.chunks;
      shared.frames[j] = frame;
    } else if (blockIdx.x == 0) {
      report(&workspace_of(batch)->job[j], 0, code);
    }
  }
  u32 total;
  const u32 first_chunk = block_scan(chunks, shared.scan, &total);
  if (j < batch.jobs) shared.first_chunk[j] = first_chunk;
  __syncthreads();
  return total;
}

// Checks the codebooks that frames carry, each in one block: one of those with the fewest chunks.
MGC_DEV void check_codebooks(const MgcBatch& batch, u32 algorithm) {
  for (u32 j = 0; j < batch.jobs; j++) {
    FrameView frame;
    if (gridDim.x - 1 - j % gridDim.x != blockIdx.x) continue;
    if (open_job(batch.job[j], algorithm, batch.chunk_log2, &frame) != MGC_GOOD) continue;
    const u8* const section = codebook_section(frame);
    if (section == nullptr) continue;
    Codebook codebook;
    u32 code = open_codebook(section, frame.chunks_offset, &codebook);
    if (code == MGC_GOOD) code = check_codebook(section, codebook);
    if (code != MGC_GOOD) report(&workspace_of(batch)->job[j], 0, code);
  }
}

// Brings the stored bytes to shared memory, all at once, where they end at `end`; they are there for all threads
// afterwards.
MGC_DEV void stage(CodedChunk& chunk, u8* end) {
  u8* const to = end - chunk.stored_len;
  for (u32 at = threadIdx.x * MGC_UNIT; at < chunk.stored_len; at += MGC_BLOCK_THREADS * MGC_UNIT) {
    cp_async16(to + at, chunk.stored + at);
  }
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  chunk.stored = to;
}

// The body of every decode kernel.
template <class Codec>
MGC_DEV void decode_frames(const MgcBatch& batch) {
  MGC_SHARED(DecodeShared, shared);
  MGC_DYNAMIC_SHARED(memory);
  u64* const statuses = workspace_of(batch)->job;
  const u32 capacity = 1u << batch.chunk_log2;
  // Coded bytes end where the memory does: what reads behind them is out of bounds.
  u8* const end = memory + (capacity >> 10) * Codec::DECODE_SCRATCH + capacity;
  const u32 chunks = open_jobs(batch, Codec::ALGORITHM, shared);
  if (has_codebooks(Codec::ALGORITHM)) check_codebooks(batch, Codec::ALGORITHM);
  for (u32 at = blockIdx.x; at < chunks; at += gridDim.x) {
    const u32 j = find_job(batch.jobs, at, [&](u32 i) { return shared.first_chunk[i]; });
    const u32 index = at - shared.first_chunk[j];
    CodedChunk chunk;
    // Or else compilers keep the last one in registers, of which some codecs need all.
    constexpr bool is_large = Codec::DECODE_BLOCKS <= 3;
    if (is_large) chunk = {};
    FrameView frame = shared.frames[j];
    // Pointers that come from the parameter are known to be global.
    frame.bytes = batch.job[j].src;
    frame.dst = batch.job[j].dst;
    u32 code = open_chunk(frame, index, &chunk);
    if (code == MGC_GOOD) {
      chunk.capacity = capacity;
      chunk.scratch = memory;
      chunk.known_codebook = batch.known_codebook;
      if (is_large) chunk.dst = frame.dst + chunk.raw_start;  // again, where they see that it is global
      stage(chunk, end);
      const bool is_raw = chunk.stored_len == round_up(chunk.raw_len, MGC_UNIT);
      code = is_raw ? copy_chunk(chunk) : Codec::decode_chunk(chunk);
    }
    if (code != MGC_GOOD) report(&statuses[j], index, code);
    __syncthreads();  // The next chunk uses the same shared memory.
  }
  if (!is_last_block(batch)) return;
  if (threadIdx.x < batch.jobs) *batch.job[threadIdx.x].status = statuses[threadIdx.x];
  __syncthreads();
  clear_workspace(batch, 0);
}
