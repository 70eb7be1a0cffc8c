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

// A chunk that one thread has found for all.
struct FoundChunk {
  CodedChunk chunk;  // `stored` as it lies in the frame, no room yet; if `code` is not good, whatever was there before
  u32 job, index;  // which of the job's
  u32 code;        // why it cannot be decoded
};

struct DecodeShared {
  FrameView frames[MGC_MAX_JOBS];
  u32 first_chunk[MGC_MAX_JOBS];  // number of chunks of the frames before; a bad frame has none
  u32 chunks;                     // of all frames; here, because some codecs need all registers
  ScanShared<u32> scan;
  FoundChunk found[2];  // that which is worked on, and the next one
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
    u32 code = open_codebook(section, codebook_room(frame), &codebook);
    if (code == MGC_GOOD) code = check_codebook(section, codebook);
    if (code != MGC_GOOD) report(&workspace_of(batch)->job[j], 0, code);
  }
}

// Finds chunk `at` of all frames. For one thread.
template <class Codec>
MGC_DEV void find_chunk(const MgcBatch& batch, const DecodeShared& shared, u32 at, FoundChunk& found) {
  const u32 j = find_job(batch.jobs, at, [&](u32 i) { return shared.first_chunk[i]; });
  FrameView frame = shared.frames[j];
  frame.bytes = in_global(frame.bytes);
  CodedChunk chunk;
  found.job = j;
  found.index = at - shared.first_chunk[j];
  found.code = open_chunk(frame, found.index, &chunk);
  if (found.code != MGC_GOOD) return;
  if (has_codebooks(Codec::ALGORITHM)) {
    const u8* const section = codebook_section(frame);
    chunk.codebook_code = open_frame_codebook(section, codebook_room(frame), batch.known_codebook, &chunk.codebook);
  }
  found.chunk = chunk;
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
  if (threadIdx.x == 0) {
    shared.chunks = chunks;
    if (blockIdx.x < chunks) find_chunk<Codec>(batch, shared, blockIdx.x, shared.found[0]);
  }
  __syncthreads();  // The first chunk is found.
  u32 turn = 0;
  for (u32 at = blockIdx.x; at < shared.chunks; at += gridDim.x, turn ^= 1) {
    const FoundChunk& found = shared.found[turn];
    const u32 next = at + gridDim.x;
    if (found.code == MGC_GOOD) start_copy(end - found.chunk.stored_len, found.chunk.stored, found.chunk.stored_len);
    cp_async_commit();
    // The next one is found while the bytes are on their way.
    if (threadIdx.x == 0 && next < shared.chunks) find_chunk<Codec>(batch, shared, next, shared.found[turn ^ 1]);
    cp_async_wait<0>();
    __syncthreads();  // The bytes are there.
    u32 code = found.code;
    if (code == MGC_GOOD) {
      CodedChunk chunk = found.chunk;
      chunk.capacity = capacity;
      chunk.scratch = memory;
      chunk.stored = end - chunk.stored_len;
      chunk.dst = in_global(chunk.dst);
      chunk.codebook.masks = in_global(chunk.codebook.masks);
      const bool is_raw = chunk.stored_len == round_up(chunk.raw_len, MGC_UNIT);
      code = is_raw ? copy_chunk(chunk) : Codec::decode_chunk(chunk);
    }
    if (code != MGC_GOOD) report(&statuses[found.job], found.index, code);
    __syncthreads();  // The next chunk uses the same shared memory.
  }
  if (!is_last_block(batch)) return;
  if (threadIdx.x < batch.jobs) *batch.job[threadIdx.x].status = statuses[threadIdx.x];
  __syncthreads();
  clear_workspace(batch, 0);
}
