// Rows that are cached in device memory: where they are.
//
// A map of pairs, row and entry, with open addressing: a row stands in the first free pair from its hash on. An entry
// says where the row is and how it is stored:
//
//   bit  0 .. 39   40 .. 42   43       44 .. 51                52 .. 63
//        offset    slab       packed   cluster, 0 if not packed   0
#pragma once
#include "ibp/table.cuh"

// A pair that no row was ever put into, and one whose row is cached no more. No entry is as large.
#define MGC_ENTRY_FREE 0xffffffffffffffffull
#define MGC_ENTRY_GONE 0xfffffffffffffffeull
// Multiplies an index; the top bits of the product are its hash.
#define MGC_ROW_HASH 0x9e3779b97f4a7c15ull

// The entry of a row, or MGC_ENTRY_FREE if it is not cached. The whole warp calls it, with the same row, and looks at 32
// pairs at a time.
MGC_DEV u64 find_entry(const MgcRows& table, u64 row) {
  const u32 all = 0xffffffffu;
  const u64 pairs = 1ull << table.map_log2;
  const u64 hash = row * MGC_ROW_HASH >> (64 - table.map_log2);
  for (u64 probed = 0; probed < pairs; probed += 32) {
    const ulonglong2 pair = table.map[(hash + probed + threadIdx.x % 32) & (pairs - 1)];
    const u32 found = __ballot_sync(all, pair.x == row && pair.y < MGC_ENTRY_GONE);
    if (found != 0) return __shfl_sync(all, pair.y, __ffs((int)found) - 1);
    if (__any_sync(all, pair.y == MGC_ENTRY_FREE)) break;
  }
  return MGC_ENTRY_FREE;
}
