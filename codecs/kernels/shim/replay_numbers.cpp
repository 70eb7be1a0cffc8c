// Combines numbers from a file, in memory that ends where they do, so that a sanitizer sees the first byte outside.
//
// usage: replay_numbers FILE
//
// A record, little-endian, is a `Record`; the numbers that lie together, those that lie apart, and the result.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../reduce/task.cuh"

extern "C" int mgc_shim_reduce(u32 blocks, u32 order, u64 seed, u32 os_threads, const MgcReduction* task);

struct Record {
  u32 blocks, order, os_threads, in_place;
  MgcReduction task;  // without addresses
  u64 numbers_offset, own_offset, result_offset;  // from a multiple of 16
  u64 numbers_len, own_len;
};

// Bytes at a chosen place behind a multiple of 16, up to the end of what was allocated.
struct Bytes {
  u8* memory;
  u8* at;

  Bytes(u64 len, u64 offset) : memory((u8*)malloc(offset + len)), at(memory + offset) {
    if (memory == nullptr) abort();
  }

  ~Bytes() { free(memory); }

  void read(FILE* file, u64 len) {
    if (fread(at, 1, len, file) == len) return;
    fputs("replay_numbers: the file ends inside a record\n", stderr);
    exit(2);
  }
};

static bool replay(FILE* file, const Record& record, u64 index) {
  const u64 len = record.task.len;
  Bytes numbers(record.numbers_len, record.numbers_offset), own(record.own_len, record.own_offset);
  Bytes result(len, record.result_offset), wanted(len, 0);
  numbers.read(file, record.numbers_len);
  own.read(file, record.own_len);
  wanted.read(file, len);
  if (record.in_place != 0) memcpy(result.at, own.at, len);
  MgcReduction task = record.task;
  task.numbers = numbers.at;
  task.own = record.in_place != 0 ? result.at : own.at;
  task.result = result.at;
  bool good = mgc_shim_reduce(record.blocks, record.order, index + 1, record.os_threads, &task) == 0;
  good = good && memcmp(result.at, wanted.at, len) == 0;
  if (!good) fprintf(stderr, "replay_numbers: record %llu: not as expected\n", index);
  return good;
}

int main(int argc, char** argv) {
  FILE* file = argc == 2 ? fopen(argv[1], "rb") : nullptr;
  if (file == nullptr) {
    fputs("usage: replay_numbers FILE\n", stderr);
    return 2;
  }
  u64 records = 0, bad = 0;
  for (Record record; fread(&record, sizeof record, 1, file) == 1; records++) {
    bad += !replay(file, record, records);
  }
  fclose(file);
  printf("replay_numbers: %llu records, %llu bad\n", records, bad);
  return bad != 0 || records == 0;
}
