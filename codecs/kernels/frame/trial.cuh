// Trials: whether a frame has its codebook. Part of write.cuh.
//
// It has it only if its chunks save as many units as it takes, and where its chunks start depends on that. So before
// they write, the blocks plan chunks, until it is known for all jobs; for most frames that is one chunk for each
// block. A job's word in the workspace has the units saved in its high half, the chunks planned in its low half.
// Nobody waits during a trial, so whoever waits for its end does not wait for ever.
#pragma once

// Length of the codebook in a job's frame, if the frame has it: 0 if there is none.
MGC_DEV u32 possible_codebook_len(const MgcBatch& batch, const MgcJob& job) {
  Codebook codebook;
  if (job.codebook == nullptr || open_own_codebook(job, &codebook) != MGC_GOOD) return 0;
  return batch.names_codebooks != 0 ? MGC_CODEBOOK_HEADER_LEN : codebook.section_len;
}

// The next chunk to plan, or any number from batch.chunks on. For one thread.
MGC_DEV u32 next_trial(const MgcBatch& batch, u32 algorithm) {
  Workspace* const workspace = workspace_of(batch);
  for (;;) {
    const u32 ticket = atomicAdd(&workspace->trial, 1u);
    if (ticket >= batch.chunks) return ticket;
    const u32 j = find_job(batch.jobs, ticket, [&](u32 i) { return batch.job[i].first_chunk; });
    const MgcJob& job = batch.job[j];
    const bool is_work = check_job(job, algorithm, batch.chunk_log2) == MGC_GOOD && job.src_len != 0;
    const u32 needed = is_work ? possible_codebook_len(batch, job) / MGC_UNIT : 0;
    if (ld_relaxed_gpu(&workspace->job[j]) >> 32 < needed) return ticket;
    atomicMax(&workspace->trial, j + 1 < batch.jobs ? batch.job[j + 1].first_chunk : batch.chunks);
  }
}

template <class Codec>
MGC_DEV void try_codebooks(const MgcBatch& batch, u8* raw, u8* scratch, EncodeShared& shared) {
  for (;;) {
    if (threadIdx.x == 0) shared.ticket = next_trial(batch, Codec::ALGORITHM);
    __syncthreads();
    const u32 ticket = shared.ticket;
    if (ticket >= batch.chunks) break;
    const u32 j = find_job(batch.jobs, ticket, [&](u32 i) { return batch.job[i].first_chunk; });
    const MgcJob& job = batch.job[j];
    const RawChunk chunk = start_chunk(job, ticket - job.first_chunk, 1u << batch.chunk_log2, raw, scratch);
    finish_load();
    const u32 coded_units = units_of(Codec::plan_chunk(chunk).len), raw_units = units_of(chunk.raw_len);
    const u64 saved = coded_units < raw_units ? raw_units - coded_units : 0;
    if (threadIdx.x == 0) atomicAdd(&workspace_of(batch)->job[j], saved << 32 | 1);
    __syncthreads();  // The next chunk uses the same shared memory.
  }
  __syncthreads();  // All threads have read this ticket.
}

// Length of the codebook in the frame of job `j`, which has chunks; waits until it is known. For one thread.
MGC_DEV u32 final_codebook_len(const MgcBatch& batch, u32 j) {
  const MgcJob& job = batch.job[j];
  const u32 len = possible_codebook_len(batch, job);
  const u32 chunks = frame_shape(job.src_len, batch.chunk_log2).chunks;
  for (;;) {
    const u64 trial = ld_relaxed_gpu(&workspace_of(batch)->job[j]);
    if (trial >> 32 >= len / MGC_UNIT) return len;
    if ((u32)trial == chunks) return 0;
    backoff();
  }
}

// What a frame takes for its codebook and its chunks, which take `units` with the codebook. In bytes.
MGC_DEV u64 tried_len(const MgcBatch& batch, const MgcJob& job, u64 units) {
  const u64 raw_units = (job.src_len + MGC_UNIT - 1) / MGC_UNIT;
  const u32 codebook_units = possible_codebook_len(batch, job) / MGC_UNIT;
  const bool pays = codebook_units != 0 && raw_units - units >= codebook_units;
  return (pays ? codebook_units + units : raw_units) * MGC_UNIT;
}
