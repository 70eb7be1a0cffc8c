// The driver itself, and what it tells of devices: all are of the same kind.
#include <cstdio>

#include "stub.h"

using namespace stub;

bool stub::is_device(int device) { return device >= 0 && (uint64_t)device < driver().settings.devices; }

bool stub::can_reach(int device, int other) {
  // The driver says no of a device and itself.
  return device != other && driver().settings.no_peers == 0;
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
      {NOT_MAPPED, "CUDA_ERROR_MAP_FAILED"},
      {NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {PEER_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
      {UNSUPPORTED_PTX, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
      {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
      {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
      {NOT_READY, "CUDA_ERROR_NOT_READY"},
      {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {PEER_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"},
      {PEER_NOT_ENABLED, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"},
      {CONTEXT_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
      {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
      {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
      {CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
      {CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
      {CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
      {CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
      {CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
      {CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT"},
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
  *count = (int)driver().settings.devices;
  return SUCCESS;
}

STUB_API int cuDeviceGet(int* device, int ordinal) {
  STUB_ENTER;
  *device = ordinal;
  return is_device(ordinal) ? SUCCESS : INVALID_DEVICE;
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

STUB_API int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  STUB_ENTER;
  if (!is_device(device) || !is_device(peer)) return INVALID_DEVICE;
  *can = can_reach(device, peer);
  return SUCCESS;
}
