// Streams, events and graphs.
#include <algorithm>

#include "stub.h"

namespace stub {

std::shared_ptr<Stream> find_stream(void* handle) {
  for (const std::shared_ptr<Stream>& stream : driver().streams) {
    if (stream.get() == handle) return stream;
  }
  return nullptr;
}

Result enqueue(void* handle, Operation operation) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if (stream->recording != nullptr) {
    stream->recording->operations.push_back(std::move(operation));
  } else {
    stream->queue.push_back(std::move(operation));
  }
  return SUCCESS;
}

static void run_one(const std::shared_ptr<Stream>& stream) {
  const Operation operation = std::move(stream->queue.front());
  stream->queue.pop_front();
  // After a fault nothing runs any more.
  if (driver().dead == SUCCESS) operation();
}

void drain(const std::shared_ptr<Stream>& stream) {
  while (!stream->queue.empty()) run_one(stream);
}

void drain_all() {
  const std::vector<std::shared_ptr<Stream>> streams = driver().streams;
  for (const std::shared_ptr<Stream>& stream : streams) drain(stream);
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
  driver().streams.push_back(std::make_shared<Stream>());
  *handle = driver().streams.back().get();
  driver().live[STREAMS]++;
  return SUCCESS;
}

// What is queued still runs, some time: events keep the stream, and so does whoever waits for all.
STUB_API int cuStreamDestroy_v2(void* handle) {
  STUB_RELEASE;
  auto& streams = driver().streams;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (stream == nullptr) die("a stream is destroyed that there is not");
  if (stream->queue.empty()) streams.erase(std::find(streams.begin(), streams.end(), stream));
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

// Each query lets a little of the work run.
STUB_API int cuStreamQuery(void* handle) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (const Result error = refuse_recording_of(stream)) return error;
  if (stream->queue.empty()) return driver().dead;
  run_one(stream);
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
    marker->reached = true;
    marker->at = std::chrono::steady_clock::now();
  });
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
    while (!marker->reached && !marker->stream->queue.empty()) run_one(marker->stream);
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
    if (const Result error = enqueue(stream, operation)) return error;
  }
  return SUCCESS;
}
