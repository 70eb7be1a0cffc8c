// Gathers rows of tables from a file, in memory that ends where the tables do, so that a sanitizer sees the first byte
// outside.
//
// usage: replay_rows FILE
//
// A record, little-endian, is a `Record`; slots, bits and clusters of the rows; masks and least lengths of the clusters;
// the map and the slabs of a cache; the indices; and, if the status is 0, the rows.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../ibp/table.cuh"

extern "C" int mgc_shim_rows(u32 blocks, u32 order, u64 seed, u32 os_threads, const MgcRows* rows);

struct Record {
  u32 blocks, order, os_threads, out_offset;  // from a multiple of 16
  u32 row_len, granule, cluster_count, map_log2;
  u64 rows, clusters_len, map_len, count;  // lengths in bytes
  u64 slab_lens[MGC_MAX_SLABS];
  u64 report[MGC_ROWS_REPORT_WORDS];  // expected
};

static void* allocate(u64 len) {
  void* p = nullptr;
  // A kernel may read the whole of the last word.
  if (posix_memalign(&p, MGC_PIECE_LEN, (len + 3) / 4 * 4) != 0) abort();
  return p;
}

// Bytes of a record, until the next one.
struct Bytes {
  FILE* file;
  void* all[16];
  int count = 0;

  template <class T>
  const T* read(u64 len) {
    void* const bytes = all[count++] = allocate(len);
    if (fread(bytes, 1, len, file) == len) return (const T*)bytes;
    fputs("replay_rows: the file ends inside a record\n", stderr);
    exit(2);
  }

  ~Bytes() {
    while (count > 0) free(all[--count]);
  }
};

static bool replay(FILE* file, const Record& record, u64 index) {
  Bytes bytes = {file, {}};
  const u32 words = row_shape(record.row_len, record.granule).words;
  MgcRows rows = {};
  rows.slots = bytes.read<u8>(record.rows * record.row_len);
  rows.rows = record.rows;
  rows.packed = bytes.read<u8>((record.rows + 7) / 8);
  rows.clusters = bytes.read<u8>(record.clusters_len);
  if (record.clusters_len == 0) rows.clusters = nullptr;
  rows.masks = bytes.read<uint2>(8ull * words * record.cluster_count);
  rows.least_lens = bytes.read<u32>(4 * record.cluster_count);
  rows.row_len = record.row_len;
  rows.granule = record.granule;
  rows.cluster_count = record.cluster_count;
  rows.map_log2 = record.map_log2;
  rows.map = bytes.read<ulonglong2>(record.map_len);
  if (record.map_len == 0) rows.map = nullptr;
  for (u32 slab = 0; slab < MGC_MAX_SLABS; slab++) {
    rows.slabs[slab] = bytes.read<u8>(record.slab_lens[slab]);
    rows.slab_lens[slab] = record.slab_lens[slab];
  }
  u64 totals[2] = {};
  if (record.map_len != 0) rows.totals = totals;
  rows.indices = bytes.read<u64>(8 * record.count);
  rows.count = record.count;
  const u64 out_len = record.count * record.row_len;
  const u8* const wanted = record.report[0] == 0 ? bytes.read<u8>(out_len) : nullptr;
  u8* const out = (u8*)malloc(record.out_offset + out_len);
  if (out == nullptr) abort();
  rows.out = out + record.out_offset;
  u64 workspace[MGC_WORKSPACE_WORDS] = {}, report[MGC_ROWS_REPORT_WORDS] = {};
  rows.report = report;
  rows.workspace = workspace;

  bool good = mgc_shim_rows(record.blocks, record.order, index + 1, record.os_threads, &rows) == 0;
  good = good && memcmp(report, record.report, sizeof report) == 0;
  good = good && (wanted == nullptr || memcmp(rows.out, wanted, out_len) == 0);
  if (record.map_len != 0) good = good && totals[0] == report[5] && totals[1] == report[1];
  for (u64 word : workspace) good = good && word == 0;
  if (!good) {
    fprintf(stderr, "replay_rows: record %llu: not as expected; status %llx, expected %llx\n", index, report[0],
            record.report[0]);
  }
  free(out);
  return good;
}

int main(int argc, char** argv) {
  FILE* file = argc == 2 ? fopen(argv[1], "rb") : nullptr;
  if (file == nullptr) {
    fputs("usage: replay_rows FILE\n", stderr);
    return 2;
  }
  u64 records = 0, bad = 0;
  for (Record record; fread(&record, sizeof record, 1, file) == 1; records++) {
    bad += !replay(file, record, records);
  }
  fclose(file);
  printf("replay_rows: %llu records, %llu bad\n", records, bad);
  return bad != 0 || records == 0;
}
