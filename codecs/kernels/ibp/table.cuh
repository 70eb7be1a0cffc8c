// What one launch of ibp_rows works on: a table whose rows lie in memory of the host, and which of them are wanted.
//
// FORMAT.md draws a packed row. The struct is a kernel parameter, as a batch is; hosts mirror it field by field.
#pragma once
#include "common/block.cuh"

struct MgcRows {
  // The table. Of memory that ends within a word, the whole word may be read.
  const u8* slots;        // row i starts at byte i * row_len; on a multiple of MGC_PIECE_LEN
  u64 rows;
  const u8* packed;       // a bit for each row, the first one in the lowest: set = packed, clear = as it is
  const u8* clusters;     // a byte for each row: whose masks it leaves out; null if there is one cluster
  const uint2* masks;     // for each cluster mask and value of each word of the whole granules
  const u32* least_lens;  // for each cluster the fewest bytes that a packed row takes
  u32 row_len, granule, cluster_count;
  // Rows that are cached in device memory; see cache.cuh.
  u32 map_log2;
  const ulonglong2* map;  // 2^map_log2 pairs of a row and its entry; null if none are cached
  u64* totals;             // rows that were cached and rows that were not, over all calls; null if none are cached
  const u8* slabs[MGC_MAX_SLABS];  // on multiples of MGC_PIECE_LEN
  u64 slab_lens[MGC_MAX_SLABS];
  // The call.
  const u64* indices;
  u64 count;
  u8* out;         // `count` rows at any address
  u64* report;     // MGC_ROWS_REPORT_WORDS words; see rows.cuh
  u64* workspace;  // a RowsWorkspace; zero before and after
};
static_assert(sizeof(MgcRows) == 248, "the hosts have the same struct");

// How the rows of a table are cut.
struct RowShape {
  u32 words;              // of whole granules
  u32 granule_words;      // 1 or 2
  u32 granules;
  u32 participation_len;  // in bytes
  u32 tail_len;           // bytes behind the last whole granule
};

MGC_DEV RowShape row_shape(u32 row_len, u32 granule) {
  RowShape shape;
  shape.granules = row_len / granule;
  shape.granule_words = granule / 4;
  shape.words = shape.granules * shape.granule_words;
  shape.participation_len = (shape.granules + 7) / 8;
  shape.tail_len = row_len % granule;
  return shape;
}

// Words of shared memory in which a warp keeps the participation bits, wherever in a piece they start.
MGC_DEV u32 row_head_words(const RowShape& shape) {
  const u32 most = shape.participation_len + MGC_PIECE_LEN - 1;
  return (most + MGC_PIECE_LEN - 1) / MGC_PIECE_LEN * (MGC_PIECE_LEN / 4);
}

// Words of shared memory for the pieces of a row that came last.
#define MGC_ROW_RING_WORDS (2 * MGC_PIECE_LEN / 4)

// Dynamic shared memory of a launch in bytes.
MGC_DEV u32 rows_shared_len(u32 row_len, u32 granule) {
  return MGC_BLOCK_WARPS * 4 * (row_head_words(row_shape(row_len, granule)) + MGC_ROW_RING_WORDS);
}
