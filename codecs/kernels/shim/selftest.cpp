// The shim against answers worked out by hand, and against kernels that misuse the machine.
//
// usage: selftest            checks the answers of intrinsics and collectives in all lane orders
//        selftest MISUSE     runs one misuse, which the shim (or the sanitizer) must report and stop
#include <cstdio>
#include <cstdlib>

#include "../frame/lookback.cuh"
#include "../mgc_dev.cuh"

static unsigned failures;

static void expect_at(int line, u64 got, u64 wanted) {
  if (got == wanted) return;
  fprintf(stderr, "selftest.cpp:%d: %llx, not %llx\n", line, got, wanted);
  failures++;
}
#define EXPECT(got, wanted) expect_at(__LINE__, (u64)(got), (u64)(wanted))

static void check_intrinsics() {
  EXPECT(__popc(0xf0f00001u), 9);
  EXPECT(__popcll(0x8000000000000001ull), 2);
  EXPECT(__clz(0), 32);
  EXPECT(__clz(1), 31);
  EXPECT(__clzll(0), 64);
  EXPECT(__clzll(0x100000000ll), 31);
  EXPECT(__ffs(0), 0);
  EXPECT(__ffs(8), 4);
  EXPECT(__ffsll(0x100000000ll), 33);
  EXPECT(__brev(0x00000013u), 0xc8000000u);
  EXPECT(__byte_perm(0x33221100u, 0x776655ffu, 0x7410u), 0x77ff1100u);
  EXPECT(__byte_perm(0x332211f0u, 0x77665504u, 0x8c21u), 0xf0042211u);
  EXPECT(permute_bytes(0x332211f0u, 0x77665504u, 0x8c21u), 0xff002211u);
  EXPECT(__funnelshift_r(0x89abcdefu, 0x01234567u, 8), 0x6789abcdu);
  EXPECT(__funnelshift_r(0x89abcdefu, 0x01234567u, 32), 0x89abcdefu);
  EXPECT(__funnelshift_l(0x89abcdefu, 0x01234567u, 8), 0x23456789u);
  EXPECT(__dp4a(0x01ff0203u, 0x01020304u, 5u), 5u + 1 + 510 + 6 + 12);
}

static void warp_kernel() {
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32;
  EXPECT(lanemask_lt(), lane == 0 ? 0 : all >> (32 - lane));
  EXPECT(__ballot_sync(all, lane % 2), 0xaaaaaaaau);
  EXPECT(__any_sync(all, lane == 31), 1);
  EXPECT(__any_sync(all, 0), 0);
  EXPECT(__all_sync(all, lane < 32), 1);
  EXPECT(__all_sync(all, lane != 7), 0);
  EXPECT(__match_any_sync(all, lane / 8), 0xffu << lane / 8 * 8);
  EXPECT(__shfl_sync(all, lane * 3, 5), 15);
  EXPECT(__shfl_sync(all, lane, 1, 8), lane / 8 * 8 + 1);
  EXPECT(__shfl_up_sync(all, lane, 4), lane < 4 ? lane : lane - 4);
  EXPECT(__shfl_up_sync(all, lane, 1, 16), lane % 16 == 0 ? lane : lane - 1);
  EXPECT(__shfl_down_sync(all, lane, 4), lane < 28 ? lane + 4 : lane);
  EXPECT(__shfl_xor_sync(all, (u64)lane << 40, 16), (u64)(lane ^ 16) << 40);
  EXPECT(__reduce_add_sync(all, lane), 496);
  EXPECT(__reduce_min_sync(all, lane + 3), 3);
  EXPECT(__reduce_max_sync(all, lane + 3), 34);
  EXPECT(__reduce_and_sync(all, lane | 64), 64);
  EXPECT(__reduce_or_sync(all, 1u << lane), all);
  EXPECT(__reduce_xor_sync(all, lane), 0);
  // Halves of a warp may be in different collectives at the same time.
  if (lane < 16) {
    EXPECT(__ballot_sync(0xffffu, lane == 2), 4);
  } else {
    EXPECT(__reduce_add_sync(0xffff0000u, 1), 16);
  }
}

struct Exchange {
  u32 values[64];
  u32 count;
};

static void block_kernel() {
  MGC_SHARED(Exchange, shared);
  const u32 t = threadIdx.x;
  if (t == 0) shared.count = 0;
  shared.values[t] = t * t;
  __syncthreads();
  EXPECT(shared.values[63 - t], (63 - t) * (63 - t));
  EXPECT(__syncthreads_count(t % 4 == 0), 16);
  EXPECT(__syncthreads_or(t == 40), 1);
  EXPECT(__syncthreads_or(0), 0);
  EXPECT(__syncthreads_and(t != 40), 0);
  EXPECT(__syncthreads_and(1), 1);
  atomicAdd(&shared.count, 2);
  __syncthreads();
  EXPECT(shared.count, 128);
}

static void check_atomics() {
  u32 word = 12;
  EXPECT(atomicAdd(&word, 3), 12);
  EXPECT(atomicSub(&word, 1), 15);
  EXPECT(atomicMin(&word, 20), 14);
  EXPECT(atomicMin(&word, 7), 14);
  EXPECT(atomicMax(&word, 9), 7);
  EXPECT(atomicAnd(&word, 8), 9);
  EXPECT(atomicOr(&word, 3), 8);
  EXPECT(atomicXor(&word, 1), 11);
  EXPECT(atomicExch(&word, 5), 10);
  EXPECT(atomicCAS(&word, 4, 6), 5);
  EXPECT(atomicCAS(&word, 5, 6), 5);
  EXPECT(word, 6);
}

alignas(16) static u32 source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
struct Landing {
  alignas(16) u32 words[8];
};

static void copy_kernel() {
  MGC_SHARED(Landing, shared);
  const u32 garbage = shared.words[5];
  cp_async16(shared.words, source);
  cp_async_commit();
  cp_async16(shared.words + 4, source + 4);
  cp_async_commit();
  cp_async_wait<1>();
  EXPECT(shared.words[1], 2);
  EXPECT(shared.words[5], garbage);  // the second group has not landed yet
  cp_async_wait<0>();
  EXPECT(shared.words[5], 6);
}

static u64 states[600];

// One warp looks back from every chunk, over lengths alone or to an end some chunks before; what is behind that
// end is never waited for.
static void look_back_kernel() {
  for (u32 index = 1; index < 600; index += index < 150 ? 1 : 37) {
    const u32 ends[] = {1, 2, 31, 32, 33, 64, 127, 128, 129, index};
    for (u32 end : ends) {
      if (end > index) continue;
      if (threadIdx.x == 0) {
        memset(states, 0, sizeof states);
        for (u32 c = index - end + 1; c < index; c++) states[c] = MGC_STATE_LEN | (c + 1);
        states[index - end] = MGC_STATE_END | 0xfff00000u;
      }
      __syncwarp();
      const u32 before = index * (index + 1) / 2 - (index - end + 1) * (index - end + 2) / 2;
      EXPECT(look_back(states, index), 0xfff00000u + before);
      __syncwarp();
    }
  }
}

// Block 0 looks back while block 1 tells the lengths, the farthest last.
static void late_states_kernel() {
  if (blockIdx.x == 0) {
    EXPECT(look_back(states, 300), 5 + 299);
  } else if (threadIdx.x == 0) {
    for (u32 c = 300; c-- > 0;) {
      for (u32 i = 0; i < 20; i++) backoff();
      st_relaxed_gpu(states + c, c == 0 ? MGC_STATE_END | 5 : MGC_STATE_LEN | 1);
    }
  }
}

static void check_look_back() {
  for (int order = 0; order < 3; order++) {
    shim::Options options;
    options.order = (shim::Order)order;
    shim::launch(dim3(1), dim3(32), look_back_kernel, options);
    memset(states, 0, sizeof states);
    options.os_threads = 2;
    shim::launch(dim3(2), dim3(32), late_states_kernel, options);
  }
}

static void divergent_barrier() {
  if (threadIdx.x < 16) __syncthreads();
}
static void exit_before_barrier() {
  if (threadIdx.x == 3) return;
  __syncwarp(0xfffffff7u);
  __syncthreads();
}
static void partial_ballot() {
  if (threadIdx.x < 16) __ballot_sync(0xffffffffu, 1);
}
static void mixed_collectives() {
  if (threadIdx.x % 2) {
    __ballot_sync(0xffffffffu, 1);
  } else {
    __shfl_sync(0xffffffffu, 1, 0);
  }
}
static void shuffle_outside() {
  if (threadIdx.x < 16) __shfl_sync(0xffffu, 1, 20);
}
static void lane_not_in_mask() { __syncwarp(0xfffffffeu); }
static void copy_not_awaited() {
  MGC_SHARED(Landing, shared);
  cp_async16(shared.words, source);
  cp_async_commit();
}
static void shared_overrun() {
  MGC_SHARED(Exchange, shared);
  volatile u32* words = shared.values;
  words[65 + threadIdx.x] = 1;
}
static void shared_race() {
  MGC_SHARED(Exchange, shared);
  shared.values[threadIdx.x] = threadIdx.x;
  volatile u32 other = shared.values[threadIdx.x ^ 1];
  (void)other;
}

struct Misuse {
  const char* name;
  void (*kernel)();
};
static const Misuse MISUSES[] = {
    {"divergent_barrier", divergent_barrier}, {"exit_before_barrier", exit_before_barrier},
    {"partial_ballot", partial_ballot},       {"mixed_collectives", mixed_collectives},
    {"shuffle_outside", shuffle_outside},     {"lane_not_in_mask", lane_not_in_mask},
    {"copy_not_awaited", copy_not_awaited},   {"shared_overrun", shared_overrun},
    {"shared_race", shared_race},
};

static int run_misuse(const char* name) {
  for (const Misuse& misuse : MISUSES) {
    if (strcmp(misuse.name, name) != 0) continue;
    shim::launch(dim3(1), dim3(32), misuse.kernel);
    fprintf(stderr, "selftest: %s went unnoticed\n", name);
    return 0;
  }
  fprintf(stderr, "selftest: no misuse %s\n", name);
  return 2;
}

int main(int argc, char** argv) {
  if (argc > 1) return run_misuse(argv[1]);
  check_intrinsics();
  check_atomics();
  check_look_back();
  for (int order = 0; order < 3; order++) {
    shim::Options options;
    options.order = (shim::Order)order;
    options.os_threads = order == 2 ? 2 : 1;
    shim::launch(dim3(2), dim3(64), warp_kernel, options);
    shim::launch(dim3(2), dim3(64), block_kernel, options);
    shim::launch(dim3(2), dim3(1), copy_kernel, options);
  }
  if (failures == 0) puts("selftest: good");
  return failures != 0;
}
