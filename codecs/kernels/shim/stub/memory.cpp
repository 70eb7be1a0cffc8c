// Device memory: the host's, between guards, full of garbage at first.
#include <cstdlib>
#include <cstring>
#include <map>

#include "stub.h"

using namespace stub;

// Also the alignment of what the driver gives.
static constexpr size_t GUARD_LEN = 256;
static constexpr uint8_t GUARD = 0xc3, GARBAGE = 0xa5;

// Lengths by address.
static std::map<uint64_t, size_t> allocations;

static void check_guards(uint64_t address, size_t len) {
  const uint8_t* const before = (const uint8_t*)address - GUARD_LEN;
  const uint8_t* const after = (const uint8_t*)address + len;
  for (size_t i = 0; i < GUARD_LEN; i++) {
    if (before[i] != GUARD) die("a write before an allocation");
    if (after[i] != GUARD) die("a write behind an allocation");
  }
}

// Whether all of it lies in one allocation.
static bool is_mapped(uint64_t address, size_t len) {
  auto found = allocations.upper_bound(address);
  if (found == allocations.begin()) return false;
  --found;
  return address + len <= found->first + found->second;
}

static Result allocate(uint64_t* address, size_t len) {
  if (const Result error = refuse_recording()) return error;
  if (len == 0) return INVALID_VALUE;
  Driver& d = driver();
  if (len > d.settings.memory_len || d.allocated > d.settings.memory_len - len) return OUT_OF_MEMORY;
  const size_t rounded = (len + 2 * GUARD_LEN + GUARD_LEN - 1) / GUARD_LEN * GUARD_LEN;
  uint8_t* const memory = (uint8_t*)aligned_alloc(GUARD_LEN, rounded);
  if (memory == nullptr) return OUT_OF_MEMORY;
  memset(memory, GUARD, rounded);
  memset(memory + GUARD_LEN, GARBAGE, len);
  *address = (uint64_t)(memory + GUARD_LEN);
  allocations[*address] = len;
  d.allocated += len;
  d.live[ALLOCATIONS]++;
  return SUCCESS;
}

static void release(uint64_t address) {
  refuse_recording();
  const auto found = allocations.find(address);
  if (found == allocations.end()) die("memory is freed that was not allocated");
  // When all is lost nothing more begins, but what has begun must end.
  if (driver().settings.strict_free == 0 || driver().dead != SUCCESS) {
    drain_all();
  } else if (is_in_use({address, found->second})) {
    die("memory is freed that queued work uses");
  }
  check_guards(address, found->second);
  driver().allocated -= found->second;
  driver().live[ALLOCATIONS]--;
  allocations.erase(found);
  free((uint8_t*)address - GUARD_LEN);
}

STUB_API int cuMemAlloc_v2(uint64_t* address, size_t len) {
  STUB_ENTER_CONTEXT;
  return allocate(address, len);
}

STUB_API int cuMemFree_v2(uint64_t address) {
  STUB_RELEASE;
  release(address);
  return result;
}

// The memory of the device is the host's as well.
STUB_API int cuMemHostAlloc(void** address, size_t len, unsigned) {
  STUB_ENTER_CONTEXT;
  return allocate((uint64_t*)address, len);
}

STUB_API int cuMemFreeHost(void* address) {
  STUB_RELEASE;
  release((uint64_t)address);
  return result;
}

STUB_API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t len, void* stream) {
  STUB_ENTER_CONTEXT;
  if (!is_mapped(to, len)) return INVALID_VALUE;
  return enqueue(stream, [=] { memset((void*)to, value, len); }, {{to, len}});
}

// From pageable memory, as all of it is here: the bytes are taken before the call returns.
STUB_API int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t len, void* stream) {
  STUB_ENTER_CONTEXT;
  if (!is_mapped(to, len)) return INVALID_VALUE;
  const std::string bytes((const char*)from, len);
  return enqueue(stream, [=] { memcpy((void*)to, bytes.data(), len); }, {{to, len}});
}

// To pageable memory: the call returns when all work before it has ended, and the bytes are there.
STUB_API int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t len, void* handle) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (const Result error = refuse_recording_of(stream)) return error;
  if (!is_mapped(from, len)) return INVALID_VALUE;
  drain(stream);
  if (driver().dead == SUCCESS) memcpy(to, (const void*)from, len);
  return driver().dead;
}

STUB_API int cuMemcpyAsync(uint64_t to, uint64_t from, size_t len, void* stream) {
  STUB_ENTER_CONTEXT;
  if (!is_mapped(to, len) || !is_mapped(from, len)) return INVALID_VALUE;
  return enqueue(stream, [=] { memmove((void*)to, (const void*)from, len); }, {{to, len}, {from, len}});
}
