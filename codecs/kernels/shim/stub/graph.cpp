// Graphs: what streams record, and launches of it.
#include <random>

#include "stub.h"

using namespace stub;

STUB_API int cuStreamBeginCapture_v2(void* handle, int mode) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (const Result error = refuse_recording_of(stream)) return error;
  if (stream->is_default) return CAPTURE_UNSUPPORTED;
  stream->recording = std::make_shared<Recording>();
  stream->recording->streams = {stream};
  stream->recording->thread = std::this_thread::get_id();
  stream->recording->mode = mode;
  static uint64_t recordings;
  stream->recording->id = ++recordings;
  stream->frontier.clear();
  return SUCCESS;
}

// Whether all that was recorded comes before the end of the stream that has begun it.
static bool is_joined(const Recording& recording, std::set<size_t> frontier) {
  std::set<size_t> before;
  while (!frontier.empty()) {
    const size_t node = *frontier.begin();
    frontier.erase(frontier.begin());
    if (!before.insert(node).second) continue;
    frontier.insert(recording.nodes[node].after.begin(), recording.nodes[node].after.end());
  }
  return before.size() == recording.nodes.size();
}

STUB_API int cuStreamEndCapture(void* handle, void** graph) {
  std::lock_guard<std::recursive_mutex> lock(driver().mutex);
  const Result error = enter_context("cuStreamEndCapture");
  *graph = nullptr;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (stream == nullptr || stream->recording == nullptr) return INVALID_VALUE;
  const std::shared_ptr<Recording> recording = stream->recording;
  if (recording->streams.front() != stream) return recording->valid = false, CAPTURE_UNMATCHED;
  const bool joined = is_joined(*recording, stream->frontier);
  for (const std::shared_ptr<Stream>& recorded : recording->streams) recorded->recording = nullptr;
  recording->streams.clear();
  if (error != SUCCESS) return error;
  if (!recording->valid) return CAPTURE_INVALIDATED;
  if (!joined) return CAPTURE_UNJOINED;
  *graph = new Recording(*recording);
  driver().live[GRAPHS]++;
  return SUCCESS;
}

STUB_API int cuGraphDestroy(Recording* graph) {
  STUB_RELEASE;
  refuse_recording();
  delete graph;
  driver().live[GRAPHS]--;
  return result;
}

STUB_API int cuGraphInstantiateWithFlags(Recording** executable, Recording* graph, unsigned long long) {
  STUB_ENTER_CONTEXT;
  *executable = new Recording(*graph);
  driver().live[EXECUTABLES]++;
  return SUCCESS;
}

STUB_API int cuGraphExecDestroy(Recording* executable) {
  STUB_RELEASE;
  refuse_recording();
  delete executable;
  driver().live[EXECUTABLES]--;
  return result;
}

// An order that the graph allows: any of the nodes that come after none that is left, time and again.
static std::vector<Operation> in_some_order(const Recording& graph, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<Operation> order;
  std::set<size_t> left, done;
  for (size_t node = 0; node < graph.nodes.size(); node++) left.insert(node);
  while (!left.empty()) {
    std::vector<size_t> ready;
    for (const size_t node : left) {
      bool is_ready = true;
      for (const size_t before : graph.nodes[node].after) is_ready = is_ready && done.count(before) != 0;
      if (is_ready) ready.push_back(node);
    }
    const size_t next = ready[random() % ready.size()];
    order.push_back(graph.nodes[next].operation);
    left.erase(next);
    done.insert(next);
  }
  return order;
}

// What was recorded on several streams runs on one, each time in another order that the graph allows.
STUB_API int cuGraphLaunch(Recording* executable, void* stream) {
  STUB_ENTER_CONTEXT;
  static unsigned launches;
  for (const Operation& operation : in_some_order(*executable, ++launches)) {
    if (const Result error = enqueue(stream, operation.run, operation.touches)) return error;
  }
  return SUCCESS;
}
