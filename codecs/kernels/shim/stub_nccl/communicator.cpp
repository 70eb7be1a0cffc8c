// Communicators: how they come together and end; and what tests may set.
#include <cstdio>
#include <cstring>

#include "../stub/stub.h"
#include "nccl.h"

using namespace stub_nccl;

struct UniqueId {
  char bytes[128];
};

// The front of `ncclConfig_t`, as it was first.
struct Config {
  size_t len;
  unsigned magic, version;
  int blocking;
};

namespace stub_nccl {

State& state() {
  static State* const the_state = new State;  // never destroyed: exit handlers may still call
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
  snprintf(id->bytes, sizeof id->bytes, "stub %llu", (unsigned long long)++state().ids);
  return SUCCESS;
}

// A communicator that does not block: it is made when all have asked for it.
STUB_API int ncclCommInitRankConfig(void** handle, int ranks, UniqueId id, int rank, const Config* config) {
  NCCL_ENTER;
  if (config == nullptr || config->magic != 0xcafebeef || config->version < 21400 || config->blocking != 0) {
    return INVALID_ARGUMENT;
  }
  if (ranks < 1 || rank < 0 || rank >= ranks) return INVALID_ARGUMENT;
  std::weak_ptr<World>& known = state().worlds[std::string(id.bytes, sizeof id.bytes)];
  std::shared_ptr<World> world = known.lock();
  if (world == nullptr) {
    world = std::make_shared<World>();
    world->ranks = ranks;
    world->members.resize((size_t)ranks);
    known = world;
  }
  if (world->ranks != ranks || world->members[(size_t)rank] != nullptr) return INVALID_USAGE;
  const auto comm = std::make_shared<Comm>();
  comm->world = world;
  comm->rank = rank;
  world->members[(size_t)rank] = comm.get();
  world->joined++;
  state().comms[comm.get()] = comm;
  *handle = comm.get();
  return IN_PROGRESS;
}

// What a communicator is at. Asking often enough lets it enqueue what it was told to.
STUB_API int ncclCommGetAsyncError(void* handle, int* result) {
  NCCL_ENTER;
  const std::shared_ptr<Comm> comm = find(handle);
  *result = comm->failure;
  if (comm->failure != SUCCESS) return SUCCESS;
  *result = IN_PROGRESS;
  if (comm->world->joined < comm->world->ranks) return SUCCESS;
  if (comm->finalized && comm->queued != 0) return SUCCESS;
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
  if (comm->queued != 0 || !comm->delayed.empty()) stub::die("NCCL: a communicator is destroyed that has work");
  forget(comm);
  return result;
}

// Ends what is under way. The others learn of it, or not.
STUB_API int ncclCommAbort(void* handle) {
  if (is_in_group()) stub::die("NCCL: a communicator is aborted in a group");
  NCCL_RELEASE;
  const std::shared_ptr<Comm> comm = find(handle);
  comm->aborted = true;
  comm->delayed.clear();
  for (Comm* member : comm->world->members) {
    const bool notices = member != nullptr && member != comm.get() && state().settings.silent == 0;
    if (notices && member->failure == SUCCESS) member->failure = REMOTE_ERROR;
  }
  state().changed.notify_all();
  while (comm->running != 0) state().changed.wait(lock);
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
