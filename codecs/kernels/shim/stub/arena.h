// Memory that other processes can map: one file without a name, of which each allocation has a part of its own.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stub {

// Processes that can have an allocation open at a time.
constexpr size_t MAX_IMPORTERS = 8;

// At the front of an allocation's part of the file, which it has pages of its own for.
struct Header {
  std::atomic<uint64_t> serial;  // of the allocation; 0 once it is freed
  std::atomic<pid_t> importers[MAX_IMPORTERS];
};

// A part of some process's file.
struct Part {
  int file;
  uint64_t offset;
  size_t len;  // of the header, the guards and what is between
};

constexpr size_t PAGE_LEN = 4096;
// Also what the driver aligns to.
constexpr size_t GUARD_LEN = 256;

// A part that is mapped; no header: there was no memory, or nothing to map.
struct Mapped {
  Header* header;
  Part part;
};

// A new part with room for `len` bytes.
Mapped map_new(size_t len);
// Somebody else's.
Mapped map_part(Part part);
void unmap(const Mapped& mapped);
// Unmaps a part of this process's, and gives its memory back.
void discard(const Mapped& mapped);

inline uint8_t* bytes_of(Header* header) { return (uint8_t*)header + PAGE_LEN; }

// Fills the room between guards with garbage.
void fill(const Mapped& mapped, size_t len);
// Ends the process if somebody has written to the guards.
void check_guards(const Mapped& mapped, size_t len);

}  // namespace stub
