// Writes and reads entries in buddy memory from a file, in memory that ends where the entries do, so that a sanitizer sees
// the first byte outside.
//
// usage: replay_buddy FILE
//
// A record, little-endian, is a `Record`; slots, states and places before; the bytes of the range before; and the same four
// as the launch has to leave them.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "buddy_shape.h"

extern "C" int mgc_shim_buddy(u32 algorithm, u32 writes, u32 blocks, u32 order, u64 seed, u32 os_threads,
                              const MgcBuddy* buddy);

struct Record {
  u32 writes, blocks, order, os_threads;
  u32 slot_len, spill_len, data_offset, element;  // the offset from a multiple of 16
  u64 len, start, end;
  u64 report[1 + MGC_BUDDY_COUNTS];  // expected
};

// Memory that a launch may write, and what it has to hold afterwards.
struct Memory {
  u8* bytes;
  u64 offset, len;

  Memory(FILE* file, u64 offset, u64 len) : bytes(nullptr), offset(offset), len(len) {
    void* p = nullptr;
    if (posix_memalign(&p, 32, offset + len) != 0) abort();
    bytes = (u8*)p;
    read(file, at());
  }
  ~Memory() { free(bytes); }

  u8* at() { return bytes + offset; }

  void read(FILE* file, u8* to) {
    if (fread(to, 1, len, file) == len) return;
    fputs("replay_buddy: the file ends inside a record\n", stderr);
    exit(2);
  }

  bool is_as_expected(FILE* file) {
    u8* const expected = (u8*)malloc(len + 1);
    if (expected == nullptr) abort();
    read(file, expected);
    const bool good = memcmp(at(), expected, len) == 0;
    free(expected);
    return good;
  }
};

static bool replay(FILE* file, const Record& record, u64 index) {
  const BuddyShape shape = buddy_shape(record.len, record.slot_len, record.spill_len);
  Memory slots(file, 0, shape.slots_len);
  Memory states(file, 0, shape.states_len);
  Memory spills(file, 0, shape.spills_len);
  Memory data(file, record.data_offset, record.end - record.start);
  u64 workspace[MGC_WORKSPACE_WORDS] = {}, report[1 + MGC_BUDDY_COUNTS] = {}, totals[MGC_BUDDY_COUNTS] = {};
  MgcBuddy buddy = {};
  buddy.slots = slots.at();
  buddy.states = states.at();
  buddy.spills = spills.at();
  buddy.len = record.len;
  buddy.slot_len = record.slot_len;
  buddy.spill_len = record.spill_len;
  buddy.totals = totals;
  buddy.start = record.start;
  buddy.end = record.end;
  buddy.data = data.at();
  buddy.report = report;
  buddy.workspace = workspace;
  buddy.element = record.element;

  const u32 algorithm = shape.is_xp ? xp_launch::ALGORITHM : bpc_launch::ALGORITHM;
  const int refused = mgc_shim_buddy(algorithm, record.writes, record.blocks, record.order, index + 1,
                                     record.os_threads, &buddy);
  bool good = refused == 0;
  good = good && memcmp(report, record.report, sizeof report) == 0;
  good = good && memcmp(totals, report + 1, sizeof totals) == 0;
  Memory* const all[] = {&slots, &states, &spills, &data};
  for (Memory* memory : all) good = memory->is_as_expected(file) && good;
  for (u64 word : workspace) good = good && word == 0;
  if (!good) {
    fprintf(stderr, "replay_buddy: record %llu: not as expected; status %llx, expected %llx\n", index, report[0],
            record.report[0]);
  }
  return good;
}

int main(int argc, char** argv) {
  FILE* file = argc == 2 ? fopen(argv[1], "rb") : nullptr;
  if (file == nullptr) {
    fputs("usage: replay_buddy FILE\n", stderr);
    return 2;
  }
  u64 records = 0, bad = 0;
  for (Record record; fread(&record, sizeof record, 1, file) == 1; records++) {
    bad += !replay(file, record, records);
  }
  fclose(file);
  printf("replay_buddy: %llu records, %llu bad\n", records, bad);
  return bad != 0 || records == 0;
}
