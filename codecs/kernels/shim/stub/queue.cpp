// Streams, events and graphs.
#include <algorithm>
#include <random>
#include <thread>

#include "stub.h"

namespace stub {

std::shared_ptr<Stream> find_stream(void* handle) {
  for (const std::shared_ptr<Stream>& stream : driver().streams) {
    if (stream.get() == handle) return stream;
  }
  return nullptr;
}

Result enqueue(void* handle, std::function<void()> run, std::vector<Range> touches) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (stream == nullptr) return INVALID_HANDLE;
  Operation operation{std::move(run), std::move(touches)};
  if (stream->recording != nullptr) {
    stream->recording->operations.push_back(std::move(operation));
  } else {
    stream->queue.push_back(std::move(operation));
    driver().changed.notify_all();
  }
  return SUCCESS;
}

static void run_one(const std::shared_ptr<Stream>& stream) {
  const Operation operation = std::move(stream->queue.front());
  stream->queue.pop_front();
  // After a fault nothing runs any more.
  if (driver().dead == SUCCESS) operation.run();
  stream->done++;
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
    const bool dead = d.dead != SUCCESS;
    const unsigned mood = random();
    lock.unlock();
    if (mood % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(mood / 4 % 300));
    if (!dead) operation.run();
    lock.lock();
    stream->queue.pop_front();
    stream->done++;
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
  while (!marker.reached && driver().dead == SUCCESS) {
    if (marker.stream->threaded) {
      driver().changed.wait(driver().mutex);
    } else if (!marker.stream->queue.empty()) {
      run_one(marker.stream);
    } else {
      break;
    }
  }
}

bool is_in_use(Range memory) {
  for (const std::shared_ptr<Stream>& stream : driver().streams) {
    for (const Operation& operation : stream->queue) {
      for (const Range& range : operation.touches) {
        if (range.address < memory.address + memory.len && memory.address < range.address + range.len) return true;
      }
    }
  }
  return false;
}

Result refuse_recording() {
  Result result = SUCCESS;
  for (const std::shared_ptr<Stream>& stream : driver().streams) {
    if (stream->recording == nullptr) continue;
    stream->recording->valid = false;
    result = CAPTURE_UNSUPPORTED;
  }
  return result;
}

Result refuse_recording_of(const std::shared_ptr<Stream>& stream) {
  if (stream == nullptr) return INVALID_HANDLE;
  if (stream->recording == nullptr) return SUCCESS;
  stream->recording->valid = false;
  return CAPTURE_UNSUPPORTED;
}

}  // namespace stub

using namespace stub;

STUB_API int cuStreamCreate(void** handle, unsigned) {
  STUB_ENTER_CONTEXT;
  Driver& d = driver();
  const auto stream = std::make_shared<Stream>();
  d.streams.push_back(stream);
  d.streams_made++;
  if (d.settings.threads != 0) {
    stream->threaded = true;
    std::thread(work, stream, d.settings.threads + 7919 * d.streams_made).detach();
  }
  *handle = stream.get();
  d.live[STREAMS]++;
  return SUCCESS;
}

// What is queued still runs, some time: events keep the stream, and so does whoever waits for all.
STUB_API int cuStreamDestroy_v2(void* handle) {
  STUB_RELEASE;
  auto& streams = driver().streams;
  const std::shared_ptr<Stream> stream = find_stream(handle);
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

STUB_API int cuStreamSynchronize(void* handle) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (const Result error = refuse_recording_of(stream)) return error;
  drain(stream);
  return driver().dead;
}

// Each query lets a little of the work run, where no thread does.
STUB_API int cuStreamQuery(void* handle) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (const Result error = refuse_recording_of(stream)) return error;
  if (stream->queue.empty()) return driver().dead;
  if (!stream->threaded) run_one(stream);
  return driver().dead == SUCCESS ? NOT_READY : driver().dead;
}

STUB_API int cuEventCreate(void** handle, unsigned) {
  STUB_ENTER_CONTEXT;
  *handle = new Event;
  driver().live[EVENTS]++;
  return SUCCESS;
}

STUB_API int cuEventDestroy_v2(void* handle) {
  STUB_RELEASE;
  delete (Event*)handle;
  driver().live[EVENTS]--;
  return result;
}

STUB_API int cuEventRecord(void* event, void* handle) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  // Streams that are recorded together are more than this stub knows.
  if (const Result error = refuse_recording_of(stream)) return error;
  const auto marker = std::make_shared<Marker>();
  marker->stream = stream;
  ((Event*)event)->marker = marker;
  return enqueue(handle, [marker] {
    std::lock_guard<std::recursive_mutex> lock(driver().mutex);
    marker->reached = true;
    marker->at = std::chrono::steady_clock::now();
    driver().changed.notify_all();
  });
}

// What was never recorded has happened.
STUB_API int cuEventSynchronize(void* event) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Marker> marker = ((Event*)event)->marker;
  if (marker != nullptr) reach(*marker);
  return driver().dead;
}

STUB_API int cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Marker> from = ((Event*)start)->marker, to = ((Event*)end)->marker;
  if (from == nullptr || to == nullptr) return INVALID_HANDLE;
  if (!from->reached || !to->reached) return NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(to->at - from->at).count();
  return SUCCESS;
}

STUB_API int cuStreamWaitEvent(void* handle, void* event, unsigned) {
  STUB_ENTER_CONTEXT;
  if (const Result error = refuse_recording_of(find_stream(handle))) return error;
  const std::shared_ptr<Marker> marker = ((Event*)event)->marker;
  if (marker == nullptr) return SUCCESS;
  return enqueue(handle, [marker] {
    std::lock_guard<std::recursive_mutex> lock(driver().mutex);
    reach(*marker);
  });
}

STUB_API int cuStreamBeginCapture_v2(void* handle, int) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (const Result error = refuse_recording_of(stream)) return error;
  stream->recording = std::make_shared<Recording>();
  return SUCCESS;
}

STUB_API int cuStreamEndCapture(void* handle, void** graph) {
  std::lock_guard<std::recursive_mutex> lock(driver().mutex);
  const Result error = enter_context("cuStreamEndCapture");
  *graph = nullptr;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (stream == nullptr || stream->recording == nullptr) return INVALID_VALUE;
  const std::shared_ptr<Recording> recording = std::move(stream->recording);
  if (error != SUCCESS) return error;
  if (!recording->valid) return CAPTURE_INVALIDATED;
  *graph = new Recording(*recording);
  driver().live[GRAPHS]++;
  return SUCCESS;
}

STUB_API int cuGraphDestroy(void* graph) {
  STUB_RELEASE;
  delete (Recording*)graph;
  driver().live[GRAPHS]--;
  return result;
}

STUB_API int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  STUB_ENTER_CONTEXT;
  *executable = new Recording(*(Recording*)graph);
  driver().live[EXECUTABLES]++;
  return SUCCESS;
}

STUB_API int cuGraphExecDestroy(void* executable) {
  STUB_RELEASE;
  delete (Recording*)executable;
  driver().live[EXECUTABLES]--;
  return result;
}

STUB_API int cuGraphLaunch(void* executable, void* stream) {
  STUB_ENTER_CONTEXT;
  for (const Operation& operation : ((Recording*)executable)->operations) {
    if (const Result error = enqueue(stream, operation.run, operation.touches)) return error;
  }
  return SUCCESS;
}
