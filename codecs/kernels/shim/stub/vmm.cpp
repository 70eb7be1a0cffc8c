// Memory without addresses, and addresses that it is mapped to; processes pass it on as a file.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "memory.h"

using namespace stub;

// `CUmemAllocationProp` and `CUmemAccessDesc`, as far as they are looked at.
struct Location {
  int type, id;
};
struct Properties {
  int type, handle_types;
  Location location;
};
struct Access {
  Location location;
  int flags;
};

enum { PINNED_MEMORY = 1, FILE_HANDLE = 1, DEVICE_LOCATION = 1, READ_AND_WRITE = 3 };

// As a device has them.
static constexpr size_t PAGE_OF_DEVICE = 2 << 20;
static constexpr uint8_t GARBAGE = 0xa5;

// At the front of the file of a memory, in a page of its own.
struct Front {
  char magic[8];
  uint64_t len;
  int device;
};
static constexpr char MAGIC[8] = "mgcvmm";

// Memory that this process has a handle of, or has mapped.
struct Memory {
  int file;
  size_t len;
  int device;
  bool own, shared;
  bool filled;  // with garbage, as a device's is

  ~Memory() {
    close(file);
    if (own) driver().allocated[device] -= len;
  }
};

static std::map<uint64_t, std::shared_ptr<Memory>>& memories() {
  static auto* const all = new std::map<uint64_t, std::shared_ptr<Memory>>;
  return *all;
}

// Lengths, by address.
static std::map<uint64_t, size_t>& reservations() {
  static auto* const all = new std::map<uint64_t, size_t>;
  return *all;
}

// What is mapped, by address.
static std::map<uint64_t, std::shared_ptr<Memory>>& mappings() {
  static auto* const all = new std::map<uint64_t, std::shared_ptr<Memory>>;
  return *all;
}

static uint64_t name(const std::shared_ptr<Memory>& memory) {
  static uint64_t last;
  memories()[++last] = memory;
  driver().live[MEMORIES]++;
  return last;
}

static Result check(const Properties* wanted) {
  if (wanted->type != PINNED_MEMORY || wanted->location.type != DEVICE_LOCATION) return INVALID_VALUE;
  return is_device(wanted->location.id) ? SUCCESS : INVALID_DEVICE;
}

STUB_API int cuMemGetAllocationGranularity(size_t* len, const Properties* wanted, int) {
  STUB_ENTER;
  *len = PAGE_OF_DEVICE;
  return check(wanted);
}

STUB_API int cuMemCreate(uint64_t* handle, size_t len, const Properties* wanted, uint64_t flags) {
  STUB_ENTER_CONTEXT;
  if (const Result error = check(wanted)) return error;
  if (len == 0 || len % PAGE_OF_DEVICE != 0 || flags != 0) return INVALID_VALUE;
  Driver& d = driver();
  const bool shared = wanted->handle_types == FILE_HANDLE;
  if (shared && d.settings.no_vmm != 0) return NOT_SUPPORTED;
  uint64_t& allocated = d.allocated[wanted->location.id];
  if (len > d.settings.memory_len || allocated > d.settings.memory_len - len) return OUT_OF_MEMORY;
  const int file = memfd_create("mgcomp-stub-memory", MFD_CLOEXEC);
  if (file < 0) return OUT_OF_MEMORY;
  const std::shared_ptr<Memory> memory(new Memory{file, len, wanted->location.id, false, shared, false});
  Front front = {};
  memcpy(front.magic, MAGIC, sizeof MAGIC);
  front.len = len;
  front.device = memory->device;
  if (pwrite(file, &front, sizeof front, 0) != sizeof front) return OUT_OF_MEMORY;
  if (ftruncate(file, (off_t)(PAGE_LEN + len)) != 0) return OUT_OF_MEMORY;
  memory->own = true;
  allocated += len;
  *handle = name(memory);
  return SUCCESS;
}

STUB_API int cuMemRelease(uint64_t handle) {
  STUB_RELEASE;
  if (memories().erase(handle) == 0) die("memory is released that there is not");
  driver().live[MEMORIES]--;
  return result;
}

STUB_API int cuMemExportToShareableHandle(int* file, uint64_t handle, int type, uint64_t flags) {
  STUB_ENTER_CONTEXT;
  const auto found = memories().find(handle);
  if (found == memories().end()) return INVALID_VALUE;
  if (type != FILE_HANDLE || flags != 0 || !found->second->shared) return INVALID_VALUE;
  *file = fcntl(found->second->file, F_DUPFD_CLOEXEC, 0);
  return *file < 0 ? OUT_OF_MEMORY : SUCCESS;
}

// The handle is the number of a file in place of a pointer.
STUB_API int cuMemImportFromShareableHandle(uint64_t* handle, void* number, int type) {
  STUB_ENTER_CONTEXT;
  if (type != FILE_HANDLE) return INVALID_VALUE;
  if (driver().settings.no_vmm != 0) return NOT_SUPPORTED;
  const int given = (int)(intptr_t)number;
  Front front;
  struct stat facts;
  if (pread(given, &front, sizeof front, 0) != sizeof front || fstat(given, &facts) != 0) return INVALID_VALUE;
  if (memcmp(front.magic, MAGIC, sizeof MAGIC) != 0) return INVALID_VALUE;
  if ((uint64_t)facts.st_size != PAGE_LEN + front.len || !is_device(front.device)) return INVALID_VALUE;
  const int file = fcntl(given, F_DUPFD_CLOEXEC, 0);
  if (file < 0) return OUT_OF_MEMORY;
  uint8_t first = 0;
  if (driver().settings.wrong_import != 0 && pread(file, &first, 1, PAGE_LEN) == 1) {
    first ^= 1;
    if (pwrite(file, &first, 1, PAGE_LEN) != 1) die("a wrong byte is not written");
  }
  *handle = name(std::shared_ptr<Memory>(new Memory{file, front.len, front.device, false, true, true}));
  return SUCCESS;
}

// What lies before and behind is nobody's: to touch it ends the process.
STUB_API int cuMemAddressReserve(uint64_t* address, size_t len, size_t, uint64_t wanted, uint64_t flags) {
  STUB_ENTER_CONTEXT;
  if (len == 0 || len % PAGE_OF_DEVICE != 0 || wanted != 0 || flags != 0) return INVALID_VALUE;
  const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const at = mmap(nullptr, len + 2 * PAGE_LEN, PROT_NONE, kind, -1, 0);
  if (at == MAP_FAILED) return OUT_OF_MEMORY;
  *address = (uint64_t)at + PAGE_LEN;
  reservations()[*address] = len;
  driver().live[RESERVATIONS]++;
  return SUCCESS;
}

STUB_API int cuMemAddressFree(uint64_t address, size_t len) {
  STUB_RELEASE;
  const auto found = reservations().find(address);
  if (found == reservations().end() || found->second != len) die("addresses are freed that are not reserved");
  if (mappings().count(address) != 0) die("addresses are freed that memory is mapped to");
  munmap((void*)(address - PAGE_LEN), len + 2 * PAGE_LEN);
  reservations().erase(found);
  driver().live[RESERVATIONS]--;
  return result;
}

STUB_API int cuMemMap(uint64_t address, size_t len, size_t offset, uint64_t handle, uint64_t flags) {
  STUB_ENTER_CONTEXT;
  const auto found = memories().find(handle);
  const auto reserved = reservations().find(address);
  if (found == memories().end() || reserved == reservations().end()) return INVALID_VALUE;
  if (offset != 0 || flags != 0 || len != reserved->second || len > found->second->len) return INVALID_VALUE;
  if (mappings().count(address) != 0) return INVALID_VALUE;
  // Nobody may touch it yet.
  const int file = found->second->file;
  if (mmap((void*)address, len, PROT_NONE, MAP_SHARED | MAP_FIXED, file, PAGE_LEN) == MAP_FAILED) return OUT_OF_MEMORY;
  mappings()[address] = found->second;
  allocations()[address] = {len, current_context(), Sort::MAPPED, {nullptr, {-1, 0, 0}}};
  driver().live[MAPPINGS]++;
  return SUCCESS;
}

STUB_API int cuMemSetAccess(uint64_t address, size_t len, const Access* access, size_t count) {
  STUB_ENTER_CONTEXT;
  const auto found = mappings().find(address);
  if (found == mappings().end() || len != allocations()[address].len || count != 1) return INVALID_VALUE;
  const int device = access->location.id, home = found->second->device;
  if (access->location.type != DEVICE_LOCATION || access->flags != READ_AND_WRITE) return INVALID_VALUE;
  if (device != home && !can_reach(device, home)) return PEER_UNSUPPORTED;
  if (mprotect((void*)address, len, PROT_READ | PROT_WRITE) != 0) return OUT_OF_MEMORY;
  if (!found->second->filled) memset((void*)address, GARBAGE, len);
  found->second->filled = true;
  allocations()[address].access.insert(device);
  return SUCCESS;
}

STUB_API int cuMemUnmap(uint64_t address, size_t len) {
  STUB_RELEASE;
  const auto found = mappings().find(address);
  if (found == mappings().end() || len != allocations()[address].len) die("memory is unmapped that is not mapped");
  if (loss_of(allocations()[address].owner) != SUCCESS) {
    drain_all();
  } else if (is_in_use({address, len})) {
    die("memory is unmapped that queued work uses");
  }
  const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap((void*)address, len, PROT_NONE, kind, -1, 0) == MAP_FAILED) die("memory is not unmapped");
  mappings().erase(found);
  allocations().erase(address);
  driver().live[MAPPINGS]--;
  return result;
}
