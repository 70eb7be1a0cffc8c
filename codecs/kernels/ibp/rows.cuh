// Rows of a packed table, by their indices, from memory of the host to memory of the device.
//
// Warp:    one row at a time, 32 words of it a step. Where the bits of each word start is a running sum over the lanes.
// Traffic: over the link to the host the aligned pieces of 128 bytes that the stored bytes of a row lie in, each once;
//          8 bytes of mask and value a word, twice, from a cache; each byte of a row is written once.
// Link:    a warp waits for one piece while the next is under way, so some hundred warps keep a link busy.
// Tail:    bytes short of a granule are stored as they are.
// Scope:   lanes of one warp meet at its synchronisation; blocks when they end, in the workspace.
// Input:   anything: rows that somebody else wrote to, indices of no row. What may be wrong is found before a byte
//          outside of the table is read; the row then holds anything.
#pragma once
#include "ibp/cache.cuh"
#include "ibp/pieces.cuh"
#include "ibp/word.cuh"

// What is left in `MgcRows::report`.
struct RowsReport {
  u64 status;  // as for frames, with the position among the indices in place of the chunk
  u64 rows;    // that were read from the table
  u64 packed_rows;
  u64 stored_bytes;
  u64 link_bytes;  // of their pieces
  u64 hits;  // rows that were cached
};
static_assert(sizeof(RowsReport) == 8 * MGC_ROWS_REPORT_WORDS, "the hosts know the length");

// Sums over all blocks. The status is kept with all its bits inverted, so that none is zero and the first is largest.
struct RowsWorkspace {
  u32 done;  // blocks that have ended
  u32 gap;
  RowsReport sums;
};
static_assert(sizeof(RowsWorkspace) <= 8 * MGC_WORKSPACE_WORDS, "hosts give as much as for a batch");

// Where a row is, and how it is stored.
struct RowPlace {
  const u8* memory;  // on a multiple of the piece
  u64 memory_len;
  u64 start;  // in the memory
  u32 room;   // bytes from there on that may be the row's
  u32 cluster;
  bool is_packed;
};

MGC_DEV RowPlace place_in_slots(const MgcRows& table, u64 row) {
  RowPlace place;
  place.memory = table.slots;
  place.memory_len = table.rows * table.row_len;
  place.start = row * table.row_len;
  place.room = table.row_len;
  place.is_packed = table.packed[row / 8] >> (row % 8) & 1;
  place.cluster = place.is_packed && table.clusters != nullptr ? table.clusters[row] : 0;
  return place;
}

MGC_DEV RowPlace place_in_slab(const MgcRows& table, u64 entry) {
  const u32 slab = entry >> 40 & (MGC_MAX_SLABS - 1);
  RowPlace place;
  place.memory = table.slabs[slab];
  place.memory_len = table.slab_lens[slab];
  place.start = entry & ((1ull << 40) - 1);
  const u64 behind = place.start < place.memory_len ? place.memory_len - place.start : 0;
  place.room = behind < table.row_len ? (u32)behind : table.row_len;
  place.is_packed = entry >> 43 & 1;
  place.cluster = entry >> 44 & 0xff;
  return place;
}

// A row while it is read. Places in it count from the start of its first piece.
struct RowReader {
  Pieces pieces;
  RowShape shape;
  const uint2* masks;  // of its cluster
  u32 start;           // its first byte
  u32 kept;            // the first of its kept bits, in bytes
  u32 end;             // behind the last byte that may be its
  bool is_packed;
};

// Whether the granule of a word participates.
MGC_DEV bool participates(const RowReader& row, u32 word) {
  const u32 bit = 8 * row.start + word / row.shape.granule_words;
  return row.is_packed && word < row.shape.words && (row.pieces.head[bit / 32] >> bit % 32 & 1) != 0;
}

// Bits that are kept of a word.
MGC_DEV u32 kept_bits(const RowReader& row, u32 word, u32 mask, bool is_participating) {
  if (word >= row.shape.words) return 0;
  return is_participating ? 32 - __popc(mask) : 32;
}

MGC_DEV uint2 row_mask(const RowReader& row, u32 word) {
  return row.is_packed && word < row.shape.words ? row.masks[word] : make_uint2(0, 0);
}

// Begins to read a row. `least_lens` says how many bytes it takes at the least.
MGC_DEV u32 open_row(const MgcRows& table, const RowPlace& place, RowReader& row) {
  if (place.is_packed && place.cluster >= table.cluster_count) return MGC_BAD_CHUNK_FIELD;
  const u32 participation_len = place.is_packed ? row.shape.participation_len : 0;
  if (place.room == 0 || participation_len > place.room) return MGC_BAD_CHUNK_TRUNCATED;
  const u32 least = place.is_packed ? table.least_lens[place.cluster] : table.row_len;
  row.start = place.start % MGC_PIECE_LEN;
  row.kept = row.start + participation_len;
  row.end = row.start + place.room;
  row.is_packed = place.is_packed;
  row.masks = table.masks + (u64)place.cluster * row.shape.words;
  row.pieces.memory = place.memory + (place.start - row.start);
  row.pieces.readable = place.memory_len - (place.start - row.start);
  row.pieces.heads = place.is_packed ? (row.kept + MGC_PIECE_LEN - 1) / MGC_PIECE_LEN : 0;
  begin_pieces(row.pieces, row.start + (least < place.room ? least : place.room));
  await_pieces(row.pieces, row.kept);
  return MGC_GOOD;
}

// Bits of all words together, once the participation bits are there.
MGC_DEV u32 sum_kept_bits(const RowReader& row) {
  if (!row.is_packed) return 32 * row.shape.words;
  u32 bits = 0;
  for (u32 word = threadIdx.x % 32; word < row.shape.words; word += 32) {
    bits += kept_bits(row, word, row.masks[word].x, participates(row, word));
  }
  return __reduce_add_sync(0xffffffffu, bits);
}

// Whether bits that no granule has are clear: those behind the last participation bit.
MGC_DEV bool participation_is_padded(const RowReader& row) {
  const u32 used = row.shape.granules % 8, at = row.kept - 1;
  if (!row.is_packed || used == 0) return true;
  return (row.pieces.head[at / 4] >> 8 * (at % 4) & 0xff) >> used == 0;
}

MGC_DEV void put_word(u8* to, u32 word) {
  if ((u64)to % 4 == 0) {
    *(u32*)to = word;
    return;
  }
  for (u32 i = 0; i < 4; i++) to[i] = (u8)(word >> 8 * i);
}

// Decodes whole granules to `out`; all of their bits are the row's.
MGC_DEV void read_words(RowReader& row, u8* out) {
  const u32 lane = threadIdx.x % 32;
  u32 start = 8 * row.kept;
  for (u32 first = 0; first < row.shape.words; first += 32) {
    const u32 word = first + lane;
    const uint2 mask = row_mask(row, word);
    const bool is_participating = participates(row, word);
    const u32 len = kept_bits(row, word, mask.x, is_participating);
    const u32 inclusive = warp_scan(len);
    const u32 at = start + inclusive - len;
    start += __shfl_sync(0xffffffffu, inclusive, 31);
    await_pieces(row.pieces, (start + 7) / 8);
    IbpWord own[1] = {ibp_word(mask.x, mask.y)};
    const u32 runs = ibp_find_runs(own);
    const u32 bits[1] = {piece_bits(row.pieces, at)};
    u32 scattered[1];
    ibp_scatter(own, runs, bits, scattered);
    if (word < row.shape.words) put_word(out + 4 * word, is_participating ? scattered[0] : bits[0]);
  }
}

// Decodes a row to `out`; `*len` becomes its stored length in bytes, if it is good.
MGC_DEV u32 read_row(const MgcRows& table, const RowPlace& place, RowReader& row, u8* out, u32* len) {
  const u32 code = open_row(table, place, row);
  if (code != MGC_GOOD) return code;
  if (!participation_is_padded(row)) return MGC_BAD_CHUNK_PADDING;
  const u32 bits = sum_kept_bits(row), kept_end = row.kept + (bits + 7) / 8;
  if (kept_end > row.end) return MGC_BAD_CHUNK_TRUNCATED;
  const u32 tail_end = kept_end + row.shape.tail_len;
  want_pieces(row.pieces, tail_end < row.end ? tail_end : row.end);
  read_words(row, out);
  if (bits % 8 != 0 && (piece_bits(row.pieces, 8 * (kept_end - 1)) & 0xff) >> bits % 8 != 0) {
    return MGC_BAD_CHUNK_PADDING;
  }
  if (tail_end > row.end) return MGC_BAD_CHUNK_TRUNCATED;
  await_pieces(row.pieces, tail_end);
  const u32 t = threadIdx.x % 32;
  if (t < row.shape.tail_len) out[4 * row.shape.words + t] = (u8)piece_bits(row.pieces, 8 * (kept_end + t));
  *len = tail_end - row.start;
  return MGC_GOOD;
}

// Gives row `table.indices[position]`, and adds to `sums`.
MGC_DEV void gather_row(const MgcRows& table, u64 position, RowReader& row, RowsReport& sums) {
  const u64 index = table.indices[position];
  u32 code = index < table.rows ? MGC_GOOD : MGC_BAD_ROW, len = 0;
  if (code == MGC_GOOD) {
    const u64 entry = table.map != nullptr ? find_entry(table, index) : MGC_ENTRY_FREE;
    const bool is_hit = entry != MGC_ENTRY_FREE;
    const RowPlace place = is_hit ? place_in_slab(table, entry) : place_in_slots(table, index);
    code = read_row(table, place, row, table.out + position * table.row_len, &len);
    if (code == MGC_GOOD && is_hit) sums.hits++;
    if (code == MGC_GOOD && !is_hit) {
      sums.rows++;
      sums.packed_rows += place.is_packed;
      sums.stored_bytes += len;
      sums.link_bytes += (u64)row.pieces.wanted * MGC_PIECE_LEN;
    }
  }
  const u64 status = ~(position << MGC_STATUS_CODE_BITS | code);
  if (code != MGC_GOOD && status > sums.status) sums.status = status;
}

// Adds what a warp found to what the others did; the last block makes the report of it.
MGC_DEV void settle_rows(const MgcRows& table, const RowsReport& sums) {
  RowsWorkspace* const workspace = (RowsWorkspace*)table.workspace;
  RowsReport* const all = &workspace->sums;
  if (threadIdx.x % 32 == 0) {
    if (sums.status != 0) atomicMax(&all->status, sums.status);
    if (sums.rows != 0) atomicAdd(&all->rows, sums.rows);
    if (sums.packed_rows != 0) atomicAdd(&all->packed_rows, sums.packed_rows);
    if (sums.stored_bytes != 0) atomicAdd(&all->stored_bytes, sums.stored_bytes);
    if (sums.link_bytes != 0) atomicAdd(&all->link_bytes, sums.link_bytes);
    if (sums.hits != 0) atomicAdd(&all->hits, sums.hits);
  }
  __syncthreads();  // All warps of the block have added.
  if (threadIdx.x != 0 || atomic_add_acq_rel_gpu(&workspace->done, 1) + 1 != gridDim.x) return;
  if (table.totals != nullptr) {
    atomicAdd(&table.totals[0], ld_relaxed_gpu(&all->hits));
    atomicAdd(&table.totals[1], ld_relaxed_gpu(&all->rows));
  }
  u64* const words = (u64*)all;
  for (u32 i = 0; i < MGC_ROWS_REPORT_WORDS; i++) {
    const u64 word = ld_relaxed_gpu(words + i);
    table.report[i] = i == 0 && word != 0 ? ~word : word;
    words[i] = 0;
  }
  workspace->done = 0;
}

// Takes MGC_BLOCK_THREADS threads a block, any number of blocks, and `rows_shared_len` bytes of shared memory.
MGC_KERNEL void __launch_bounds__(MGC_BLOCK_THREADS, 4) ibp_rows(MGC_PARAM(MgcRows) table) {
  MGC_DYNAMIC_SHARED(shared);
  const u32 warp = threadIdx.x / 32;
  RowReader row;
  row.shape = row_shape(table.row_len, table.granule);
  const u32 head_words = row_head_words(row.shape);
  row.pieces.head = (u32*)shared + warp * head_words;
  row.pieces.ring = (u32*)shared + MGC_BLOCK_WARPS * head_words + warp * MGC_ROW_RING_WORDS;
  RowsReport sums = {0, 0, 0, 0, 0, 0};
  const u64 step = (u64)gridDim.x * MGC_BLOCK_WARPS;
  for (u64 position = (u64)blockIdx.x * MGC_BLOCK_WARPS + warp; position < table.count; position += step) {
    gather_row(table, position, row, sums);
  }
  settle_rows(table, sums);
}
