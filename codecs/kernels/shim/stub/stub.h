// A CUDA driver without a device. Internal to the stub.
//
// Work is queued and runs only when somebody waits for it, so that a host that does not wait sees what was
// there before; or each stream has a thread, which takes its time. Every call can be made to fail, and everything
// that is made is counted.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "arena.h"

namespace stub {

// Numbers of `CUresult`.
enum Result : int {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  NOT_MAPPED = 205,
  NO_BINARY = 209,
  PEER_UNSUPPORTED = 217,
  UNSUPPORTED_PTX = 222,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  PEER_ALREADY_ENABLED = 704,
  PEER_NOT_ENABLED = 705,
  CONTEXT_DESTROYED = 709,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  CAPTURE_MERGE = 902,
  CAPTURE_UNMATCHED = 903,
  CAPTURE_UNJOINED = 904,
  CAPTURE_ISOLATION = 905,
  CAPTURE_IMPLICIT = 906,
  CAPTURED_EVENT = 907,
};

// What a test may set, with the values at the start. A program finds those of its environment, as in
// MGCOMP_STUB_WRONG_BYTE.
struct Settings {
  uint64_t capability = 90;  // ten times the major number, and the minor one
  uint64_t sm_count = 3;
  uint64_t shared_len = 227 << 10;
  uint64_t l2_len = 1 << 20;
  uint64_t memory_len = 1 << 30;
  uint64_t driver_version = 13000;
  uint64_t lane_order = 0;
  uint64_t faulty_launch = 0;  // counted from 1: this one ends in an illegal address
  uint64_t wrong_byte = 0;     // 1: the first byte of all that kernels write is another one
  uint64_t stray_byte = 0;     // 1: kernels write a byte behind their destinations
  uint64_t threads = 0;        // not 0: streams made from now on have a thread each, which dawdles by this seed
  uint64_t strict_free = 0;    // 1: memory must not be freed while work that uses it is queued
  uint64_t alloc_ms = 0;       // not 0: to allocate and to load kernels takes so long, on the second device twice as
                               // long, and then waits for all work there and of those that share memory with it
  uint64_t devices = 1;        // all of the same kind
  uint64_t no_peers = 0;       // 1: no device reaches the memory of another
  uint64_t no_ipc = 0;         // 1: nothing is shared with other processes by handles
  uint64_t no_vmm = 0;         // 1: nor by files
  uint64_t wrong_import = 0;   // 1: the first byte of memory that comes from elsewhere is another one
  uint64_t link_ns_per_kib = 0;  // not 0: by the clock of events copies take so long, and nothing else takes any time,
  uint64_t launch_ns = 0;        // but for launches, if this is not 0 either
  uint64_t full = 0;           // 1: devices have no memory left; there still is page-locked memory
};

// What a test may count, in the order of `mgc_stub_live`.
enum Kind {
  HOLDS,
  CURRENT,
  MODULES,
  ALLOCATIONS,
  STREAMS,
  EVENTS,
  GRAPHS,
  EXECUTABLES,
  CONTEXTS,
  IMPORTS,
  MEMORIES,
  RESERVATIONS,
  MAPPINGS,
  KINDS
};

struct Stream;

// One of a device. It is never forgotten, so that what still names it later is found out.
struct Context {
  int device;
  bool primary;
  uint64_t holds = 0;         // 0: it is destroyed, or nobody has made it yet
  std::set<Context*> peers;   // those whose memory its kernels may use
  std::shared_ptr<Stream> default_stream;  // once somebody has used it
};

struct Range {
  uint64_t address;
  size_t len;
};

// What takes the time of an operation.
struct Cost {
  size_t moved = 0;     // bytes that it moves over a link
  size_t launches = 0;  // of kernels
};

struct Operation {
  std::function<void()> run;
  std::vector<Range> touches;  // the memory that it uses
  std::function<void()> gone;  // called when it has left its stream, or null: with the mutex locked
  Cost cost;
};

// Numbers of `CUstreamCaptureMode`: what a recording forbids, and what a thread minds.
enum CaptureMode : int { GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };

// What streams record together: operations, each with those that it comes after.
struct Recording {
  struct Node {
    Operation operation;
    std::set<size_t> after;
  };
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<Stream>> streams;  // the first one has begun it
  std::thread::id thread;                        // it too
  int mode = GLOBAL;
  bool valid = true;
  uint64_t id = 0;  // no other one has it
};

struct Stream {
  Context* context;
  std::deque<Operation> queue;  // the one at the front is not done
  uint64_t done = 0;            // operations that are
  bool threaded = false;        // whether a thread runs them
  bool destroyed = false;
  bool is_default = false;      // it cannot record
  bool blocking = false;        // the default stream and it wait for each other
  bool running = false;                  // whether an operation runs, where no thread does
  double clock_ns = 0;                   // what its copies and launches have taken, by `link_ns_per_kib` and `launch_ns`
  std::shared_ptr<Recording> recording;  // while it records
  std::set<size_t> frontier;             // the nodes that the next one comes after
};

// A place in a stream, or in what is recorded, that an event stands for.
struct Marker {
  std::shared_ptr<Stream> stream;
  bool reached = false;
  std::chrono::steady_clock::time_point at;  // when it was
  double clock_ns = 0;                       // by the clock of its stream
  std::shared_ptr<Recording> recording;      // null outside of one
  std::set<size_t> frontier;
};

enum : unsigned { EVENT_NO_TIMING = 2, EVENT_INTERPROCESS = 4 };

// How often an event of several processes was recorded, and up to which of these times it has happened.
struct Moments {
  std::atomic<uint64_t> recorded, reached;
};

struct Event {
  Context* context;
  unsigned flags;
  std::shared_ptr<Marker> marker;
  Mapped shared;  // `Moments`, if other processes can open it

  Moments& moments() const { return *(Moments*)bytes_of(shared.header); }
};

constexpr int NO_DEVICE = -1;

struct Driver {
  std::recursive_mutex mutex;
  std::condition_variable_any changed;  // an operation is queued or done, for streams with threads
  Settings settings;
  size_t live[KINDS] = {};
  std::map<int, uint64_t> allocated;  // bytes, by device
  std::vector<std::shared_ptr<Stream>> streams;  // those that were destroyed too, while they have work
  uint64_t streams_made = 0;
  Result dead = SUCCESS;                         // the error that every call gives from now on
  std::set<int> lost;                            // devices of which every call gives one

  // The call to fail: the `fail_at`th of those named `fail_call`, or of all if that is empty.
  std::string fail_call;
  uint64_t fail_at = 0, calls = 0;
  uint64_t launches = 0, grid = 0;
  Result fail_with = SUCCESS;
  int fail_loses = NO_DEVICE;  // the device that is lost with it
  std::string failed;  // its name, once it has failed
};

Driver& driver();

// Counts a call; the error that it must give, if any.
Result enter(const char* call);
// As `enter`, for calls that need a current context.
Result enter_context(const char* call);
// The calling thread's.
Context* current_context();
// Whether it is there to be used.
bool is_alive(const Context* context);
bool is_device(int device);
// Whether a device may be allowed to use the memory of another.
bool can_reach(int device, int other);

// Whether all of it lies in one allocation.
bool is_mapped(Range memory);
// Whether it is memory that kernels in a context may use.
bool reaches(Context* context, Range memory);
// Whether it is memory of this context's, and no other's.
bool belongs_to(Context* context, Range memory);

// The stream of a handle: of null or CU_STREAM_LEGACY, the default one of the current context; of CU_STREAM_PER_THREAD, that of
// the calling thread in it; null if there is none.
std::shared_ptr<Stream> find_stream(void* handle);
// The same for some other thread than the calling one.
std::shared_ptr<Stream> find_stream_elsewhere(void* handle);
// Loses all: every call fails from now on.
void fault();
// The error that every call gives in a context that is lost, with all or with its device: nothing runs there any more.
Result loss_of(const Context* context);
// Queues or records an operation, which runs without the mutex where its stream has a thread. `gone` is for who must know
// when nothing can find it in use any more; `cost` says what takes its time.
Result enqueue(void* stream, std::function<void()> run, std::vector<Range> touches = {}, std::function<void()> gone = {},
               Cost cost = {});
// Counts the time of an operation of the stream that has run. With the mutex locked.
void take_time(Stream& stream, const Operation& operation);
// Waits, or works, until the marker is reached or its stream is lost.
void reach(const Marker& marker);
// Whether queued work uses some of the memory.
bool is_in_use(Range memory);
// Runs all work of one stream, of all, or of those that belong to a context or use some memory; also of contexts that use the
// memory of that one as it does theirs, if they count.
void drain(const std::shared_ptr<Stream>& stream);
void drain_all();
void drain_users(Context* owner, Range memory, bool of_peers);
// Takes its time, and waits, before there is new memory in a context, as `alloc_ms` says. With the mutex locked once.
void take_time_to_allocate(Context* owner);
// Runs the next operation of a stream that has one, no thread, and does not run.
void run_one(const std::shared_ptr<Stream>& stream);
// Runs one operation of some stream but this one, where no thread does; whether there was any.
bool run_another(const Stream* waiting);
// Fails, and spoils the recording, if any stream records and the calling thread has not relaxed its rules, or if this one
// does: for calls that may not be made meanwhile.
Result refuse_recording();
// Fails if the stream is the default one and a stream that waits for it records; to use it all the same spoils that.
Result refuse_implicit(const std::shared_ptr<Stream>& stream, bool spoil);
Result refuse_recording_of(const std::shared_ptr<Stream>& stream);
// The same where the calling thread may not ask or wait, whatever for: while it records, or another one does that forbids it
// to all.
Result refuse_asking();
// What the calling thread minds.
int& capture_mode();

[[noreturn]] void die(const char* what);

}  // namespace stub

#define STUB_API extern "C" __attribute__((visibility("default")))
#define STUB_ENTER                                              \
  std::lock_guard<std::recursive_mutex> lock(driver().mutex);   \
  if (const Result error = enter(__func__)) return error
#define STUB_ENTER_CONTEXT                                      \
  std::lock_guard<std::recursive_mutex> lock(driver().mutex);   \
  if (const Result error = enter_context(__func__)) return error
// For calls that give something back, which they do even when they fail.
#define STUB_RELEASE                                            \
  std::lock_guard<std::recursive_mutex> lock(driver().mutex);   \
  const Result result = enter(__func__)
