// NCCL between ranks that are threads of one process or processes of one machine, over the stub of the driver. Internal to
// the stub.
//
// Operations are enqueued on streams, which need threads, and meet there: one waits for its peers, as a kernel would. Calls
// return before they have enqueued anything, as those of communicators that do not block may.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace stub_nccl {

// Numbers of `ncclResult_t`.
enum Result : int {
  SUCCESS = 0,
  UNHANDLED_CUDA_ERROR = 1,
  INVALID_ARGUMENT = 4,
  INVALID_USAGE = 5,
  REMOTE_ERROR = 6,
  IN_PROGRESS = 7,
};

enum class Kind { SEND, RECV, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE };

struct Operation {
  Kind kind;
  const void* send;
  void* recv;
  size_t count;
  int type, reduction;
  int peer;  // or root
  void* stream;
};

// What a test may set.
struct Settings {
  uint64_t version = 22809;
  uint64_t slow = 1;       // calls in which a communicator is still busy with what it was told
  uint64_t silent = 0;     // 1: ranks do not notice that another one has aborted
  uint64_t init_fails = 0; // 1: a communicator fails before the call that makes it is over
  uint64_t async_at = 0;   // counted from 1: when this operation begins, its communicator fails on all ranks
};

// A collective that ranks have come to.
struct Meeting {
  std::vector<const Operation*> by_rank;
  int arrived = 0, left = 0;
  bool done = false;
};

// A send or a receive that waits for the other one.
struct Post {
  const Operation* operation;
  bool done;
};

struct UniqueId {
  char bytes[128];
};

// The place of a rank, and where it is.
struct Seat {
  int rank, ranks;
  int device;
  char host[64];  // by NCCL_HOSTID, or empty
};

struct Comm;

struct World {
  int ranks;
  std::vector<Comm*> members;  // null until they join
  int joined = 0;
  std::map<uint64_t, Meeting> meetings;  // by number
  std::map<std::pair<int, int>, std::deque<Post*>> sends, receives;  // by sender and receiver
};

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0;
  Seat seat = {};
  int work = -1, news = -1;  // connections with the process where operations meet, if that is another one
  bool gone = false;         // of a rank elsewhere: it has left in peace
  Result failure = SUCCESS;
  bool aborted = false, finalized = false;
  uint64_t met = 0;        // collectives so far
  size_t queued = 0, running = 0;
  std::atomic<size_t> recorded{0};  // groups of calls that graphs, or what is to become one, refer to
  uint64_t busy = 0;       // questions until what is delayed is enqueued
  std::vector<std::vector<Operation>> delayed;

  Comm() = default;
  Comm(const Comm&) = delete;
  ~Comm();
};

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  Settings settings;
  std::map<std::string, std::weak_ptr<World>> worlds;  // by id
  std::map<void*, std::shared_ptr<Comm>> comms;        // those that were not destroyed
  uint64_t ids = 0, begun = 0;
};

State& state();

// The communicator of a handle; ends the process if there is none.
std::shared_ptr<Comm> find(void* comm);
// Enqueues operations of one stream, which begin together.
Result enqueue(const std::shared_ptr<Comm>& comm, std::vector<Operation> operations);
// Does operations of one stream, with the others.
void run(Comm& comm, const std::vector<Operation>& operations);
// Makes a rank a member of the communicator with this id; null if it cannot be.
std::shared_ptr<Comm> join(const UniqueId& id, const Seat& seat);
// Ends a member's part, and lets the others know, or not.
void leave_in_strife(Comm& comm);
// Lets ranks in other processes come to a communicator that will have this id.
bool listen_for(const UniqueId& id);
// The same as `join`, `run`, and the end, where another process has made the id.
std::shared_ptr<Comm> join_elsewhere(const UniqueId& id, const Seat& seat);
void run_elsewhere(Comm& comm, const std::vector<Operation>& operations);
void leave_hub(Comm& comm, bool in_peace);
// What that process has told of the communicator.
void hear(Comm& comm);
// Lets a communicator fail on all ranks, and says why.
void fail(World& world, Result failure, const char* why);
size_t width_of(int type);
// Does a collective that all have come to.
void perform(const World& world, const Meeting& meeting);
// Whether this thread is in a group of calls.
bool is_in_group();
// Says what the driver does of a call: it may be one that is made to fail.
Result enter(const char* call);

}  // namespace stub_nccl
