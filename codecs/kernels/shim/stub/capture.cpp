// Whether streams record, and what threads mind of that.
#include <utility>

#include "stub.h"

using namespace stub;

int& stub::capture_mode() {
  static thread_local int mode = GLOBAL;
  return mode;
}

// Sets what the calling thread minds; `mode` becomes what it was before.
STUB_API int cuThreadExchangeStreamCaptureMode(int* mode) {
  STUB_ENTER;
  if (*mode < GLOBAL || *mode > RELAXED) return INVALID_VALUE;
  std::swap(*mode, capture_mode());
  return SUCCESS;
}

enum { NONE = 0, ACTIVE = 1, INVALIDATED = 2 };

// The id is only set where something is recorded.
STUB_API int cuStreamGetCaptureInfo(void* handle, int* status, uint64_t* id) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if (const Result error = refuse_implicit(stream, false)) return error;
  *status = stream->recording == nullptr ? NONE : stream->recording->valid ? ACTIVE : INVALIDATED;
  if (*status == ACTIVE) *id = stream->recording->id;
  return SUCCESS;
}
