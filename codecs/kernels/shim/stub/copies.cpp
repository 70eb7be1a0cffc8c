// Copies, and words that streams write and wait for.
#include <cstring>
#include <thread>

#include "stub.h"

using namespace stub;

STUB_API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t len, void* stream) {
  STUB_ENTER_CONTEXT;
  if (!is_mapped({to, len})) return INVALID_VALUE;
  return enqueue(stream, [=] { memset((void*)to, value, len); }, {{to, len}});
}

// From pageable memory, as all of it is here: the bytes are taken before the call returns.
STUB_API int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t len, void* stream) {
  STUB_ENTER_CONTEXT;
  if (!is_mapped({to, len})) return INVALID_VALUE;
  const std::string bytes((const char*)from, len);
  return enqueue(stream, [=] { memcpy((void*)to, bytes.data(), len); }, {{to, len}});
}

// To pageable memory: the call returns when all work before it has ended, and the bytes are there.
STUB_API int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t len, void* handle) {
  STUB_ENTER_CONTEXT;
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (const Result error = refuse_recording_of(stream)) return error;
  if (!is_mapped({from, len})) return INVALID_VALUE;
  drain(stream);
  const Result lost = loss_of(current_context());
  if (lost == SUCCESS) memcpy(to, (const void*)from, len);
  return lost;
}

// The addresses say whose memory it is, and no access of peers is needed.
STUB_API int cuMemcpyAsync(uint64_t to, uint64_t from, size_t len, void* stream) {
  STUB_ENTER_CONTEXT;
  if (!is_mapped({to, len}) || !is_mapped({from, len})) return INVALID_VALUE;
  return enqueue(stream, [=] { memmove((void*)to, (const void*)from, len); }, {{to, len}, {from, len}}, {}, Cost{len, 0});
}

// Stricter than a driver, which does not always look whose memory it is. That the other device is lost, this one hears of too.
STUB_API int cuMemcpyPeerAsync(uint64_t to, Context* to_context, uint64_t from, Context* from_context, size_t len,
                               void* stream) {
  STUB_ENTER_CONTEXT;
  if (const Result error = refuse_recording_of(find_stream(stream))) return error;
  if (!is_alive(to_context) || !is_alive(from_context)) return INVALID_CONTEXT;
  for (const Context* end : {to_context, from_context}) {
    if (const Result error = loss_of(end)) return error;
  }
  if (!is_mapped({to, len}) || !is_mapped({from, len})) return INVALID_VALUE;
  if (!belongs_to(to_context, {to, len}) || !belongs_to(from_context, {from, len})) return INVALID_VALUE;
  return enqueue(stream, [=] { memmove((void*)to, (const void*)from, len); }, {{to, len}, {from, len}}, {}, Cost{len, 0});
}

// Whether a word is one that streams of the context may write and wait for; an error if not.
static Result check_word(uint64_t address, void* handle) {
  const std::shared_ptr<Stream> stream = find_stream(handle);
  if (const Result error = refuse_recording_of(stream)) return error;
  if (address % 4 != 0 || !is_mapped({address, 4})) return INVALID_VALUE;
  return reaches(stream->context, {address, 4}) ? SUCCESS : INVALID_VALUE;
}

STUB_API int cuStreamWriteValue32_v2(void* stream, uint64_t address, uint32_t value, unsigned flags) {
  STUB_ENTER_CONTEXT;
  if (flags != 0) return INVALID_VALUE;
  if (const Result error = check_word(address, stream)) return error;
  return enqueue(stream, [=] { __atomic_store_n((uint32_t*)address, value, __ATOMIC_RELEASE); }, {{address, 4}});
}

// Waits in the stream, as long as it takes, until the word is there. Without threads, other streams go on meanwhile.
static void await(const Stream* stream, const uint32_t* word, const std::function<bool(uint32_t)>& is_there) {
  while (!is_there(__atomic_load_n(word, __ATOMIC_ACQUIRE))) {
    {
      std::lock_guard<std::recursive_mutex> lock(driver().mutex);
      if (loss_of(stream->context) != SUCCESS) return;
      if (!stream->threaded && !run_another(stream)) die("a stream waits for a value that nothing will write");
    }
    if (stream->threaded) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

STUB_API int cuStreamWaitValue32_v2(void* stream, uint64_t address, uint32_t value, unsigned flags) {
  STUB_ENTER_CONTEXT;
  enum { GREATER_OR_EQUAL = 0, EQUAL = 1 };
  if (flags > EQUAL) return INVALID_VALUE;
  if (const Result error = check_word(address, stream)) return error;
  const bool equal = flags == EQUAL;
  const auto is_there = [=](uint32_t word) { return equal ? word == value : (int32_t)(word - value) >= 0; };
  const Stream* const waiting = find_stream(stream).get();
  return enqueue(stream, [=] { await(waiting, (const uint32_t*)address, is_there); }, {{address, 4}});
}
