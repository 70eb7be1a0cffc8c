// Whether streams record.
#include "stub.h"

using namespace stub;

STUB_API int cuStreamIsCapturing(void* handle, int* status) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (stream == nullptr) return INVALID_HANDLE;
  enum { NONE = 0, ACTIVE = 1, INVALIDATED = 2 };
  *status = stream->recording == nullptr ? NONE : stream->recording->valid ? ACTIVE : INVALIDATED;
  return SUCCESS;
}
