// Shared memory and asynchronous copies.
#include "block.h"

namespace shim {

static void* allocate(size_t len, size_t align) {
  if (align < 16) align = 16;
  void* p = nullptr;
#ifdef SHIM_ASAN
  const size_t size = len;  // to the byte, so that what lies behind it is out of bounds
#else
  const size_t size = (len + 15) / 16 * 16;
#endif
  if (posix_memalign(&p, align, size) != 0) abort();
  return p;
}

void* shared_object(const void* key, size_t len, size_t align) {
  for (SharedObject& s : block->shared) {
    if (s.key == key) return s.object;
  }
  Quiet quiet;
  void* object = allocate(len, align);
  // Other garbage in each block, so that a kernel cannot live on what the last one left.
  memset(object, 0xa5 ^ (int)block->index.x, len);
  block->shared.push({key, object});
  return object;
}

void* dynamic_shared() {
  static const char key = 0;
  return shared_object(&key, block->options.dynamic_shared_len, 16);
}

void release_shared_objects() {
  for (SharedObject& s : block->shared) {
#ifdef SHIM_TSAN
    block->kept.push(s.object);
#else
    free(s.object);
#endif
  }
  block->shared.len = 0;
}

void copy_async(void* to, const void* from, unsigned len) {
  Thread& me = *running();
  me.copies.push({to, from, len, me.copy_group});
}

void copy_commit() { running()->copy_group++; }

void copy_wait(unsigned groups_left) {
  Thread& me = *running();
  size_t landed = 0;
  for (Copy& c : me.copies) {
    if (c.group + groups_left >= me.copy_group) break;
    memcpy(c.to, c.from, c.len);
    landed++;
  }
  me.copies.drop_front(landed);
}

}  // namespace shim
