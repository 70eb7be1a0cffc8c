// What tests ask of the stub, and how calls are counted and made to fail.
#include <cstdio>
#include <cstdlib>

#include "stub.h"

namespace stub {

Driver& driver() {
  static Driver* const the_driver = new Driver;  // never destroyed: exit handlers may still call
  return *the_driver;
}

void die(const char* what) {
  fprintf(stderr, "stub: %s\n", what);
  abort();
}

Result enter(const char* call) {
  Driver& d = driver();
  const bool counts = d.fail_call.empty() || d.fail_call == call;
  if (counts && ++d.calls == d.fail_at) {
    d.failed = call;
    return d.fail_with;
  }
  return d.dead;
}

}  // namespace stub

using namespace stub;

// Puts everything back to the start, but for what is alive.
STUB_API void mgc_stub_reset() {
  Driver& d = driver();
  std::lock_guard<std::recursive_mutex> lock(d.mutex);
  d.settings = Settings();
  d.dead = SUCCESS;
  d.fail_call.clear();
  d.failed.clear();
  d.fail_at = d.calls = d.launches = 0;
}

// Sets the setting with this name; 1 if there is none.
STUB_API int mgc_stub_set(const char* name, uint64_t value) {
  Driver& d = driver();
  std::lock_guard<std::recursive_mutex> lock(d.mutex);
  const struct {
    const char* name;
    uint64_t& setting;
  } settings[] = {
      {"capability", d.settings.capability},         {"sm_count", d.settings.sm_count},
      {"shared_len", d.settings.shared_len},         {"memory_len", d.settings.memory_len},
      {"driver_version", d.settings.driver_version}, {"lane_order", d.settings.lane_order},
      {"faulty_launch", d.settings.faulty_launch},
  };
  for (const auto& s : settings) {
    if (std::string(s.name) == name) return s.setting = value, 0;
  }
  return 1;
}

// Makes the `at`th call from now fail with `code`: of all calls, or of those named `call`. 0: none.
STUB_API void mgc_stub_fail(const char* call, uint64_t at, int code) {
  Driver& d = driver();
  std::lock_guard<std::recursive_mutex> lock(d.mutex);
  d.fail_call = call == nullptr ? "" : call;
  d.fail_at = at;
  d.fail_with = (Result)code;
  d.calls = 0;
  d.failed.clear();
}

// The name of the call that has failed, empty if none has.
STUB_API const char* mgc_stub_failed() { return driver().failed.c_str(); }

// How many things of a kind are alive.
STUB_API uint64_t mgc_stub_live(unsigned kind) { return kind < KINDS ? driver().live[kind] : 0; }

// Kernels that have run so far, and the blocks of the last one.
STUB_API uint64_t mgc_stub_launches() { return driver().launches; }
STUB_API uint64_t mgc_stub_grid() { return driver().grid; }

// Calls that were counted since the last mgc_stub_fail.
STUB_API uint64_t mgc_stub_calls() { return driver().calls; }
