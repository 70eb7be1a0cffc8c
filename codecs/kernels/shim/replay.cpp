// Runs frames from a file through the decode kernels, in memory that ends where the frame and the destination
// do, so that a sanitizer sees the first byte outside.
//
// usage: replay FILE
//
// A record, little-endian: u32 algorithm, blocks, order, offset of the destination from a multiple of 16;
// u64 expected status code, frame length, destination length; the frame; if the code is 0, the raw bytes.
#include <cstdio>
#include <cstdlib>
#include <cstring>

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

extern "C" int mgc_shim_decode(u32 algorithm, u32 blocks, u32 order, u64 seed, const u8* frame, u64 frame_len,
                               u8* dst, u64 dst_len, u64* status);

struct Record {
  u32 algorithm, blocks, order, dst_offset;
  u64 code, frame_len, dst_len;
};

static void* allocate(u64 len) {
  void* p = nullptr;
  if (posix_memalign(&p, 16, len) != 0) abort();
  return p;
}

static void read_exactly(FILE* file, void* to, u64 len) {
  if (fread(to, 1, len, file) == len) return;
  fputs("replay: the file ends inside a record\n", stderr);
  exit(2);
}

// Whether the kernel answers as the record says.
static bool replay(FILE* file, const Record& record, u64 index) {
  u8* frame = (u8*)allocate(record.frame_len);
  u8* raw = (u8*)allocate(record.dst_len);
  u8* dst = (u8*)allocate(record.dst_offset + record.dst_len);
  u64 status = 0;
  read_exactly(file, frame, record.frame_len);
  if (record.code == 0) read_exactly(file, raw, record.dst_len);
  const int refused = mgc_shim_decode(record.algorithm, record.blocks, record.order, index + 1, frame,
                                      record.frame_len, dst + record.dst_offset, record.dst_len, &status);
  bool good = refused == 0 && (status & 0xff) == record.code;
  if (good && record.code == 0) good = memcmp(dst + record.dst_offset, raw, record.dst_len) == 0;
  if (!good) {
    fprintf(stderr, "replay: record %llu: status %llx, expected code %llx or the bytes differ\n", index,
            status, record.code);
  }
  free(frame);
  free(raw);
  free(dst);
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
