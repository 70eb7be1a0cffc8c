// Operations on streams: they wait for their peers, and the last one to come does the work of all.
#include <algorithm>
#include <cstring>
#include <functional>

#include "../stub/stub.h"
#include "nccl.h"

namespace stub_nccl {

static size_t bytes_of(const Operation& operation) { return operation.count * width_of(operation.type); }

// The memory that an operation uses, for who wants to free it.
static std::vector<stub::Range> touched(const World& world, const std::vector<Operation>& operations) {
  std::vector<stub::Range> ranges;
  for (const Operation& o : operations) {
    const size_t all = bytes_of(o) * (size_t)world.ranks;
    if (o.send != nullptr) ranges.push_back({(uint64_t)o.send, o.kind == Kind::REDUCE_SCATTER ? all : bytes_of(o)});
    if (o.recv != nullptr) ranges.push_back({(uint64_t)o.recv, o.kind == Kind::ALL_GATHER ? all : bytes_of(o)});
  }
  return ranges;
}

// The bytes that a rank sends or receives, whichever are more, as ranks in a ring do.
static size_t moved(const World& world, const std::vector<Operation>& operations) {
  size_t sent = 0, received = 0;
  for (const Operation& o : operations) {
    const bool is_gathered = o.kind == Kind::ALL_GATHER || o.kind == Kind::REDUCE_SCATTER;
    const size_t len = bytes_of(o) * (is_gathered ? (size_t)world.ranks - 1 : 1);
    if (o.kind != Kind::RECV) sent += len;
    if (o.kind != Kind::SEND) received += len;
  }
  return std::max(sent, received);
}

// Sends and receives of one pair meet in their order.
static void match(World& world, std::pair<int, int> pair) {
  auto &sends = world.sends[pair], &receives = world.receives[pair];
  while (!sends.empty() && !receives.empty()) {
    Post *const from = sends.front(), *const to = receives.front();
    const size_t len = bytes_of(*from->operation);
    if (len != bytes_of(*to->operation)) return fail(world, INVALID_USAGE, "a send and its receive differ in length");
    if (len != 0) memcpy(to->operation->recv, from->operation->send, len);
    from->done = to->done = true;
    sends.pop_front();
    receives.pop_front();
  }
}

static void arrive(Comm& comm, const Operation& operation, uint64_t number) {
  World& world = *comm.world;
  Meeting& meeting = world.meetings[number];
  meeting.by_rank.resize((size_t)world.ranks);
  for (const Operation* other : meeting.by_rank) {
    if (other == nullptr) continue;
    const bool same = other->kind == operation.kind && other->count == operation.count && other->type == operation.type &&
                      other->reduction == operation.reduction && other->peer == operation.peer;
    if (!same) return fail(world, INVALID_USAGE, "ranks call different collectives");
  }
  meeting.by_rank[(size_t)comm.rank] = &operation;
  if (++meeting.arrived == world.ranks) {
    perform(world, meeting);
    meeting.done = true;
  }
}

void run(Comm& comm, const std::vector<Operation>& operations) {
  std::unique_lock<std::mutex> lock(state().mutex);
  World& world = *comm.world;
  if (comm.aborted || comm.failure != SUCCESS) return;
  comm.running++;
  std::vector<Post> posts(operations.size());
  std::vector<uint64_t> numbers;
  for (size_t i = 0; i < operations.size(); i++) {
    const Operation& o = operations[i];
    if (++state().begun == state().settings.async_at) fail(world, REMOTE_ERROR, "a failure on purpose");
    posts[i] = {&o, false};
    const bool sends = o.kind == Kind::SEND;
    const std::pair<int, int> pair = sends ? std::pair(comm.rank, o.peer) : std::pair(o.peer, comm.rank);
    if (sends || o.kind == Kind::RECV) {
      (sends ? world.sends : world.receives)[pair].push_back(&posts[i]);
      match(world, pair);
    } else {
      numbers.push_back(comm.met++);
      arrive(comm, o, numbers.back());
      posts[i].done = true;
    }
  }
  state().changed.notify_all();
  const auto over = [&] {
    const auto met = [&](uint64_t number) { return world.meetings[number].done; };
    return std::all_of(posts.begin(), posts.end(), [](const Post& post) { return post.done; }) &&
           std::all_of(numbers.begin(), numbers.end(), met);
  };
  while (!over() && !comm.aborted) state().changed.wait(lock);
  for (auto* const waiting : {&world.sends, &world.receives}) {
    for (auto& [pair, queue] : *waiting) {
      const auto own = [&](Post* post) { return post >= posts.data() && post < posts.data() + posts.size(); };
      queue.erase(std::remove_if(queue.begin(), queue.end(), own), queue.end());
    }
  }
  for (const uint64_t number : numbers) {
    Meeting& meeting = world.meetings[number];
    // Nobody may do anything for one who has left too soon.
    if (!meeting.done) {
      meeting.arrived = -world.ranks;
      meeting.by_rank[(size_t)comm.rank] = nullptr;
    }
    if (++meeting.left == world.ranks) world.meetings.erase(number);
  }
  comm.running--;
  state().changed.notify_all();
}

// With both mutexes locked. As NCCL does it on a thread of its own, the stream of the calling one is not meant.
Result enqueue(const std::shared_ptr<Comm>& comm, std::vector<Operation> operations) {
  const std::shared_ptr<stub::Stream> stream = stub::find_stream_elsewhere(operations.front().stream);
  if (stream == nullptr) return INVALID_ARGUMENT;
  if (!stream->threaded && stream->recording == nullptr) stub::die("NCCL needs streams with threads");
  const bool recorded = stream->recording != nullptr;
  std::vector<stub::Range> ranges = touched(*comm->world, operations);
  const size_t len = moved(*comm->world, operations);
  if (!recorded) comm->queued++;
  // Lives as long as the last recording that has it.
  std::shared_ptr<void> reference;
  if (recorded) {
    comm->recorded++;
    reference = std::shared_ptr<void>(comm.get(), [comm](void*) { comm->recorded--; });
  }
  const auto work = [comm, reference, operations = std::move(operations)] {
    comm->work < 0 ? run(*comm, operations) : run_elsewhere(*comm, operations);
  };
  // Who hears that the communicator has ended may free what it has used. What is recorded is not counted.
  std::function<void()> gone;
  if (!recorded) {
    gone = [comm] {
      std::lock_guard<std::mutex> lock(state().mutex);
      comm->queued--;
    };
  }
  const bool good = stub::enqueue(stream.get(), work, std::move(ranges), gone, stub::Cost{len, 0}) == stub::SUCCESS;
  if (!good && !recorded) comm->queued--;
  return good ? SUCCESS : UNHANDLED_CUDA_ERROR;
}

}  // namespace stub_nccl
