// What the stub knows of memory. Internal to it.
#pragma once
#include "arena.h"
#include "stub.h"

namespace stub {

enum class Sort { DEVICE, PINNED, PORTABLE, IMPORTED, MAPPED };

struct Allocation {
  size_t len;
  Context* owner;  // who allocated it, or opened it
  Sort sort;
  Mapped mapped;
  uint64_t opened = 0;  // how often, if it is another process's
  pid_t process = 0;    // which
  std::set<int> access = {};  // of mapped memory: the devices that may use it
};

// By address.
std::map<uint64_t, Allocation>& allocations();

}  // namespace stub
