// What calls ask for, and groups of them.
#include "../stub/stub.h"
#include "nccl.h"

using namespace stub_nccl;

// The thread's group: how deep it is in it, what it has asked for so far, and what went wrong first.
static thread_local int depth;
static thread_local std::vector<std::pair<std::shared_ptr<Comm>, Operation>> asked;
static thread_local Result wrong;

// Hands the operations of a group over: those of one communicator and stream together.
static Result hand_over() {
  const auto all = std::move(asked);
  asked.clear();
  if (wrong != SUCCESS) return wrong;
  std::map<std::pair<std::shared_ptr<Comm>, void*>, std::vector<Operation>> batches;
  for (const auto& [comm, operation] : all) batches[{comm, operation.stream}].push_back(operation);
  for (auto& [key, operations] : batches) {
    key.first->delayed.push_back(std::move(operations));
    key.first->busy = state().settings.slow + 1;
  }
  return batches.empty() ? SUCCESS : IN_PROGRESS;
}

static Result ask(void* handle, const Operation& operation) {
  const std::shared_ptr<Comm> comm = find(handle);
  const bool is_rank = operation.peer >= 0 && operation.peer < comm->world->ranks;
  Result result = SUCCESS;
  if (!is_rank || width_of(operation.type) == 0) result = INVALID_ARGUMENT;
  if (comm->failure != SUCCESS) result = comm->failure;
  // Who does not wait until it is done with the last call would not know what comes first.
  if (comm->finalized || !comm->delayed.empty()) result = INVALID_USAGE;
  if (result != SUCCESS) {
    if (depth != 0 && wrong == SUCCESS) wrong = result;
    return result;
  }
  asked.push_back({comm, operation});
  return depth == 0 ? hand_over() : SUCCESS;
}

#define NCCL_CALL                                                       \
  std::lock_guard<std::recursive_mutex> driver(stub::driver().mutex);   \
  if (const Result error = enter(__func__)) {                           \
    if (depth != 0 && wrong == SUCCESS) wrong = error;                  \
    return error;                                                       \
  }                                                                     \
  std::lock_guard<std::mutex> lock(state().mutex)

STUB_API int ncclGroupStart() {
  if (const Result error = enter("ncclGroupStart")) return error;
  if (depth++ == 0) wrong = SUCCESS;
  return SUCCESS;
}

// The group ends, whatever comes of it.
STUB_API int ncclGroupEnd() {
  const Result error = enter("ncclGroupEnd");
  if (depth == 0) return INVALID_USAGE;
  if (--depth != 0) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  if (error != SUCCESS && wrong == SUCCESS) wrong = error;
  const Result result = hand_over();
  wrong = SUCCESS;
  return result;
}

bool stub_nccl::is_in_group() { return depth != 0; }

STUB_API int ncclSend(const void* from, size_t count, int type, int peer, void* comm, void* stream) {
  NCCL_CALL;
  return ask(comm, {Kind::SEND, from, nullptr, count, type, 0, peer, stream});
}

STUB_API int ncclRecv(void* to, size_t count, int type, int peer, void* comm, void* stream) {
  NCCL_CALL;
  return ask(comm, {Kind::RECV, nullptr, to, count, type, 0, peer, stream});
}

STUB_API int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, void* comm, void* stream) {
  NCCL_CALL;
  return ask(comm, {Kind::BROADCAST, from, to, count, type, 0, root, stream});
}

STUB_API int ncclAllGather(const void* from, void* to, size_t count, int type, void* comm, void* stream) {
  NCCL_CALL;
  return ask(comm, {Kind::ALL_GATHER, from, to, count, type, 0, 0, stream});
}

STUB_API int ncclReduceScatter(const void* from, void* to, size_t count, int type, int reduction, void* comm,
                               void* stream) {
  NCCL_CALL;
  return ask(comm, {Kind::REDUCE_SCATTER, from, to, count, type, reduction, 0, stream});
}

STUB_API int ncclAllReduce(const void* from, void* to, size_t count, int type, int reduction, void* comm,
                           void* stream) {
  NCCL_CALL;
  return ask(comm, {Kind::ALL_REDUCE, from, to, count, type, reduction, 0, stream});
}
