// Memory of devices and page-locked memory: between guards, full of garbage at first.
#include "memory.h"

#include <fstream>

using namespace stub;

std::map<uint64_t, Allocation>& stub::allocations() {
  static auto* const all = new std::map<uint64_t, Allocation>;  // exit handlers may still call
  return *all;
}

static const Allocation* find(Range memory) {
  auto found = allocations().upper_bound(memory.address);
  if (found == allocations().begin()) return nullptr;
  --found;
  const size_t len = found->second.len;
  const bool inside = memory.len <= len && memory.address - found->first <= len - memory.len;
  const bool usable = found->second.sort != Sort::MAPPED || !found->second.access.empty();
  return inside && usable ? &found->second : nullptr;
}

bool stub::is_mapped(Range memory) { return find(memory) != nullptr; }

bool stub::reaches(Context* context, Range memory) {
  if (memory.len == 0) return true;
  const Allocation* const found = find(memory);
  if (found == nullptr) return false;
  if (found->sort == Sort::MAPPED) return found->access.count(context->device) != 0;
  if (found->owner == context || found->sort == Sort::PORTABLE) return true;
  return found->sort == Sort::DEVICE && context->peers.count(found->owner) != 0;
}

bool stub::belongs_to(Context* context, Range memory) {
  const Allocation* const found = find(memory);
  return found != nullptr && found->owner == context;
}

static Result allocate(uint64_t* address, size_t len, Sort sort) {
  if (const Result error = refuse_recording()) return error;
  if (len == 0) return INVALID_VALUE;
  static uint64_t serial;
  Driver& d = driver();
  Context* const owner = current_context();
  take_time_to_allocate(owner);
  uint64_t& allocated = d.allocated[owner->device];
  if (sort == Sort::DEVICE && d.settings.full != 0) return OUT_OF_MEMORY;
  if (len > d.settings.memory_len || allocated > d.settings.memory_len - len) return OUT_OF_MEMORY;
  const Mapped mapped = map_new(len);
  if (mapped.header == nullptr) return OUT_OF_MEMORY;
  mapped.header->serial = ++serial;
  fill(mapped, len);
  *address = (uint64_t)bytes_of(mapped.header);
  allocations()[*address] = {len, owner, sort, mapped};
  allocated += len;
  d.live[ALLOCATIONS]++;
  return SUCCESS;
}

// Whether a process runs: one that has ended may be known for as long as nobody has asked how.
static bool runs(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
}

// A process that has gone does not close what it had open.
static bool is_open_elsewhere(const Header& header) {
  for (const std::atomic<pid_t>& importer : header.importers) {
    if (importer != 0 && runs(importer)) return true;
  }
  return false;
}

// While some stream records it stays, unless the calling thread has relaxed its rules.
static Result release(uint64_t address) {
  if (const Result error = refuse_recording()) return error;
  const auto found = allocations().find(address);
  if (found == allocations().end() || found->second.sort == Sort::IMPORTED || found->second.sort == Sort::MAPPED) {
    die("memory is freed that was not allocated");
  }
  // When all is lost, or its device, nothing more begins there, but what has begun must end.
  if (driver().dead != SUCCESS) {
    drain_all();
  } else if (driver().settings.strict_free == 0 || loss_of(found->second.owner) != SUCCESS) {
    drain_users(found->second.owner, {address, found->second.len}, true);
  } else if (is_in_use({address, found->second.len})) {
    die("memory is freed that queued work uses");
  } else if (is_open_elsewhere(*found->second.mapped.header)) {
    die("memory is freed that another process has open");
  }
  const Allocation allocation = found->second;
  allocations().erase(found);
  check_guards(allocation.mapped, allocation.len);
  discard(allocation.mapped);
  driver().allocated[allocation.owner->device] -= allocation.len;
  driver().live[ALLOCATIONS]--;
  return SUCCESS;
}

STUB_API int cuMemAlloc_v2(uint64_t* address, size_t len) {
  STUB_ENTER_CONTEXT;
  return allocate(address, len, Sort::DEVICE);
}

STUB_API int cuMemFree_v2(uint64_t address) {
  STUB_RELEASE;
  const Result released = release(address);
  return result == SUCCESS ? released : result;
}

// The memory of the device is the host's as well.
STUB_API int cuMemHostAlloc(void** address, size_t len, unsigned flags) {
  STUB_ENTER_CONTEXT;
  return allocate((uint64_t*)address, len, (flags & 1) != 0 ? Sort::PORTABLE : Sort::PINNED);
}

STUB_API int cuMemFreeHost(void* address) {
  STUB_RELEASE;
  const Result released = release((uint64_t)address);
  return result == SUCCESS ? released : result;
}

// Bytes of page-locked memory that is there.
STUB_API uint64_t mgc_stub_pinned() {
  std::lock_guard<std::recursive_mutex> lock(driver().mutex);
  uint64_t bytes = 0;
  for (const auto& [address, allocation] : allocations()) {
    if (allocation.sort == Sort::PORTABLE || allocation.sort == Sort::PINNED) bytes += allocation.len;
  }
  return bytes;
}

STUB_API int cuMemGetAddressRange_v2(uint64_t* base, size_t* len, uint64_t address) {
  STUB_ENTER_CONTEXT;
  if (!is_mapped({address, 1})) return NOT_FOUND;
  const auto found = --allocations().upper_bound(address);
  *base = found->first;
  *len = found->second.len;
  return SUCCESS;
}

// Of memory that nobody has allocated here it says nothing, which is no error.
STUB_API int cuPointerGetAttributes(unsigned count, const int* attributes, void** data, uint64_t address) {
  STUB_ENTER;
  const Allocation* const found = find({address, 1});
  const bool on_host = found == nullptr || found->sort == Sort::PINNED || found->sort == Sort::PORTABLE;
  for (unsigned i = 0; i < count; i++) {
    switch (attributes[i]) {
      case 1: *(Context**)data[i] = found == nullptr || found->sort == Sort::MAPPED ? nullptr : found->owner; break;
      case 2: *(unsigned*)data[i] = found == nullptr ? 0 : on_host ? 1 : 2; break;
      case 8: *(bool*)data[i] = false; break;
      case 9: *(int*)data[i] = found == nullptr ? -2 : found->owner->device; break;
      default: return INVALID_VALUE;
    }
  }
  return SUCCESS;
}
