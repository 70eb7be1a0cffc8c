// Writing frames: every chunk of a batch is read once, coded in shared memory, and written once, in its place.
//
// What a codec's author supplies is a line in codecs.h, and in <codec>/<codec>.cu:
//
//   #include "kernels.cuh"
//   struct Zvc {
//     static constexpr u32 ENCODE_BLOCKS = 5, DECODE_BLOCKS = 5;
//     struct Plan { u32 len; ... };
//     MGC_DEV Plan plan_chunk(const RawChunk&);
//     MGC_DEV void emit_chunk(const RawChunk&, const Plan&, u8* coded);
//     MGC_DEV u32 decode_chunk(const CodedChunk&);  // see read.cuh
//   };
//   MGC_KERNELS(zvc, Zvc)
//
// The functions are static (MGC_DEV says so). All MGC_BLOCK_THREADS threads call each of them together, so
// barriers, block_scan and MGC_SHARED objects are at hand. The constants say how many blocks must fit on a
// multiprocessor by their registers: 65536 / 256 / blocks is what a thread may have, 48 for 5.
//
// plan_chunk   finds out how long the code will be. It writes to the scratch and to MGC_SHARED objects only, or
//              to the raw bytes if it calls reload_chunk where coding saves no unit. A Plan is what a thread
//              keeps in registers; `len`, in bytes and the same in all threads, is exactly what the portable
//              encoder gives, or anything that takes no fewer units than the raw chunk if that does. The
//              estimate is this and no more.
// emit_chunk   writes bytes 0 to len - 1 of the code. It is called only if coding saves a unit. It may write
//              up to the next multiple of 16, and what is there then does not matter; a byte behind that is
//              out of bounds. `coded` is shared memory on a multiple of 16, garbage at first. Nobody needs the
//              raw bytes any more.
//
// The raw bytes are in shared memory on a multiple of 16, with zeros behind them up to the next multiple of
// 128 from their start: whole lines and entries. Before a plan and after an emit there is a barrier, between
// them none: if threads emit from scratch that others planned, plan_chunk ends with __syncthreads(). (A
// block_scan behind the last write to the scratch does as well.)
//
// Order of things in a block: where frames may have codebooks, trials first (trial.cuh). Then take a ticket, so that
// chunks are begun in order whatever the grid; load; plan; tell the others the length at once; emit, while they do the
// same; look back for the place; ask for the next ticket; stream out with 16-byte stores. The block with the last chunk
// of a job writes header, length and status. The last block to end zeroes the workspace.
#pragma once
#include "frame/batch.cuh"
#include "frame/frame.cuh"
#include "frame/lookback.cuh"

// A chunk to encode.
struct RawChunk {
  u8* raw;         // in shared memory
  const u8* from;  // the same bytes, where they were loaded from; null if who plans gets them again without help
  u8* scratch;     // shared memory on a multiple of 16: bytes per KiB of `capacity` as codecs.h says
  u32 raw_len;
  u32 capacity;  // the chunk size
  u32 element;
  u32 width_log2;      // of an element, in bytes
  u64 raw_start;       // from the start of the raw bytes, in bytes
  const u8* codebook;  // the section of one that was opened before
};

// Raw bytes are followed by zeros up to a multiple of this.
#define MGC_RAW_ALIGN 128

// Bytes of global memory that go together.
#define MGC_CACHE_LINE_LEN 128

// Where a job's frame has its parts.
struct FrameShape {
  u32 chunks;
  u32 chunks_offset;
};

MGC_DEV FrameShape frame_shape(u64 raw_len, u32 chunk_log2) {
  // Fits: raw_len is below 2^36 and a chunk has at least 2^12 bytes.
  const u32 chunks = (u32)((raw_len + (1ull << chunk_log2) - 1) >> chunk_log2);
  return {chunks, round_up(MGC_HEADER_LEN + chunks * MGC_ENTRY_LEN, MGC_UNIT)};
}

// Whole units that hold `len` bytes of a chunk.
MGC_DEV u32 units_of(u32 len) { return (len + MGC_UNIT - 1) / MGC_UNIT; }

// Opens the codebook that a job is to be encoded with: body and all.
MGC_DEV u32 open_own_codebook(const MgcJob& job, Codebook* codebook) {
  if ((u64)job.codebook % MGC_UNIT != 0) return MGC_BAD_ALIGNMENT;
  const u32 code = open_codebook(job.codebook, (u64)job.codebook_units * MGC_UNIT, codebook);
  return code == MGC_GOOD && codebook->masks == nullptr ? MGC_BAD_CODEBOOK : code;
}

// What keeps a job from being estimated. It depends on the job alone, so that all blocks agree.
MGC_DEV u32 check_raw(const MgcJob& job, u32 algorithm) {
  if (element_width_log2(job.element) < 0) return MGC_BAD_ELEMENT;
  if (job.src_len > MGC_MAX_RAW_LEN) return MGC_BAD_RAW_LENGTH;
  if (!has_codebooks(algorithm) || job.codebook == nullptr) return MGC_GOOD;
  Codebook codebook;
  return open_own_codebook(job, &codebook);
}

// What keeps a job from being encoded.
MGC_DEV u32 check_job(const MgcJob& job, u32 algorithm, u32 chunk_log2) {
  const u32 code = check_raw(job, algorithm);
  if (code != MGC_GOOD) return code;
  if ((u64)job.dst % MGC_UNIT != 0) return MGC_BAD_ALIGNMENT;
  const u64 raw_units = (job.src_len + MGC_UNIT - 1) / MGC_UNIT;
  const u64 longest = frame_shape(job.src_len, chunk_log2).chunks_offset + raw_units * MGC_UNIT;
  return job.dst_len < longest ? MGC_BAD_ROOM : MGC_GOOD;
}

// Starts to bring `len` raw bytes and the zeros behind them to shared memory; finish_load ends it. At an
// address that is no multiple of 16 or 4 it takes smaller pieces, which is right but slow.
MGC_DEV void start_load(const u8* from, u32 len, u8* raw) {
  u32 loaded = 0;
  if ((u64)from % MGC_UNIT == 0) {
    loaded = len / MGC_UNIT * MGC_UNIT;
    start_copy(raw, from, loaded);
  } else if ((u64)from % 4 == 0) {
    loaded = len / 4 * 4;
    for (u32 at = threadIdx.x * 4; at < loaded; at += MGC_BLOCK_THREADS * 4) {
      *(u32*)(raw + at) = *(const u32*)(from + at);
    }
  }
  cp_async_commit();
  for (u32 at = loaded + threadIdx.x; at < len; at += MGC_BLOCK_THREADS) raw[at] = from[at];
  const u32 at = len + threadIdx.x;
  if (at < round_up(len, MGC_RAW_ALIGN)) raw[at] = 0;
}

MGC_DEV void finish_load() {
  cp_async_wait<0>();
  __syncthreads();
}

// The first `left` bytes of a word; zeros behind them. `left` may be negative, or more than there are.
MGC_DEV u32 first_bytes(u32 word, int left) {
  return left >= 4 ? word : left <= 0 ? 0 : word & ((1u << 8 * left) - 1);
}

// Writes `len` bytes from shared memory to a multiple of 16, and zeros up to the next unit. A warp writes whole lines of
// memory: memory of the host gets pieces of a line one by one, and the device's takes longer for them.
MGC_DEV void stream_out(const u8* from, u32 len, u8* to) {
  const int end = (int)len, ahead = (int)((u64)to % MGC_CACHE_LINE_LEN);  // bytes of the first line before `to`
  for (int at = (int)(threadIdx.x * MGC_UNIT) - ahead; at < end; at += MGC_BLOCK_THREADS * MGC_UNIT) {
    if (at < 0) continue;
    uint4 unit = *(const uint4*)(from + at);
    const int left = end - at;
    if (left < MGC_UNIT) {
      unit = make_uint4(first_bytes(unit.x, left), first_bytes(unit.y, left - 4),
                        first_bytes(unit.z, left - 8), first_bytes(unit.w, left - 12));
    }
    *(uint4*)(to + at) = unit;
  }
}

// For a plan that changed the raw bytes and finds that they are to be stored as they are.
MGC_DEV void reload_chunk(const RawChunk& chunk) {
  if (chunk.from == nullptr) return;
  __syncthreads();
  start_load(chunk.from, chunk.raw_len, chunk.raw);
  finish_load();
}

// The codebook of a frame, `len` bytes, which holds the body or none.
MGC_DEV void write_codebook(const u8* section, u32 len, u8* to) {
  for (u32 at = threadIdx.x * MGC_UNIT; at < len; at += MGC_BLOCK_THREADS * MGC_UNIT) {
    uint4 unit = *(const uint4*)(section + at);
    if (len == MGC_CODEBOOK_HEADER_LEN) unit.z = unit.w = 0;
    *(uint4*)(to + at) = unit;
  }
}

// Header, padding of the table, codebook, length and status of a frame whose chunks take `units`.
MGC_DEV void finish_frame(const MgcJob& job, u32 algorithm, u32 chunk_log2, u32 units, u32 codebook_len) {
  const FrameShape shape = frame_shape(job.src_len, chunk_log2);
  const u32 padding = MGC_HEADER_LEN + (shape.chunks + threadIdx.x) * MGC_ENTRY_LEN;
  if (padding < shape.chunks_offset) *(u32*)(job.dst + padding) = 0;
  if (codebook_len != 0) write_codebook(job.codebook, codebook_len, job.dst + shape.chunks_offset);
  if (threadIdx.x != 0) return;
  // Magic, version 0, algorithm; element, flags, chunk size, 0; raw length.
  const u32 first = 'M' | 'G' << 8 | MGC_FRAME_VERSION << 16 | algorithm << 24;
  const u32 flags = codebook_len != 0 ? MGC_FLAG_CODEBOOK : 0;
  const u32 second = job.element | flags << 8 | chunk_log2 << 16;
  *(uint4*)job.dst = make_uint4(first, second, (u32)job.src_len, (u32)(job.src_len >> 32));
  *job.out_len = shape.chunks_offset + codebook_len + (u64)units * MGC_UNIT;
  *job.status = MGC_GOOD;
}

// What the threads of an encoding block tell each other.
struct EncodeShared {
  u32 ticket;
  u32 job;   // whose chunk it is
  u32 code;  // what keeps the job from being encoded
  u32 units_before;
  u32 codebook_len;  // of the frame whose chunk it is, in bytes
};

// Where chunk `index` of a job starts, in units; tells the others where it ends. For the first warp.
MGC_DEV u32 find_place(u64* states, u32 index, u32 units) {
  if (index == 0) return 0;
  const u32 before = look_back(states, index);
  if (threadIdx.x == 0) st_relaxed_gpu(states + index, MGC_STATE_END | (before + units));
  return before;
}

// What is to be stored of a chunk, and where.
struct PlacedChunk {
  const u8* from;  // in shared memory
  u32 len;
  u32 units_before;
};

// Encodes chunk `index` of a job, which is all loaded, and finds its place. The code ends at `end`, in shared
// memory. There is a barrier behind.
template <class Codec>
MGC_DEV PlacedChunk place_chunk(const MgcBatch& batch, const MgcJob& job, u32 index, const RawChunk& chunk,
                                u8* end, EncodeShared& shared) {
  typename Codec::Plan plan;
  plan.len = chunk.raw_len;
  // Without a codebook nothing is coded that needs one.
  if (!has_codebooks(Codec::ALGORITHM) || shared.codebook_len != 0) plan = Codec::plan_chunk(chunk);
  const bool is_coded = units_of(plan.len) < units_of(chunk.raw_len);
  const u32 len = is_coded ? plan.len : chunk.raw_len, units = units_of(len);
  u64* const states = chunk_states(batch) + job.first_chunk;
  if (threadIdx.x == 0) st_relaxed_gpu(states + index, (index == 0 ? MGC_STATE_END : MGC_STATE_LEN) | units);

  u8* const coded = end - units * MGC_UNIT;
  if (is_coded) Codec::emit_chunk(chunk, plan, coded);
  if (threadIdx.x < 32) {
    const u32 before = find_place(states, index, units);
    if (threadIdx.x == 0) {
      shared.units_before = before;
      ((u32*)(job.dst + MGC_HEADER_LEN))[index] = before + units;
    }
  }
  __syncthreads();
  return {is_coded ? coded : chunk.raw, len, shared.units_before};
}

// Writes chunk `index` of a job to its place; after the last one, all else of the frame.
MGC_DEV void store_chunk(const MgcJob& job, u32 algorithm, u32 chunk_log2, u32 index, const PlacedChunk& chunk,
                         u32 codebook_len) {
  const FrameShape shape = frame_shape(job.src_len, chunk_log2);
  u8* const chunks = job.dst + shape.chunks_offset + codebook_len;
  stream_out(chunk.from, chunk.len, chunks + (u64)chunk.units_before * MGC_UNIT);
  if (index + 1 < shape.chunks) return;
  finish_frame(job, algorithm, chunk_log2, chunk.units_before + units_of(chunk.len), codebook_len);
}

// Chunk `index` of a job, on its way to shared memory.
MGC_DEV RawChunk start_chunk(const MgcJob& job, u32 index, u32 capacity, u8* raw, u8* scratch) {
  const u64 start = (u64)index * capacity, left = job.src_len - start;
  const u32 raw_len = left < capacity ? (u32)left : capacity;
  start_load(job.src + start, raw_len, raw);
  const u32 width_log2 = (u32)element_width_log2(job.element);
  return {raw, job.src + start, scratch, raw_len, capacity, job.element, width_log2, start, job.codebook};
}

#include "frame/trial.cuh"

// Finds the job of a ticket, and checks it. For one thread.
template <class Codec>
MGC_DEV void open_ticket(const MgcBatch& batch, u32 ticket, EncodeShared& shared) {
  shared.ticket = ticket;
  if (ticket >= batch.chunks) return;
  shared.job = find_job(batch.jobs, ticket, [&](u32 i) { return batch.job[i].first_chunk; });
  shared.code = check_job(batch.job[shared.job], Codec::ALGORITHM, batch.chunk_log2);
}

// The body of every encode kernel.
template <class Codec>
MGC_DEV void encode_frames(const MgcBatch& batch) {
  MGC_SHARED(EncodeShared, shared);
  MGC_DYNAMIC_SHARED(memory);
  const u32 capacity = 1u << batch.chunk_log2;
  u8 *const raw = memory, *const scratch = raw + capacity;
  // Codes end where the memory does: what writes behind them is out of bounds.
  u8* const end = scratch + (capacity >> 10) * Codec::ENCODE_SCRATCH + capacity;
  u32* const tickets = &workspace_of(batch)->ticket;

  if (has_codebooks(Codec::ALGORITHM)) try_codebooks<Codec>(batch, raw, scratch, shared);
  u32 next = threadIdx.x == 0 ? atomicAdd(tickets, 1u) : 0;
  for (;;) {
    if (threadIdx.x == 0) open_ticket<Codec>(batch, next, shared);
    __syncthreads();  // Nobody reads the last chunk's buffers any more, either.
    const u32 ticket = shared.ticket, j = shared.job, code = shared.code;
    if (ticket >= batch.chunks) break;
    const MgcJob& job = batch.job[j];
    const u32 index = ticket - job.first_chunk;
    const bool is_work = code == MGC_GOOD && job.src_len != 0;
    PlacedChunk placed = {nullptr, 0, 0};
    if (is_work) {
      const RawChunk chunk = start_chunk(job, index, capacity, raw, scratch);
      if (has_codebooks(Codec::ALGORITHM) && threadIdx.x == 0) shared.codebook_len = final_codebook_len(batch, j);
      finish_load();
      placed = place_chunk<Codec>(batch, job, index, chunk, end, shared);
    }
    // The next ticket is on its way while the bytes are stored. Not before: who holds a chunk keeps those behind
    // it waiting.
    if (threadIdx.x == 0) next = atomicAdd(tickets, 1u);
    if (is_work) {
      const u32 codebook_len = has_codebooks(Codec::ALGORITHM) ? shared.codebook_len : 0;
      store_chunk(job, Codec::ALGORITHM, batch.chunk_log2, index, placed, codebook_len);
      continue;
    }
    if (code == MGC_GOOD) {
      finish_frame(job, Codec::ALGORITHM, batch.chunk_log2, 0, 0);
    } else if (index == 0 && threadIdx.x == 0) {
      *job.out_len = 0;
      *job.status = code;
    }
    __syncthreads();  // All threads have read this ticket.
  }
  if (is_last_block(batch)) clear_workspace(batch, batch.chunks);
}

// The body of every estimate kernel: the length of the frame that the encode kernel would write.
template <class Codec>
MGC_DEV void estimate_frames(const MgcBatch& batch) {
  MGC_DYNAMIC_SHARED(memory);
  const u32 capacity = 1u << batch.chunk_log2;
  u64* const sums = workspace_of(batch)->job;
  for (u32 ticket = blockIdx.x; ticket < batch.chunks; ticket += gridDim.x) {
    const u32 j = find_job(batch.jobs, ticket, [&](u32 i) { return batch.job[i].first_chunk; });
    const MgcJob& job = batch.job[j];
    if (check_raw(job, Codec::ALGORITHM) != MGC_GOOD || job.src_len == 0) continue;
    if (has_codebooks(Codec::ALGORITHM) && job.codebook == nullptr) continue;
    const RawChunk chunk = start_chunk(job, ticket - job.first_chunk, capacity, memory, memory + capacity);
    finish_load();
    const u32 coded_len = Codec::plan_chunk(chunk).len;
    const u32 len = coded_len < chunk.raw_len ? coded_len : chunk.raw_len;
    if (threadIdx.x == 0) atomicAdd(&sums[j], (u64)units_of(len));
    __syncthreads();  // The next chunk uses the same memory.
  }
  if (!is_last_block(batch)) return;
  if (threadIdx.x < batch.jobs) {
    const MgcJob& job = batch.job[threadIdx.x];
    const u32 code = check_raw(job, Codec::ALGORITHM);
    const u64 units = sums[threadIdx.x];
    u64 len = frame_shape(job.src_len, batch.chunk_log2).chunks_offset;
    len += has_codebooks(Codec::ALGORITHM) ? tried_len(batch, job, units) : units * MGC_UNIT;
    *job.out_len = code == MGC_GOOD ? len : 0;
    *job.status = code;
  }
  __syncthreads();
  clear_workspace(batch, 0);
}
