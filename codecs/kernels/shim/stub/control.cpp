// What tests ask of the stub, and how calls are counted and made to fail.
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "stub.h"

namespace stub {

struct Setting {
  const char* name;
  uint64_t Settings::*field;
};

static const Setting SETTINGS[] = {
    {"capability", &Settings::capability},         {"sm_count", &Settings::sm_count},
    {"shared_len", &Settings::shared_len},         {"l2_len", &Settings::l2_len},
    {"memory_len", &Settings::memory_len},
    {"driver_version", &Settings::driver_version}, {"lane_order", &Settings::lane_order},
    {"faulty_launch", &Settings::faulty_launch},   {"wrong_byte", &Settings::wrong_byte},
    {"stray_byte", &Settings::stray_byte},
    {"threads", &Settings::threads},               {"strict_free", &Settings::strict_free},
    {"alloc_ms", &Settings::alloc_ms},
    {"devices", &Settings::devices},               {"no_peers", &Settings::no_peers},
    {"no_ipc", &Settings::no_ipc},                 {"no_vmm", &Settings::no_vmm},
    {"wrong_import", &Settings::wrong_import},     {"link_ns_per_kib", &Settings::link_ns_per_kib},
    {"launch_ns", &Settings::launch_ns},           {"full", &Settings::full},
};

static Driver* make_driver() {
  Driver* const made = new Driver;
  for (const Setting& setting : SETTINGS) {
    std::string variable = std::string("MGCOMP_STUB_") + setting.name;
    for (char& c : variable) c = (char)toupper((unsigned char)c);
    if (const char* value = getenv(variable.c_str())) made->settings.*setting.field = strtoull(value, nullptr, 10);
  }
  return made;
}

Driver& driver() {
  static Driver* const the_driver = make_driver();  // never destroyed: exit handlers may still call
  return *the_driver;
}

void die(const char* what) {
  fprintf(stderr, "stub: %s\n", what);
  abort();
}

// A failure on purpose loses nothing unless it is told to, whatever its number says: what was queued goes on, so that who takes
// it for ended is found out.
Result enter(const char* call) {
  Driver& d = driver();
  const bool counts = d.fail_call.empty() || d.fail_call == call;
  if (counts && ++d.calls == d.fail_at) {
    d.failed = call;
    if (d.fail_loses != NO_DEVICE) d.lost.insert(d.fail_loses);
    d.fail_loses = NO_DEVICE;
    d.changed.notify_all();
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
  d.lost.clear();
  d.fail_loses = NO_DEVICE;
  d.fail_call.clear();
  d.failed.clear();
  d.fail_at = d.calls = d.launches = 0;
}

// Sets the setting with this name; 1 if there is none.
STUB_API int mgc_stub_set(const char* name, uint64_t value) {
  Driver& d = driver();
  std::lock_guard<std::recursive_mutex> lock(d.mutex);
  for (const Setting& setting : SETTINGS) {
    if (std::string(setting.name) == name) return d.settings.*setting.field = value, 0;
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

// The device with this number is lost when the next call fails that is made to, for good: all work there and all calls in its
// contexts.
STUB_API void mgc_stub_lose(int device) {
  Driver& d = driver();
  std::lock_guard<std::recursive_mutex> lock(d.mutex);
  d.fail_loses = device;
}

// The name of the call that has failed, empty if none has. It lasts until this thread asks again: other threads may make
// calls meanwhile.
STUB_API const char* mgc_stub_failed() {
  static thread_local std::string failed;
  Driver& d = driver();
  std::lock_guard<std::recursive_mutex> lock(d.mutex);
  failed = d.failed;
  return failed.c_str();
}

static uint64_t locked(const uint64_t& count) {
  std::lock_guard<std::recursive_mutex> lock(driver().mutex);
  return count;
}

// How many things of a kind are alive.
STUB_API uint64_t mgc_stub_live(unsigned kind) { return kind < KINDS ? locked(driver().live[kind]) : 0; }

// Kernels that have run so far, and the blocks of the last one.
STUB_API uint64_t mgc_stub_launches() { return locked(driver().launches); }
STUB_API uint64_t mgc_stub_grid() { return locked(driver().grid); }

// Calls that were counted since the last mgc_stub_fail.
STUB_API uint64_t mgc_stub_calls() { return locked(driver().calls); }
