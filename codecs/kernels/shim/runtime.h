// What the device headers ask of the runtime, and how a host launches a kernel.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace shim {

// What a thread may ask of itself.
struct Context {
  uint3 thread_index, block_index;
  dim3 block_dim, grid_dim;
  unsigned lane, thread;  // in the warp, in the block
};
// Thread-local, and read all the time: `__thread`, not `thread_local`, for an access is then no call, which sanitizers would see;
// and in the part that a library has from the start, for else it is a call in every library.
#define SHIM_LOCAL __thread __attribute__((tls_model("initial-exec")))

// The running thread.
extern SHIM_LOCAL Context* current;

// Where in the kernel a thread waits, for messages.
struct Place {
  const char* file;
  int line;
};

enum class Op : uint8_t { SyncWarp, Ballot, Shuffle, MatchAny, Add, Min, Max, And, Or, Xor };

// Meets the lanes of `mask`; the result is that of the calling lane. A shuffle reads lane `source`.
uint64_t collective(Op op, uint32_t mask, uint64_t value, uint32_t source, Place place);

// Meets `count` threads at barrier `id`, or the whole block if `count` is 0. The result is how many of them
// came with a `predicate` that is true.
unsigned barrier(unsigned id, unsigned count, bool predicate, Place place);

// Lets another thread go on. Spin loops must call it, because only one thread runs at a time.
void yield();

// The block's shared object that `key` names; garbage when a block sees it first.
void* shared_object(const void* key, size_t len, size_t align);

// The block's shared memory of `Options::dynamic_shared_len` bytes; garbage when a block sees it first.
void* dynamic_shared();

// Asynchronous copies: bytes land only when a wait asks for them, as late as the device may let them.
void copy_async(void* to, const void* from, unsigned len);
void copy_commit();
void copy_wait(unsigned groups_left);

// Which runnable thread goes on next: the one that waited longest, shortest, or any.
enum class Order { Fifo = 0, Lifo = 1, Random = 2 };

struct Options {
  Order order = Order::Fifo;
  uint64_t seed = 1;
  // Over how many OS threads the blocks are spread. Kernels whose blocks wait for each other need several, or
  // blocks that only wait for lower ones.
  unsigned os_threads = 1;
  size_t dynamic_shared_len = 0;
};

void launch_function(dim3 grid, dim3 block, void (*kernel)(void*), void* arguments, Options options);

// Runs `kernel`, a callable without arguments, once per thread; returns when all have ended.
template <class Kernel>
void launch(dim3 grid, dim3 block, Kernel kernel, Options options = Options()) {
  auto call = [](void* k) { (*static_cast<Kernel*>(k))(); };
  launch_function(grid, block, call, &kernel, options);
}

// Values of any type up to 8 bytes travel through collectives as 64 bits.
template <class T>
inline uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8, "collectives carry up to 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
inline T from_bits(uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace shim
