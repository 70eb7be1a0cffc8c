// The file, its parts, and what lies around the bytes in each.
#include "arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "stub.h"

namespace stub {

static constexpr uint8_t GUARD = 0xc3, GARBAGE = 0xa5;

static int the_file() {
  static const int file = memfd_create("mgcomp-stub", MFD_CLOEXEC);
  return file;
}

Mapped map_part(Part part) {
  void* const at = mmap(nullptr, part.len, PROT_READ | PROT_WRITE, MAP_SHARED, part.file, (off_t)part.offset);
  return {at == MAP_FAILED ? nullptr : (Header*)at, part};
}

// No place of the file is used twice: what is freed becomes a hole.
Mapped map_new(size_t len) {
  static uint64_t end;
  const size_t rounded = (len + GUARD_LEN + PAGE_LEN - 1) / PAGE_LEN * PAGE_LEN;
  const Part part{the_file(), end, PAGE_LEN + rounded};
  if (part.file < 0 || ftruncate(part.file, (off_t)(end + part.len)) != 0) return {nullptr, part};
  end += part.len;
  return map_part(part);
}

void unmap(const Mapped& mapped) { munmap(mapped.header, mapped.part.len); }

void discard(const Mapped& mapped) {
  mapped.header->serial = 0;
  unmap(mapped);
  const int hole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (fallocate(mapped.part.file, hole, (off_t)mapped.part.offset, (off_t)mapped.part.len) != 0) {
    die("freed memory does not become a hole");
  }
}

void fill(const Mapped& mapped, size_t len) {
  uint8_t* const bytes = bytes_of(mapped.header);
  memset(bytes - GUARD_LEN, GUARD, GUARD_LEN);
  memset(bytes, GARBAGE, len);
  memset(bytes + len, GUARD, GUARD_LEN);
}

void check_guards(const Mapped& mapped, size_t len) {
  const uint8_t* const bytes = bytes_of(mapped.header);
  for (size_t i = 0; i < GUARD_LEN; i++) {
    if (bytes[i - GUARD_LEN] != GUARD) die("a write before an allocation");
    if (bytes[len + i] != GUARD) die("a write behind an allocation");
  }
}

}  // namespace stub
