// The block that an OS thread is running. Internal to the runtime.
#pragma once
#include <cstdlib>

#include "runtime.h"
#include "sanitizer.h"

namespace shim {

// A growing array for plain data. Not std::vector: the linker would merge its code with a copy from the
// kernels' objects, which may be instrumented.
template <class T>
struct List {
  T* items = nullptr;
  size_t len = 0, capacity = 0;

  ~List() { free(items); }
  // Items that are new are all zero bytes.
  void resize(size_t count) {
    if (count > capacity) reserve(count);
    len = count;
  }
  void push(const T& item) {
    if (len == capacity) reserve(capacity ? 2 * capacity : 8);
    items[len++] = item;
  }
  void drop_front(size_t count) {
    memmove((void*)items, (void*)(items + count), (len - count) * sizeof(T));
    len -= count;
  }
  void reserve(size_t count) {
    Quiet quiet;
    T* grown = (T*)calloc(count, sizeof(T));
    if (grown == nullptr) abort();
    if (items != nullptr) memcpy((void*)grown, (void*)items, len * sizeof(T));
    free(items);
    items = grown;
    capacity = count;
  }
  T& operator[](size_t i) { return items[i]; }
  T* begin() { return items; }
  T* end() { return items + len; }
};

enum class State : uint8_t { Ready, InCollective, InBarrier, Done };

struct Copy {
  void* to;
  const void* from;
  unsigned len, group;
};

// A stack and what a sanitizer needs to follow it.
struct Fiber {
  void* stack_pointer;  // while it is not running
  const void* stack;    // lowest address
  size_t stack_len;
  void* asan_fake_stack;
  void* tsan_fiber;
};

struct Thread : Context {
  Fiber fiber;
  State state;
  Place place;  // where it waits, with what it brought
  Op op;
  uint32_t mask, source;
  uint64_t value, result;
  unsigned copy_group;
  List<Copy> copies;
};

struct Barrier {
  unsigned wanted, here, predicates, generation;
  List<unsigned> waiting;
};

struct SharedObject {
  const void* key;
  void* object;
};

constexpr unsigned BARRIERS = 16;

struct Block {
  unsigned thread_count, alive;
  List<Thread> threads;
  // Ring of threads that can go on.
  List<unsigned> ready;
  size_t ready_head, ready_len;

  Barrier barriers[BARRIERS];
  List<uint32_t> arrived;  // per warp: lanes that wait in a collective
  List<SharedObject> shared;
  dim3 index;

  void (*kernel)(void*);
  void* arguments;
  Options options;
  uint64_t random;
  Fiber host;  // the stack that launched it

  // For the thread sanitizer: two tokens per barrier (even and odd generations), one per warp, and what
  // must not be freed before the launch ends, because a reused address would tie blocks together.
  char* sync_tokens;
  char start_token, end_token;
  List<void*> kept, kept_fibers;

  char* barrier_token(unsigned id, unsigned generation) { return sync_tokens + 2 * id + generation % 2; }
  char* warp_token(unsigned warp) { return sync_tokens + 2 * BARRIERS + warp; }
};

extern SHIM_LOCAL Block* block;

inline Thread* running() { return static_cast<Thread*>(current); }

// fiber.cpp
void prepare_fiber(Fiber& fiber, void (*entry)());
// Goes on with `to`; returns when somebody switches back to `from`. A fiber that has ended never gets back.
void switch_fiber(Fiber& from, Fiber& to, bool from_ends);
// First call in a new fiber.
void enter_fiber(Fiber& launched_from);

// scheduler.cpp
void make_ready(Thread& thread);
// Runs the next thread; returns when the calling one is run again. It must be queued, waiting or done.
void reschedule();
// A thread runs its kernel and ends.
void run_thread();
void run_first_thread();
[[noreturn]] void die(const char* what);

// memory.cpp
void release_shared_objects();

}  // namespace shim
