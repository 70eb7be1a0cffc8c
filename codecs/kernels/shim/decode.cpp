// The decode kernels behind one C function, for hosts that are not written in C++.
#include "../launch.h"
#include "runtime.h"

typedef unsigned char u8;
typedef unsigned long long u64;

extern "C" void zvc_decode(const u8* frame, u64 frame_len, u8* dst, u64 dst_len, u64* status);
extern "C" void cpackz_decode(const u8* frame, u64 frame_len, u8* dst, u64 dst_len, u64* status);

// Launches the decode kernel of `algorithm` over `blocks` blocks and waits for its end. Returns 0, or 1 if
// there is no such kernel or order. The rest is as the kernel says.
extern "C" int mgc_shim_decode(unsigned algorithm, unsigned blocks, unsigned order, u64 seed, const u8* frame,
                               u64 frame_len, u8* dst, u64 dst_len, u64* status) {
  auto* kernel = algorithm == MGC_ALGORITHM_ZVC      ? zvc_decode
                 : algorithm == MGC_ALGORITHM_CPACKZ ? cpackz_decode
                                                     : nullptr;
  if (kernel == nullptr || order > 2) return 1;
  shim::Options options;
  options.order = (shim::Order)order;
  options.seed = seed;
  auto call = [=] { kernel(frame, frame_len, dst, dst_len, status); };
  shim::launch(dim3(blocks), dim3(MGC_BLOCK_THREADS), call, options);
  return 0;
}
