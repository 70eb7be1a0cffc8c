// Runs launches from a file, in memory that ends where their buffers do, so that a sanitizer sees the first
// byte outside.
//
// usage: replay FILE
//
// A record, little-endian, is a `Record`; the codebook; the source; and, if the code is 0, the result: the raw bytes or
// the frame. Every job of the launch is the same.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../frame/batch.cuh"

extern "C" int mgc_shim_launch(u32 algorithm, u32 direction, u32 blocks, u32 order, u64 seed, u32 os_threads,
                               const MgcBatch* batch);

struct Record {
  u32 algorithm, direction, element, chunk_log2, blocks, order, os_threads, jobs;
  u32 src_offset, dst_offset;  // from a multiple of 16
  u64 code;                    // expected
  u64 out_len, src_len, dst_len, result_len, codebook_len;
};

// A job with buffers of its own.
struct Buffers {
  u8 *src, *dst;
  u64 out_len, status;
};

static void* allocate(u64 len) {
  void* p = nullptr;
  if (posix_memalign(&p, 16, len) != 0) abort();
  return p;
}

static u8* read_bytes(FILE* file, u64 offset, u64 len) {
  u8* bytes = (u8*)allocate(offset + len);
  if (fread(bytes + offset, 1, len, file) == len) return bytes;
  fputs("replay: the file ends inside a record\n", stderr);
  exit(2);
}

static u64 chunks_of(const Record& record) {
  const u64 chunk_len = 1ull << record.chunk_log2;
  return record.src_len == 0 ? 1 : (record.src_len + chunk_len - 1) / chunk_len;
}

// Whether one job answers as the record says.
static bool is_good(const Record& record, const Buffers& job, const u8* result) {
  if ((job.status & 0xff) != record.code || job.out_len != record.out_len) return false;
  return record.code != 0 || memcmp(job.dst + record.dst_offset, result, record.result_len) == 0;
}

// Whether the kernel answers as the record says, and leaves the workspace zero.
static bool replay(FILE* file, const Record& record, u64 index) {
  u8* codebook = read_bytes(file, 0, record.codebook_len);
  u8* src = read_bytes(file, record.src_offset, record.src_len);
  u8* result = read_bytes(file, 0, record.code == 0 ? record.result_len : 0);
  const u64 chunks = record.jobs * chunks_of(record);
  const u64 words = MGC_WORKSPACE_WORDS + chunks;
  u64* workspace = (u64*)allocate(8 * words);
  memset(workspace, 0, 8 * words);

  static MgcBatch batch;
  Buffers jobs[MGC_MAX_JOBS];
  batch.jobs = record.jobs;
  batch.chunks = (u32)chunks;
  batch.chunk_log2 = record.chunk_log2;
  batch.workspace = workspace;
  for (u32 j = 0; j < record.jobs; j++) {
    jobs[j] = {src, (u8*)allocate(record.dst_offset + record.dst_len), 0, ~0ull};
    batch.job[j] = {src + record.src_offset, record.src_len, nullptr, jobs[j].dst + record.dst_offset,
                    record.dst_len, &jobs[j].out_len, &jobs[j].status, (u32)(j * chunks_of(record)),
                    (u16)record.element, 0};
    if (record.direction != 1 && record.codebook_len != 0) {
      batch.job[j].codebook = codebook;
      batch.job[j].codebook_units = (u16)(record.codebook_len / MGC_UNIT);
    }
  }
  bool good = mgc_shim_launch(record.algorithm, record.direction, record.blocks, record.order, index + 1,
                              record.os_threads, &batch) == 0;
  for (u32 j = 0; j < record.jobs; j++) {
    if (!is_good(record, jobs[j], result)) {
      fprintf(stderr, "replay: record %llu, job %u: status %llx, length %llu; expected %llx, %llu\n", index, j,
              jobs[j].status, jobs[j].out_len, record.code, record.out_len);
      good = false;
    }
    free(jobs[j].dst);
  }
  for (u64 w = 0; w < words; w++) good = good && workspace[w] == 0;
  if (!good) fprintf(stderr, "replay: record %llu: not as expected\n", index);
  free(codebook);
  free(src);
  free(result);
  free(workspace);
  return good;
}

int main(int argc, char** argv) {
  FILE* file = argc == 2 ? fopen(argv[1], "rb") : nullptr;
  if (file == nullptr) {
    fputs("usage: replay FILE\n", stderr);
    return 2;
  }
  u64 records = 0, bad = 0;
  for (Record record; fread(&record, sizeof record, 1, file) == 1; records++) {
    bad += !replay(file, record, records);
  }
  fclose(file);
  printf("replay: %llu records, %llu bad\n", records, bad);
  return bad != 0 || records == 0;
}
