// Memory and events of other processes, by handles that name a part of their files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "memory.h"

using namespace stub;

// What programs pass on: 64 bytes that only the driver understands.
struct Handle {
  char magic[8];
  pid_t process;
  int file;
  uint64_t offset;
  uint64_t part_len;
  uint64_t len;
  uint64_t serial;
  int device;
  uint8_t unused[12];
};
static_assert(sizeof(Handle) == 64, "as long as a driver's");

static constexpr char MEMORY[8] = "memory", EVENT[8] = "event";

static Handle name(const char* magic, const Mapped& mapped, size_t len, int device) {
  Handle handle = {};
  memcpy(handle.magic, magic, sizeof handle.magic);
  handle.process = getpid();
  handle.file = mapped.part.file;
  handle.offset = mapped.part.offset;
  handle.part_len = mapped.part.len;
  handle.len = len;
  handle.serial = mapped.header->serial;
  handle.device = device;
  return handle;
}

// Maps what a handle names. A process that has gone takes it along.
static Result map_named(const Handle& handle, const char* magic, Mapped* mapped) {
  if (driver().settings.no_ipc != 0) return NOT_SUPPORTED;
  if (memcmp(handle.magic, magic, sizeof handle.magic) != 0) return INVALID_HANDLE;
  if (handle.process == getpid()) return INVALID_CONTEXT;
  const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return INVALID_HANDLE;
  struct stat facts;
  const bool is_there = fstat(file, &facts) == 0 && handle.offset + handle.part_len <= (uint64_t)facts.st_size;
  if (is_there) *mapped = map_part({file, handle.offset, handle.part_len});
  close(file);
  if (!is_there) return INVALID_HANDLE;
  if (mapped->header == nullptr) return NOT_MAPPED;
  if (mapped->header->serial == handle.serial) return SUCCESS;
  unmap(*mapped);
  return INVALID_HANDLE;
}

// Notes, for the process whose memory it is, that this one has it open.
static bool enter_importer(Header& header) {
  for (std::atomic<pid_t>& importer : header.importers) {
    pid_t none = 0;
    if (importer.compare_exchange_strong(none, getpid())) return true;
  }
  return false;
}

static void leave_importer(Header& header) {
  for (std::atomic<pid_t>& importer : header.importers) {
    pid_t own = getpid();
    if (importer.compare_exchange_strong(own, 0)) return;
  }
}

// Of the whole of an allocation in a device's memory only.
STUB_API int cuIpcGetMemHandle(Handle* handle, uint64_t address) {
  STUB_ENTER_CONTEXT;
  if (driver().settings.no_ipc != 0) return NOT_SUPPORTED;
  const auto found = allocations().find(address);
  if (found == allocations().end() || found->second.sort != Sort::DEVICE) return INVALID_VALUE;
  const Allocation& allocation = found->second;
  *handle = name(MEMORY, allocation.mapped, allocation.len, allocation.owner->device);
  return SUCCESS;
}

// An allocation that this context has open already: then it is the same memory once more.
static bool open_again(const Handle& handle, uint64_t* address) {
  for (auto& [at, allocation] : allocations()) {
    const bool same = allocation.sort == Sort::IMPORTED && allocation.owner == current_context() &&
                      allocation.process == handle.process && allocation.mapped.header->serial == handle.serial;
    if (!same) continue;
    allocation.opened++;
    *address = at;
    return true;
  }
  return false;
}

STUB_API int cuIpcOpenMemHandle_v2(uint64_t* address, Handle handle, unsigned flags) {
  STUB_ENTER_CONTEXT;
  constexpr unsigned LAZY_PEERS = 1;
  if (const Result error = refuse_recording()) return error;
  if (flags != LAZY_PEERS) return INVALID_VALUE;
  const int device = current_context()->device;
  if (handle.device != device && !can_reach(device, handle.device)) return PEER_UNSUPPORTED;
  if (open_again(handle, address)) return SUCCESS;
  Mapped mapped;
  if (const Result error = map_named(handle, MEMORY, &mapped)) return error;
  if (!enter_importer(*mapped.header)) return unmap(mapped), NOT_MAPPED;
  *address = (uint64_t)bytes_of(mapped.header);
  if (driver().settings.wrong_import != 0) *(uint8_t*)*address ^= 1;
  allocations()[*address] = {handle.len, current_context(), Sort::IMPORTED, mapped, 1, handle.process};
  driver().live[IMPORTS]++;
  return SUCCESS;
}

STUB_API int cuIpcCloseMemHandle(uint64_t address) {
  STUB_RELEASE;
  const auto found = allocations().find(address);
  if (found == allocations().end() || found->second.sort != Sort::IMPORTED) die("memory is closed that was not opened");
  if (--found->second.opened != 0) return result;
  if (driver().settings.strict_free == 0 || loss_of(found->second.owner) != SUCCESS) {
    drain_all();
  } else if (is_in_use({address, found->second.len})) {
    die("memory is closed that queued work uses");
  }
  leave_importer(*found->second.mapped.header);
  unmap(found->second.mapped);
  allocations().erase(found);
  driver().live[IMPORTS]--;
  return result;
}

STUB_API int cuIpcGetEventHandle(Handle* handle, Event* event) {
  STUB_ENTER_CONTEXT;
  if (driver().settings.no_ipc != 0) return NOT_SUPPORTED;
  if (event->shared.header == nullptr) return INVALID_HANDLE;
  *handle = name(EVENT, event->shared, sizeof(Moments), event->context->device);
  return SUCCESS;
}

STUB_API int cuIpcOpenEventHandle(Event** event, Handle handle) {
  STUB_ENTER_CONTEXT;
  Mapped mapped;
  if (const Result error = map_named(handle, EVENT, &mapped)) return error;
  *event = new Event{current_context(), EVENT_INTERPROCESS | EVENT_NO_TIMING, nullptr, mapped};
  driver().live[EVENTS]++;
  return SUCCESS;
}
