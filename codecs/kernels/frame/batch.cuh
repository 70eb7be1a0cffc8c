// What one launch works on: up to MGC_MAX_JOBS independent buffers, and the workspace that its blocks share.
//
// The batch is a kernel parameter, so nothing of it need stay alive on the host, and a CUDA graph keeps its
// own copy. Hosts mirror both structs field by field.
#pragma once
#include "common/block.cuh"

// One buffer. Source and destination do not overlap.
struct MgcJob {
  const u8* src;          // to encode: raw bytes at any address; to decode: a frame on a multiple of 16
  u64 src_len;            // in bytes
  union {
    const u64* src_len_at;  // to decode: where the frame's length is, at most src_len; null: it is src_len
    const u8* codebook;     // to encode: the codebook's section, body and all, on a multiple of 16; or null
  };
  u8* dst;                // to encode: on a multiple of 16; to decode: at any address
  u64 dst_len;            // to encode: the room there is; to decode: the raw length
  u64* out_len;           // encode and estimate leave the frame's length here, 0 if there is none
  u64* status;            // every kernel leaves a status word here
  u32 first_chunk;        // to encode: number of chunks of the jobs before, where no bytes count as one
  u16 element;            // to encode: number of the frame's element
  u16 codebook_units;     // to encode: units there are of the codebook, where more than it may have count as that
};

struct MgcBatch {
  u32 jobs;
  u32 chunks;      // to encode: of all jobs, counted as for first_chunk
  u32 chunk_log2;  // of the chunk size: to decode, of the largest one there is shared memory for
  u32 names_codebooks;       // to encode: 1 if frames only name their codebook; hosts give 0 so far, tests both
  u64* workspace;            // zero before the first launch; zero again after each
  const u8* known_codebook;  // to decode: the section of a codebook that frames may name, or null as hosts give so far
  u64 unused[4];
  MgcJob job[MGC_MAX_JOBS];
};
static_assert(sizeof(MgcJob) == 64 && sizeof(MgcBatch) == 4096, "the hosts have the same structs");

// The workspace. Launches that may run at the same time need one each.
struct Workspace {
  u32 ticket;  // chunks handed out
  u32 trial;   // encode with codebooks: chunks handed out to find out what they save
  u32 gap1[14];
  u32 done;  // blocks that have ended
  u32 gap2[15];
  u64 job[MGC_MAX_JOBS];  // decode: status; estimate: units; encode: see write.cuh
  u64 gap3;
};
static_assert(sizeof(Workspace) == 8 * MGC_WORKSPACE_WORDS, "the hosts know the length");

MGC_DEV Workspace* workspace_of(const MgcBatch& batch) { return (Workspace*)batch.workspace; }

// One word for each chunk of the batch; see lookback.cuh.
MGC_DEV u64* chunk_states(const MgcBatch& batch) { return batch.workspace + MGC_WORKSPACE_WORDS; }

// The last of `jobs` jobs that starts at `chunk` or before; `first_of` gives the first chunk of a job.
template <class FirstOf>
MGC_DEV u32 find_job(u32 jobs, u32 chunk, FirstOf first_of) {
  u32 job = 0;
  while (jobs > 1) {
    const u32 half = jobs / 2;
    if (first_of(job + half) <= chunk) job += half;
    jobs -= half;
  }
  return job;
}

// Every block calls it when it has ended its work; true in all threads of the last one, which then sees what
// all others did, and has to leave the workspace zero.
MGC_DEV bool is_last_block(const MgcBatch& batch) {
  u32 before = 0;
  __syncthreads();
  if (threadIdx.x == 0) before = atomic_add_acq_rel_gpu(&workspace_of(batch)->done, 1);
  return __syncthreads_or(threadIdx.x == 0 && before + 1 == gridDim.x) != 0;
}

// Zeroes the workspace and the states of `chunks` chunks.
MGC_DEV void clear_workspace(const MgcBatch& batch, u32 chunks) {
  const u64 words = MGC_WORKSPACE_WORDS + (u64)chunks;
  for (u64 i = threadIdx.x; i < words; i += MGC_BLOCK_THREADS) batch.workspace[i] = 0;
}
