// Running a grid: block after block, on one OS thread or several.
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "block.h"

namespace shim {

// Deep enough for a kernel, whose arrays live in registers on the device; red zones need more room.
#if defined(SHIM_ASAN)
constexpr size_t STACK_LEN = 64 << 10;
#else
constexpr size_t STACK_LEN = 32 << 10;
#endif
constexpr size_t GUARD_LEN = 4096;

#ifdef SHIM_TSAN
// The sanitizer has room for 8,128 threads in the life of a launch.
constexpr size_t MAX_TSAN_FIBERS = 7500;
#endif

// The stacks of one OS thread, kept from launch to launch: mapping them costs more than a small kernel.
class Stacks {
 public:
  ~Stacks() { unmap(); }

  uint8_t* of(unsigned count) {
    if (count > count_) {
      unmap();
      map(nullptr, count);
    }
    return at_;
  }

  // Maps them anew at the same place.
  void clear() { map(at_, count_); }

 private:
  void map(void* at, unsigned count) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0);
    at = mmap(at, count * STACK_LEN, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED) abort();
    at_ = (uint8_t*)at;
    count_ = count;
    for (unsigned i = 0; i < count; i++) {
      if (mprotect(at_ + i * STACK_LEN, GUARD_LEN, PROT_NONE) != 0) abort();
    }
  }

  void unmap() {
    if (at_ != nullptr) munmap(at_, count_ * STACK_LEN);
    at_ = nullptr;
  }

  uint8_t* at_ = nullptr;
  unsigned count_ = 0;
};

static thread_local Stacks stacks;

// One block at a time, with memory that lasts for all blocks of this OS thread.
class Worker {
 public:
  Worker(dim3 grid, dim3 block_dim, Options options) : grid_(grid), block_dim_(block_dim) {
    const unsigned n = block_dim.x * block_dim.y * block_dim.z;
    block_.thread_count = n;
    block_.options = options;
    block_.random = options.seed * 0x9e3779b97f4a7c15ull | 1;
    block_.threads.resize(n);
    block_.ready.resize(n);
    block_.arrived.resize((n + 31) / 32);
    uint8_t* const own_stacks = stacks.of(n);
    for (unsigned i = 0; i < n; i++) {
      block_.threads[i].fiber.stack = own_stacks + i * STACK_LEN;
      block_.threads[i].fiber.stack_len = STACK_LEN;
    }
#ifdef SHIM_TSAN
    block_.host.tsan_fiber = __tsan_get_current_fiber();
#endif
    block = &block_;
  }

  ~Worker() {
    acquire(&block_.end_token);
#ifdef SHIM_TSAN
    for (void* fiber : block_.kept_fibers) __tsan_destroy_fiber(fiber);
#endif
    for (void* p : block_.kept) free(p);
    for (Thread& t : block_.threads) free(t.copies.items);
    block = nullptr;
  }

  void run(uint64_t index, void (*kernel)(void*), void* arguments) {
    block_.kernel = kernel;
    block_.arguments = arguments;
    block_.index = dim3(index % grid_.x, index / grid_.x % grid_.y, (unsigned)(index / grid_.x / grid_.y));
    block_.alive = block_.thread_count;
    block_.ready_head = block_.ready_len = 0;
    forget_last_block();
    release(&block_.start_token);
    for (unsigned i = 0; i < block_.thread_count; i++) start_thread(i);
    run_first_thread();
    release_shared_objects();
  }

 private:
  // Nothing may order one block after another in the eyes of the thread sanitizer: neither its tokens nor
  // the stacks, which it forgets when they are mapped anew.
  void forget_last_block() {
    const size_t warps = (block_.thread_count + 31) / 32;
    for (uint32_t& lanes : block_.arrived) lanes = 0;
#ifdef SHIM_TSAN
    stacks.clear();
    block_.sync_tokens = nullptr;
#endif
    if (block_.sync_tokens == nullptr) {
      block_.sync_tokens = (char*)calloc(1, 2 * BARRIERS + warps);
      block_.kept.push(block_.sync_tokens);
    }
  }

  void start_thread(unsigned i) {
    Thread& t = block_.threads[i];
    t.thread_index = {i % block_dim_.x, i / block_dim_.x % block_dim_.y, i / block_dim_.x / block_dim_.y};
    t.block_index = {block_.index.x, block_.index.y, block_.index.z};
    t.block_dim = block_dim_;
    t.grid_dim = grid_;
    t.thread = i;
    t.lane = i % 32;
    t.copy_group = 0;
#ifdef SHIM_TSAN
    // A new one for each block: the sanitizer takes what one fiber does for ordered.
    if (block_.kept_fibers.len == MAX_TSAN_FIBERS) die("the thread sanitizer takes 7500 threads per launch");
    t.fiber.tsan_fiber = __tsan_create_fiber(0);
    block_.kept_fibers.push(t.fiber.tsan_fiber);
#endif
    prepare_fiber(t.fiber, run_thread);
    make_ready(t);
  }

  dim3 grid_, block_dim_;
  Block block_ = {};
};

void launch_function(dim3 grid, dim3 block_dim, void (*kernel)(void*), void* arguments, Options options) {
  const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
  std::atomic<uint64_t> next{0};
  auto work = [&](unsigned os_thread) {
    Options own = options;
    own.seed += os_thread * 7919;
    Worker worker(grid, block_dim, own);
    // In the order of their numbers, so that a block may wait for a lower one.
    for (uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < blocks;) {
      worker.run(i, kernel, arguments);
    }
  };
  if (options.os_threads <= 1) return work(0);
  List<std::thread*> threads;
  for (unsigned i = 0; i < options.os_threads; i++) threads.push(new std::thread(work, i));
  for (std::thread* thread : threads) {
    thread->join();
    delete thread;
  }
}

}  // namespace shim
