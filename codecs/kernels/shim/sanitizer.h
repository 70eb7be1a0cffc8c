// What the runtime tells the sanitizers that the kernels are compiled with. Without one, all of it is empty.
#pragma once
#include <cstddef>

#ifdef SHIM_ASAN
extern "C" void __sanitizer_start_switch_fiber(void**, const void*, size_t);
extern "C" void __sanitizer_finish_switch_fiber(void*, const void**, size_t*);
#endif

#ifdef SHIM_TSAN
extern "C" void* __tsan_get_current_fiber();
extern "C" void* __tsan_create_fiber(unsigned);
extern "C" void __tsan_destroy_fiber(void*);
extern "C" void __tsan_switch_to_fiber(void*, unsigned);
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
extern "C" void AnnotateIgnoreReadsBegin(const char*, int);
extern "C" void AnnotateIgnoreReadsEnd(const char*, int);
extern "C" void AnnotateIgnoreWritesBegin(const char*, int);
extern "C" void AnnotateIgnoreWritesEnd(const char*, int);
#endif

namespace shim {

// What was done before a release of a token happens before what is done after an acquire of it.
#ifdef SHIM_TSAN
inline void acquire(void* token) { __tsan_acquire(token); }
inline void release(void* token) { __tsan_release(token); }
#else
inline void acquire(void*) {}
inline void release(void*) {}
#endif

// Hides the libc calls of the runtime itself, which are intercepted although it is not instrumented.
struct Quiet {
#ifdef SHIM_TSAN
  Quiet() {
    AnnotateIgnoreReadsBegin("", 0);
    AnnotateIgnoreWritesBegin("", 0);
  }
  ~Quiet() {
    AnnotateIgnoreReadsEnd("", 0);
    AnnotateIgnoreWritesEnd("", 0);
  }
#else
  Quiet() {}
  ~Quiet() {}
#endif
};

}  // namespace shim
