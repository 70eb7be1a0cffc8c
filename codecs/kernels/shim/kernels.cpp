// The kernels behind one C function, for hosts that are not written in C++.
#include "../buddy/allocation.cuh"
#include "../frame/batch.cuh"
#include "../ibp/table.cuh"
#include "../reduce/task.cuh"

extern "C" void ibp_rows(const MgcRows&);
extern "C" void bpc_buddy_read(const MgcBuddy&);
extern "C" void bpc_buddy_write(const MgcBuddy&);
extern "C" void xp_buddy_read(const MgcBuddy&);
extern "C" void xp_buddy_write(const MgcBuddy&);
extern "C" void reduce_numbers(const MgcReduction&);

enum Direction { ENCODE, DECODE, ESTIMATE };

struct Codec {
  u32 algorithm;
  u32 encode_scratch, decode_scratch;
  void (*kernels[3])(const MgcBatch&);  // by direction
};

#define MGC_CODEC(name, algorithm, encode_scratch, decode_scratch) \
  extern "C" void name##_encode(const MgcBatch&);                  \
  extern "C" void name##_decode(const MgcBatch&);                  \
  extern "C" void name##_estimate(const MgcBatch&);
#include "../codecs.h"
#undef MGC_CODEC

static const Codec CODECS[] = {
#define MGC_CODEC(name, algorithm, encode_scratch, decode_scratch) \
  {algorithm, encode_scratch, decode_scratch, {name##_encode, name##_decode, name##_estimate}},
#include "../codecs.h"
#undef MGC_CODEC
};

// What a launch takes of dynamic shared memory.
static size_t shared_len(const Codec& codec, Direction direction, u32 chunk_log2) {
  static const u32 BUFFERS[] = {MGC_ENCODE_BUFFERS, MGC_DECODE_BUFFERS, MGC_ESTIMATE_BUFFERS};
  const u32 scratch = direction == DECODE ? codec.decode_scratch : codec.encode_scratch;
  return ((size_t)BUFFERS[direction] << chunk_log2) + ((size_t)scratch << chunk_log2 >> 10);
}

// Launches a kernel of `algorithm` over `blocks` blocks, on `os_threads` threads of the host, and waits for its
// end. Returns 0, or 1 if there is no such kernel or order. The rest is as the kernel says.
extern "C" int mgc_shim_launch(u32 algorithm, u32 direction, u32 blocks, u32 order, u64 seed, u32 os_threads,
                               const MgcBatch* batch) {
  if (direction > ESTIMATE || order > 2) return 1;
  for (const Codec& codec : CODECS) {
    if (codec.algorithm != algorithm) continue;
    shim::Options options;
    options.order = (shim::Order)order;
    options.seed = seed;
    options.os_threads = os_threads;
    options.dynamic_shared_len = shared_len(codec, (Direction)direction, batch->chunk_log2);
    auto call = [&] { codec.kernels[direction](*batch); };
    shim::launch(dim3(blocks), dim3(MGC_BLOCK_THREADS), call, options);
    return 0;
  }
  return 1;
}

// As `mgc_shim_launch`, of the kernel that gathers rows of a table.
extern "C" int mgc_shim_rows(u32 blocks, u32 order, u64 seed, u32 os_threads, const MgcRows* rows) {
  if (order > 2) return 1;
  shim::Options options;
  options.order = (shim::Order)order;
  options.seed = seed;
  options.os_threads = os_threads;
  options.dynamic_shared_len = rows_shared_len(rows->row_len, rows->granule);
  shim::launch(dim3(blocks), dim3(MGC_BLOCK_THREADS), [&] { ibp_rows(*rows); }, options);
  return 0;
}

// As `mgc_shim_launch`, of a kernel that reads or writes entries of BPC or XP in buddy memory; `algorithm` says which.
extern "C" int mgc_shim_buddy(u32 algorithm, u32 writes, u32 blocks, u32 order, u64 seed, u32 os_threads,
                              const MgcBuddy* buddy) {
  const bool is_xp = algorithm == xp_launch::ALGORITHM;
  if (order > 2 || (!is_xp && algorithm != bpc_launch::ALGORITHM)) return 1;
  shim::Options options;
  options.order = (shim::Order)order;
  options.seed = seed;
  options.os_threads = os_threads;
  options.dynamic_shared_len = is_xp ? xp_buddy_shared_len(*buddy, writes != 0) : bpc_buddy_shared_len();
  const auto bpc = writes ? bpc_buddy_write : bpc_buddy_read, xp = writes ? xp_buddy_write : xp_buddy_read;
  const auto kernel = is_xp ? xp : bpc;
  shim::launch(dim3(blocks), dim3(MGC_BLOCK_THREADS), [&] { kernel(*buddy); }, options);
  return 0;
}

// As `mgc_shim_launch`, of the kernel that combines numbers.
extern "C" int mgc_shim_reduce(u32 blocks, u32 order, u64 seed, u32 os_threads, const MgcReduction* task) {
  if (order > 2) return 1;
  shim::Options options;
  options.order = (shim::Order)order;
  options.seed = seed;
  options.os_threads = os_threads;
  shim::launch(dim3(blocks), dim3(MGC_BLOCK_THREADS), [&] { reduce_numbers(*task); }, options);
  return 0;
}
