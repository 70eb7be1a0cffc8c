// Which thread of the block runs next.
#include <sched.h>

#include <cstdio>

#include "block.h"

namespace shim {

SHIM_LOCAL Context* current;
SHIM_LOCAL Block* block;

void die(const char* what) {
  fprintf(stderr, "shim: %s\n", what);
  for (Thread& t : block->threads) {
    if (t.state == State::InBarrier) {
      fprintf(stderr, "  thread %u waits at a barrier, %s:%d\n", t.thread, t.place.file, t.place.line);
    } else if (t.state == State::InCollective) {
      fprintf(stderr, "  thread %u waits in a collective of lanes %08x, %s:%d\n", t.thread, t.mask,
              t.place.file, t.place.line);
    } else if (t.state == State::Done) {
      fprintf(stderr, "  thread %u has exited\n", t.thread);
    }
  }
  abort();
}

static uint64_t next_random() {
  uint64_t x = block->random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return block->random = x;
}

// A place in the ring of `n`, which it is at most once around. Threads switch so often that dividing would show.
static size_t around(size_t place, size_t n) { return place < n ? place : place - n; }

void make_ready(Thread& thread) {
  thread.state = State::Ready;
  block->ready[around(block->ready_head + block->ready_len++, block->thread_count)] = thread.thread;
}

// Takes a thread off the ring, from the place that the order asks for.
static Thread& take_ready() {
  Block& b = *block;
  const size_t n = b.thread_count, last = b.ready_head + b.ready_len - 1;
  size_t picked = b.ready_head;
  if (b.options.order == Order::Lifo) picked = last;
  if (b.options.order == Order::Random) picked += next_random() % b.ready_len;
  const unsigned thread = b.ready[around(picked, n)];
  b.ready_len--;
  if (b.options.order == Order::Fifo) {
    b.ready_head = around(b.ready_head + 1, n);
  } else {
    b.ready[around(picked, n)] = b.ready[around(last, n)];
  }
  return b.threads[thread];
}

void reschedule() {
  Thread& me = *running();
  const bool ends = me.state == State::Done;
  if (block->ready_len == 0) {
    if (block->alive != 0) die("deadlock: no thread of the block can go on");
    switch_fiber(me.fiber, block->host, ends);
    return;
  }
  Thread& next = take_ready();
  if (&next == &me) return;
  current = &next;
  switch_fiber(me.fiber, next.fiber, ends);
}

void yield() {
  if (block->ready_len == 0) {
    sched_yield();  // what this thread waits for can only come from another block
    return;
  }
  make_ready(*running());
  reschedule();
}

void run_thread() {
  enter_fiber(block->host);
  Thread& me = *running();
  acquire(&block->start_token);
  block->kernel(block->arguments);
  release(&block->end_token);
  if (me.copies.len != 0) die("a thread exits with copies under way");
  me.state = State::Done;
  block->alive--;
  for (Barrier& b : block->barriers) {
    const bool whole_block = b.wanted == block->thread_count;
    if (b.here != 0 && whole_block) die("a thread exits while others wait for it at a barrier");
  }
  reschedule();
  abort();  // a thread that is done is never run again
}

void run_first_thread() {
  Thread& first = take_ready();
  current = &first;
  switch_fiber(block->host, first.fiber, false);
  current = nullptr;
}

}  // namespace shim
