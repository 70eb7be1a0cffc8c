// Communicators: how they come together and end; and what tests may set.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../stub/stub.h"
#include "nccl.h"

using namespace stub_nccl;

// The front of `ncclConfig_t`, as it was first.
struct Config {
  size_t len;
  unsigned magic, version;
  int blocking;
};

namespace stub_nccl {

static State* make_state() {
  State* const made = new State;
  // A program finds it in its environment, as the settings of the driver.
  if (const char* version = getenv("MGCOMP_STUB_NCCL_VERSION")) made->settings.version = strtoull(version, nullptr, 10);
  return made;
}

State& state() {
  static State* const the_state = make_state();  // never destroyed: exit handlers may still call
  return *the_state;
}

std::shared_ptr<Comm> find(void* comm) {
  const auto found = state().comms.find(comm);
  if (found == state().comms.end()) stub::die("NCCL: a communicator is used that there is not");
  return found->second;
}

Result enter(const char* call) {
  std::lock_guard<std::recursive_mutex> lock(stub::driver().mutex);
  return stub::enter_context(call) == stub::SUCCESS ? SUCCESS : UNHANDLED_CUDA_ERROR;
}

void fail(World& world, Result failure, const char* why) {
  fprintf(stderr, "stub: NCCL: %s\n", why);
  for (Comm* member : world.members) {
    if (member != nullptr && member->failure == SUCCESS) member->failure = failure;
  }
  state().changed.notify_all();
}

static bool is_same_device(const Seat& a, const Seat& b) {
  return a.device == b.device && strcmp(a.host, b.host) == 0;
}

// As NCCL does, refuses two ranks of one host with one device.
std::shared_ptr<Comm> join(const UniqueId& id, const Seat& seat) {
  std::weak_ptr<World>& known = state().worlds[std::string(id.bytes, sizeof id.bytes)];
  std::shared_ptr<World> world = known.lock();
  if (world == nullptr) {
    world = std::make_shared<World>();
    world->ranks = seat.ranks;
    world->members.resize((size_t)seat.ranks);
    known = world;
  }
  if (world->ranks != seat.ranks || world->members[(size_t)seat.rank] != nullptr) return nullptr;
  for (const Comm* member : world->members) {
    if (member != nullptr && is_same_device(member->seat, seat)) {
      fail(*world, INVALID_USAGE, "two ranks have one device");
      return nullptr;
    }
  }
  const auto comm = std::make_shared<Comm>();
  comm->world = world;
  comm->rank = seat.rank;
  comm->seat = seat;
  world->members[(size_t)seat.rank] = comm.get();
  world->joined++;
  state().changed.notify_all();
  return comm;
}

void leave_in_strife(Comm& comm) {
  comm.aborted = true;
  comm.delayed.clear();
  for (Comm* member : comm.world->members) {
    const bool notices = member != nullptr && member != &comm && state().settings.silent == 0;
    if (notices && member->failure == SUCCESS) member->failure = REMOTE_ERROR;
  }
  state().changed.notify_all();
}

}  // namespace stub_nccl

// Who needs both mutexes takes the driver's first.
#define NCCL_ENTER                                                    \
  std::lock_guard<std::recursive_mutex> driver(stub::driver().mutex); \
  if (const Result error = enter(__func__)) return error;             \
  std::lock_guard<std::mutex> lock(state().mutex)
// For calls that give something back, which they do even when they fail.
#define NCCL_RELEASE                     \
  const Result result = enter(__func__); \
  std::unique_lock<std::mutex> lock(state().mutex)

STUB_API int ncclGetVersion(int* version) {
  std::lock_guard<std::mutex> lock(state().mutex);
  *version = (int)state().settings.version;
  return SUCCESS;
}

STUB_API const char* ncclGetErrorString(int result) {
  switch (result) {
    case SUCCESS: return "no error";
    case UNHANDLED_CUDA_ERROR: return "unhandled cuda error";
    case INVALID_ARGUMENT: return "invalid argument";
    case INVALID_USAGE: return "invalid usage";
    case REMOTE_ERROR: return "remote process exited or there was a network error";
    case IN_PROGRESS: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

STUB_API const char* ncclGetLastError(void*) { return "see standard error"; }

STUB_API int ncclGetUniqueId(UniqueId* id) {
  std::lock_guard<std::mutex> lock(state().mutex);
  *id = UniqueId{};
  snprintf(id->bytes, sizeof id->bytes, "nccl-%d-%llu", (int)getpid(), (unsigned long long)++state().ids);
  return listen_for(*id) ? SUCCESS : UNHANDLED_CUDA_ERROR;
}

// A communicator that does not block: it is made when all have asked for it.
STUB_API int ncclCommInitRankConfig(void** handle, int ranks, UniqueId id, int rank, const Config* config) {
  NCCL_ENTER;
  if (config == nullptr || config->magic != 0xcafebeef || config->version < 21400 || config->blocking != 0) {
    return INVALID_ARGUMENT;
  }
  if (ranks < 1 || rank < 0 || rank >= ranks) return INVALID_ARGUMENT;
  Seat seat = {rank, ranks, stub::current_context()->device, {}};
  if (const char* host = getenv("NCCL_HOSTID")) snprintf(seat.host, sizeof seat.host, "%s", host);
  int process = 0;
  if (sscanf(id.bytes, "nccl-%d-", &process) != 1) return INVALID_ARGUMENT;
  const std::shared_ptr<Comm> comm = process == getpid() ? join(id, seat) : join_elsewhere(id, seat);
  if (comm == nullptr) return INVALID_USAGE;
  state().comms[comm.get()] = comm;
  *handle = comm.get();
  if (state().settings.init_fails != 0) {
    fail(*comm->world, REMOTE_ERROR, "a meeting that fails on purpose");
    return REMOTE_ERROR;
  }
  return IN_PROGRESS;
}

// What a communicator is at. Asking often enough lets it enqueue what it was told to.
STUB_API int ncclCommGetAsyncError(void* handle, int* result) {
  NCCL_ENTER;
  const std::shared_ptr<Comm> comm = find(handle);
  hear(*comm);
  *result = comm->failure;
  if (comm->failure != SUCCESS) return SUCCESS;
  *result = IN_PROGRESS;
  if (comm->world->joined < comm->world->ranks) return SUCCESS;
  if (comm->finalized && (comm->queued != 0 || comm->recorded != 0)) return SUCCESS;
  if (comm->busy != 0 && --comm->busy != 0) return SUCCESS;
  std::vector<std::vector<Operation>> delayed = std::move(comm->delayed);
  comm->delayed.clear();
  *result = SUCCESS;
  for (std::vector<Operation>& operations : delayed) {
    if (const Result error = enqueue(comm, std::move(operations))) *result = comm->failure = error;
  }
  return SUCCESS;
}

STUB_API int ncclCommFinalize(void* handle) {
  NCCL_ENTER;
  find(handle)->finalized = true;
  return IN_PROGRESS;
}

static void forget(const std::shared_ptr<Comm>& comm) {
  comm->world->members[(size_t)comm->rank] = nullptr;
  state().comms.erase(comm.get());
}

STUB_API int ncclCommDestroy(void* handle) {
  NCCL_RELEASE;
  const std::shared_ptr<Comm> comm = find(handle);
  if (comm->queued != 0 || comm->recorded != 0 || !comm->delayed.empty()) stub::die("NCCL: a communicator is destroyed that has work");
  leave_hub(*comm, true);
  forget(comm);
  return result;
}

// Ends what is under way. The others learn of it, or not. As NCCL does, waits until all graphs are destroyed that have
// recorded its calls.
STUB_API int ncclCommAbort(void* handle) {
  if (is_in_group()) stub::die("NCCL: a communicator is aborted in a group");
  NCCL_RELEASE;
  const std::shared_ptr<Comm> comm = find(handle);
  leave_in_strife(*comm);
  leave_hub(*comm, false);
  while (comm->running != 0 || comm->recorded != 0) state().changed.wait_for(lock, std::chrono::milliseconds(1));
  forget(comm);
  return result;
}

// Sets the setting with this name; 1 if there is none.
STUB_API int mgc_nccl_set(const char* name, uint64_t value) {
  static const struct {
    const char* name;
    uint64_t Settings::*field;
  } settings[] = {
      {"version", &Settings::version},
      {"slow", &Settings::slow},
      {"silent", &Settings::silent},
      {"init_fails", &Settings::init_fails},
      {"async_at", &Settings::async_at},
  };
  std::lock_guard<std::mutex> lock(state().mutex);
  state().begun = 0;
  for (const auto& setting : settings) {
    if (strcmp(setting.name, name) == 0) return state().settings.*setting.field = value, 0;
  }
  return 1;
}

// Communicators that were neither destroyed nor aborted.
STUB_API uint64_t mgc_nccl_live() {
  std::lock_guard<std::mutex> lock(state().mutex);
  return state().comms.size();
}

// Operations that have begun since a setting was set last, on any rank.
STUB_API uint64_t mgc_nccl_begun() {
  std::lock_guard<std::mutex> lock(state().mutex);
  return state().begun;
}
