// Events: places in streams, and in what streams record.
#include <algorithm>
#include <thread>

#include "stub.h"

using namespace stub;

STUB_API int cuEventCreate(Event** event, unsigned flags) {
  STUB_ENTER_CONTEXT;
  Mapped shared = {};
  if ((flags & EVENT_INTERPROCESS) != 0) {
    static uint64_t serial;
    if ((flags & EVENT_NO_TIMING) == 0) return INVALID_VALUE;
    shared = map_new(sizeof(Moments));
    if (shared.header == nullptr) return OUT_OF_MEMORY;
    shared.header->serial = ++serial;
  }
  *event = new Event{current_context(), flags, nullptr, shared};
  driver().live[EVENTS]++;
  return SUCCESS;
}

// Other processes go on with what they have of it.
STUB_API int cuEventDestroy_v2(Event* event) {
  STUB_RELEASE;
  delete event;
  driver().live[EVENTS]--;
  return result;
}

// Of an event that processes share. It is mapped for good.
static Result record_shared(const std::shared_ptr<Stream>& stream, Moments& moments) {
  if (const Result error = refuse_recording_of(stream)) return error;
  if (!stream->threaded) die("an event of several processes needs streams with threads");
  const uint64_t moment = ++moments.recorded;
  return enqueue(stream.get(), [&moments, moment] { moments.reached = moment; });
}

// Waits until an event has happened as often as it was recorded so far, which may be another process's to do.
static void await(const Moments& moments, uint64_t moment) {
  while (moments.reached < moment && driver().dead == SUCCESS) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// The host does, with the mutex locked once.
static Result wait_shared(const Moments& moments) {
  const uint64_t moment = moments.recorded;
  while (moments.reached < moment && driver().dead == SUCCESS) {
    driver().changed.wait_for(driver().mutex, std::chrono::microseconds(50));
  }
  return driver().dead;
}

STUB_API int cuEventRecord(Event* event, void* handle) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (stream == nullptr || stream->context != event->context) return INVALID_HANDLE;
  if (const Result error = refuse_implicit(stream, true)) return error;
  if (event->shared.header != nullptr) return record_shared(stream, event->moments());
  const auto marker = std::make_shared<Marker>();
  marker->stream = stream;
  marker->recording = stream->recording;
  marker->frontier = stream->frontier;
  event->marker = marker;
  if (stream->recording != nullptr) return SUCCESS;
  // When it is off the queue, so that a stream whose last event has happened is idle.
  const auto reached = [marker] {
    if (loss_of(marker->stream->context) != SUCCESS) return;
    marker->reached = true;
    marker->at = std::chrono::steady_clock::now();
    marker->clock_ns = marker->stream->clock_ns;
    driver().changed.notify_all();
  };
  return enqueue(handle, [] {}, {}, reached);
}

// What was never recorded has happened.
STUB_API int cuEventSynchronize(Event* event) {
  STUB_ENTER_CONTEXT;
  if (const Result error = refuse_asking()) return error;
  if (event->shared.header != nullptr) return wait_shared(event->moments());
  const std::shared_ptr<Marker> marker = event->marker;
  if (marker == nullptr) return loss_of(current_context());
  if (marker->recording != nullptr) return marker->recording->valid = false, CAPTURED_EVENT;
  reach(*marker);
  return loss_of(current_context());
}

// Each query lets a little of the work run, where no thread does.
STUB_API int cuEventQuery(Event* event) {
  STUB_ENTER_CONTEXT;
  if (const Result error = refuse_asking()) return error;
  const std::shared_ptr<Marker> marker = event->marker;
  if (marker != nullptr && marker->recording != nullptr) return marker->recording->valid = false, CAPTURED_EVENT;
  if (marker != nullptr && !marker->reached) {
    const std::shared_ptr<Stream>& stream = marker->stream;
    if (!stream->threaded && !stream->running && !stream->queue.empty()) run_one(stream);
  }
  bool is_over = marker == nullptr || marker->reached;
  if (event->shared.header != nullptr) is_over = event->moments().reached >= event->moments().recorded;
  const Result lost = loss_of(current_context());
  return is_over || lost != SUCCESS ? lost : NOT_READY;
}

STUB_API int cuEventElapsedTime(float* milliseconds, Event* start, Event* end) {
  STUB_ENTER_CONTEXT;
  if (const Result error = refuse_asking()) return error;
  const std::shared_ptr<Marker> from = start->marker, to = end->marker;
  if (from == nullptr || to == nullptr || start->context != end->context) return INVALID_HANDLE;
  if (((start->flags | end->flags) & EVENT_NO_TIMING) != 0) return INVALID_HANDLE;
  for (const std::shared_ptr<Marker>& marker : {from, to}) {
    if (marker->recording != nullptr) return marker->recording->valid = false, CAPTURED_EVENT;
  }
  if (!from->reached || !to->reached) return NOT_READY;
  const bool is_set = driver().settings.link_ns_per_kib != 0 || driver().settings.launch_ns != 0;
  *milliseconds = is_set ? (float)((to->clock_ns - from->clock_ns) / 1e6)
                         : std::chrono::duration<float, std::milli>(to->at - from->at).count();
  return SUCCESS;
}

// What is recorded may wait for nothing but what is recorded with it; a stream that waits for that is recorded too.
static Result join(const std::shared_ptr<Stream>& stream, const Marker& marker) {
  if (stream->recording != nullptr && marker.recording != stream->recording) {
    stream->recording->valid = false;
    return marker.recording == nullptr ? CAPTURE_ISOLATION : CAPTURE_MERGE;
  }
  if (stream->is_default) return marker.recording->valid = false, CAPTURE_IMPLICIT;
  if (stream->recording == nullptr) {
    stream->recording = marker.recording;
    marker.recording->streams.push_back(stream);
    stream->frontier.clear();
  }
  stream->frontier.insert(marker.frontier.begin(), marker.frontier.end());
  return SUCCESS;
}

// The event may be of another context.
STUB_API int cuStreamWaitEvent(void* handle, Event* event, unsigned) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if (event->shared.header != nullptr) {
    if (const Result error = refuse_recording_of(stream)) return error;
    if (!stream->threaded) die("an event of several processes needs streams with threads");
    const uint64_t moment = event->moments().recorded;
    return enqueue(handle, [&moments = event->moments(), moment] { await(moments, moment); });
  }
  const std::shared_ptr<Marker> marker = event->marker;
  if (marker == nullptr) return SUCCESS;
  if (stream->recording != nullptr || marker->recording != nullptr) return join(stream, *marker);
  return enqueue(handle, [marker, waiting = stream.get()] {
    std::lock_guard<std::recursive_mutex> lock(driver().mutex);
    reach(*marker);
    waiting->clock_ns = std::max(waiting->clock_ns, marker->clock_ns);
  });
}
