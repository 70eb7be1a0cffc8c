// Streams: how queued work runs, and the calls about them.
#include <algorithm>
#include <random>
#include <thread>

#include "stub.h"

namespace stub {

static void work(const std::shared_ptr<Stream>& stream, uint64_t seed);

// A stream that orders nothing by itself, as those that do not block the default one.
static std::shared_ptr<Stream> make_stream(Context* context) {
  Driver& d = driver();
  const auto stream = std::make_shared<Stream>();
  stream->context = context;
  d.streams.push_back(stream);
  d.streams_made++;
  if (d.settings.threads != 0) {
    stream->threaded = true;
    std::thread(work, stream, d.settings.threads + 7919 * d.streams_made).detach();
  }
  return stream;
}

// The one of the current context that is there without being made.
static std::shared_ptr<Stream> default_stream() {
  Context* const context = current_context();
  if (context->default_stream == nullptr) {
    context->default_stream = make_stream(context);
    context->default_stream->is_default = true;
  }
  return context->default_stream;
}

static void* const LEGACY = (void*)1;
static void* const PER_THREAD = (void*)2;

// That of a thread in the current context, made when it is first used. It waits for the default one, and that for it.
static std::shared_ptr<Stream> stream_of(uint64_t thread) {
  static auto* const all = new std::map<std::pair<Context*, uint64_t>, std::shared_ptr<Stream>>;  // exit handlers may still call
  std::shared_ptr<Stream>& stream = (*all)[{current_context(), thread}];
  if (stream == nullptr) {
    stream = make_stream(current_context());
    stream->blocking = true;
  }
  return stream;
}

// Of the calling thread: none has 0.
static uint64_t thread_number() {
  static uint64_t threads;
  static thread_local uint64_t number = ++threads;
  return number;
}

std::shared_ptr<Stream> find_stream_elsewhere(void* handle) {
  return handle == PER_THREAD ? stream_of(0) : find_stream(handle);
}

std::shared_ptr<Stream> find_stream(void* handle) {
  if (handle == nullptr || handle == LEGACY) return default_stream();
  if (handle == PER_THREAD) return stream_of(thread_number());
  for (const std::shared_ptr<Stream>& stream : driver().streams) {
    if (stream.get() == handle) return stream;
  }
  return nullptr;
}

Result enqueue(void* handle, std::function<void()> run, std::vector<Range> touches, std::function<void()> gone,
               Cost cost) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (stream == nullptr) return INVALID_HANDLE;
  Operation operation{std::move(run), std::move(touches), std::move(gone), cost};
  if (stream->recording != nullptr) {
    std::vector<Recording::Node>& nodes = stream->recording->nodes;
    nodes.push_back({std::move(operation), stream->frontier});
    stream->frontier = {nodes.size() - 1};
  } else {
    stream->queue.push_back(std::move(operation));
    driver().changed.notify_all();
  }
  return SUCCESS;
}

void take_time(Stream& stream, const Operation& operation) {
  const Settings& settings = driver().settings;
  stream.clock_ns += (double)operation.cost.moved * (double)settings.link_ns_per_kib / 1024;
  stream.clock_ns += (double)operation.cost.launches * (double)settings.launch_ns;
}

void run_one(const std::shared_ptr<Stream>& stream) {
  const Operation operation = std::move(stream->queue.front());
  stream->queue.pop_front();
  // After a fault nothing runs any more.
  stream->running = true;
  if (loss_of(stream->context) == SUCCESS) operation.run();
  stream->running = false;
  take_time(*stream, operation);
  stream->done++;
  if (operation.gone) operation.gone();
}

bool run_another(const Stream* waiting) {
  for (const std::shared_ptr<Stream>& stream : driver().streams) {
    if (stream.get() == waiting || stream->running || stream->threaded || stream->queue.empty()) continue;
    const std::shared_ptr<Stream> other = stream;
    return run_one(other), true;
  }
  return false;
}

void fault() {
  driver().dead = ILLEGAL_ADDRESS;
  driver().changed.notify_all();
}

Result loss_of(const Context* context) {
  const bool is_lost = driver().lost.count(context->device) != 0;
  return driver().dead == SUCCESS && is_lost ? ILLEGAL_ADDRESS : driver().dead;
}

// The thread of a stream. Operations of other streams and calls of the host go on beside its own.
static void work(const std::shared_ptr<Stream>& stream, uint64_t seed) {
  Driver& d = driver();
  std::minstd_rand random((unsigned)seed);
  std::unique_lock<std::recursive_mutex> lock(d.mutex);
  for (;;) {
    while (stream->queue.empty() && !stream->destroyed) d.changed.wait(lock);
    if (stream->queue.empty()) break;
    const Operation& operation = stream->queue.front();
    const bool dead = loss_of(stream->context) != SUCCESS;
    const unsigned mood = random();
    lock.unlock();
    if (mood % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(mood / 4 % 300));
    if (!dead) operation.run();
    lock.lock();
    take_time(*stream, stream->queue.front());
    const std::function<void()> gone = std::move(stream->queue.front().gone);
    stream->queue.pop_front();
    stream->done++;
    if (gone) gone();
    d.changed.notify_all();
  }
  d.streams.erase(std::find(d.streams.begin(), d.streams.end(), stream));
}

void drain(const std::shared_ptr<Stream>& stream) {
  const uint64_t end = stream->done + stream->queue.size();
  while (stream->done < end) {
    if (stream->threaded) {
      driver().changed.wait(driver().mutex);
    } else {
      run_one(stream);
    }
  }
}

void drain_all() {
  const std::vector<std::shared_ptr<Stream>> streams = driver().streams;
  for (const std::shared_ptr<Stream>& stream : streams) drain(stream);
}

// With the mutex locked once: to wait is to unlock it.
void reach(const Marker& marker) {
  while (!marker.reached && loss_of(marker.stream->context) == SUCCESS) {
    if (marker.stream->threaded) {
      driver().changed.wait(driver().mutex);
    } else if (marker.stream->running) {
      die("streams wait for each other");
    } else if (!marker.stream->queue.empty()) {
      run_one(marker.stream);
    } else {
      break;
    }
  }
}

static bool uses(const Stream& stream, Range memory) {
  for (const Operation& operation : stream.queue) {
    for (const Range& range : operation.touches) {
      if (range.address < memory.address + memory.len && memory.address < range.address + range.len) return true;
    }
  }
  return false;
}

bool is_in_use(Range memory) {
  for (const std::shared_ptr<Stream>& stream : driver().streams) {
    if (uses(*stream, memory)) return true;
  }
  return false;
}

static bool are_peers(Context* a, Context* b) { return a->peers.count(b) != 0 && b->peers.count(a) != 0; }

// Other devices may wait for what this one does next.
void drain_users(Context* owner, Range memory, bool of_peers) {
  const std::vector<std::shared_ptr<Stream>> streams = driver().streams;
  for (const std::shared_ptr<Stream>& stream : streams) {
    const bool counts = stream->context == owner || (of_peers && are_peers(stream->context, owner));
    if (counts || uses(*stream, memory)) drain(stream);
  }
}

void take_time_to_allocate(Context* owner) {
  Driver& d = driver();
  const uint64_t ms = d.settings.alloc_ms * (uint64_t)(owner->device + 1);
  if (ms == 0) return;
  d.mutex.unlock();
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  d.mutex.lock();
  drain_users(owner, {0, 0}, true);
}

Result refuse_recording() {
  Result result = SUCCESS;
  if (capture_mode() == RELAXED) return result;
  for (const std::shared_ptr<Stream>& stream : driver().streams) {
    if (stream->recording == nullptr) continue;
    stream->recording->valid = false;
    result = CAPTURE_UNSUPPORTED;
  }
  return result;
}

Result refuse_implicit(const std::shared_ptr<Stream>& stream, bool spoil) {
  Result result = SUCCESS;
  if (!stream->is_default) return result;
  for (const std::shared_ptr<Stream>& other : driver().streams) {
    if (other->recording == nullptr || !other->blocking || other->context != stream->context) continue;
    if (spoil) other->recording->valid = false;
    result = CAPTURE_IMPLICIT;
  }
  return result;
}

Result refuse_recording_of(const std::shared_ptr<Stream>& stream) {
  if (stream == nullptr) return INVALID_HANDLE;
  if (stream->recording == nullptr) return SUCCESS;
  stream->recording->valid = false;
  return CAPTURE_UNSUPPORTED;
}

Result refuse_asking() {
  Result result = SUCCESS;
  if (capture_mode() == RELAXED) return result;
  for (const std::shared_ptr<Stream>& stream : driver().streams) {
    if (stream->recording == nullptr) continue;
    Recording& recording = *stream->recording;
    const bool own = recording.thread == std::this_thread::get_id();
    const bool forbids = own ? recording.mode != RELAXED : recording.mode == GLOBAL && capture_mode() == GLOBAL;
    if (!forbids) continue;
    recording.valid = false;
    result = CAPTURE_UNSUPPORTED;
  }
  return result;
}

}  // namespace stub

using namespace stub;

STUB_API int cuStreamCreate(void** handle, unsigned flags) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = make_stream(current_context());
  stream->blocking = (flags & 1) == 0;
  *handle = stream.get();
  driver().live[STREAMS]++;
  return SUCCESS;
}

// What is queued still runs, some time: events keep the stream, and so does whoever waits for all.
STUB_API int cuStreamDestroy_v2(void* handle) {
  STUB_RELEASE;
  auto& streams = driver().streams;
  const bool is_made = handle != nullptr && handle != LEGACY && handle != PER_THREAD;
  const std::shared_ptr<Stream> stream = is_made ? find_stream(handle) : nullptr;
  if (stream == nullptr) die("a stream is destroyed that there is not");
  stream->destroyed = true;
  if (stream->threaded) {
    driver().changed.notify_all();
  } else if (stream->queue.empty()) {
    streams.erase(std::find(streams.begin(), streams.end(), stream));
  }
  driver().live[STREAMS]--;
  return result;
}

STUB_API int cuStreamGetCtx(void* handle, Context** context) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (stream == nullptr) return INVALID_HANDLE;
  *context = stream->context;
  return SUCCESS;
}

STUB_API int cuStreamSynchronize(void* handle) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (const Result error = refuse_recording_of(stream)) return error;
  if (const Result error = refuse_asking()) return error;
  drain(stream);
  return loss_of(current_context());
}

// Each query lets a little of the work run, where no thread does.
STUB_API int cuStreamQuery(void* handle) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (const Result error = refuse_recording_of(stream)) return error;
  if (const Result error = refuse_asking()) return error;
  if (stream->queue.empty()) return loss_of(current_context());
  if (!stream->threaded) run_one(stream);
  const Result lost = loss_of(current_context());
  return lost == SUCCESS ? NOT_READY : lost;
}
