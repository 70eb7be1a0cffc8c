// Devices and contexts: one device, with its primary context.
#include <cstdio>
#include <cstring>

#include "stub.h"

using namespace stub;

static int the_context;

// How many contexts this thread has pushed. One can be pushed more than once.
static thread_local unsigned pushed;

Result stub::enter_context(const char* call) {
  const Result error = enter(call);
  if (error != SUCCESS) return error;
  return pushed != 0 && driver().live[HOLDS] != 0 ? SUCCESS : INVALID_CONTEXT;
}

STUB_API int cuInit(unsigned flags) {
  STUB_ENTER;
  return flags == 0 ? SUCCESS : INVALID_VALUE;
}

STUB_API int cuGetErrorName(int code, const char** name) {
  static const struct {
    int code;
    const char* name;
  } names[] = {
      {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
      {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
      {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
      {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
      {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
      {NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {UNSUPPORTED_PTX, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
      {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
      {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
      {NOT_READY, "CUDA_ERROR_NOT_READY"},
      {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
  };
  *name = nullptr;
  for (const auto& n : names) {
    if (n.code == code) return *name = n.name, SUCCESS;
  }
  return INVALID_VALUE;
}

STUB_API int cuDriverGetVersion(int* version) {
  STUB_ENTER;
  *version = (int)driver().settings.driver_version;
  return SUCCESS;
}

STUB_API int cuDeviceGetCount(int* count) {
  STUB_ENTER;
  *count = 1;
  return SUCCESS;
}

STUB_API int cuDeviceGet(int* device, int ordinal) {
  STUB_ENTER;
  *device = ordinal;
  return ordinal == 0 ? SUCCESS : INVALID_DEVICE;
}

STUB_API int cuDeviceGetName(char* name, int len, int) {
  STUB_ENTER;
  snprintf(name, (size_t)len, "CPU shim");
  return SUCCESS;
}

STUB_API int cuDeviceTotalMem_v2(size_t* len, int) {
  STUB_ENTER;
  *len = driver().settings.memory_len;
  return SUCCESS;
}

STUB_API int cuDeviceGetAttribute(int* value, int attribute, int) {
  STUB_ENTER;
  const Settings& s = driver().settings;
  switch (attribute) {
    case 16: *value = (int)s.sm_count; return SUCCESS;
    case 38: *value = (int)s.l2_len; return SUCCESS;
    case 75: *value = (int)(s.capability / 10); return SUCCESS;
    case 76: *value = (int)(s.capability % 10); return SUCCESS;
    case 97: *value = (int)s.shared_len; return SUCCESS;
    default: return INVALID_VALUE;
  }
}

STUB_API int cuDevicePrimaryCtxRetain(void** context, int) {
  STUB_ENTER;
  *context = &the_context;
  driver().live[HOLDS]++;
  return SUCCESS;
}

// The last release destroys the context and what is left in it. Hosts should leave nothing.
STUB_API int cuDevicePrimaryCtxRelease_v2(int) {
  STUB_RELEASE;
  if (driver().live[HOLDS] == 0) die("a context is released that nobody holds");
  if (--driver().live[HOLDS] == 0) drain_all();
  return result;
}

STUB_API int cuCtxPushCurrent_v2(void* context) {
  STUB_ENTER;
  if (context != &the_context || driver().live[HOLDS] == 0) return INVALID_CONTEXT;
  pushed++;
  driver().live[CURRENT]++;
  return SUCCESS;
}

STUB_API int cuCtxPopCurrent_v2(void** context) {
  STUB_RELEASE;
  if (pushed == 0) die("a context is popped that nobody has pushed");
  pushed--;
  driver().live[CURRENT]--;
  *context = &the_context;
  return result;
}
