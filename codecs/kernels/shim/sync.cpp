// Barriers and warp collectives: where threads of a block meet.
#include "block.h"

namespace shim {

static uint64_t reduce_start(Op op) { return op == Op::Min || op == Op::And ? ~0ull : 0; }

static uint64_t reduce(Op op, uint64_t sum, const Thread& lane) {
  switch (op) {
    case Op::Ballot: return sum | (lane.value & 1) << lane.lane;
    case Op::Add: return (uint32_t)(sum + lane.value);
    case Op::Min: return lane.value < sum ? lane.value : sum;
    case Op::Max: return lane.value > sum ? lane.value : sum;
    case Op::And: return sum & lane.value;
    case Op::Or: return sum | lane.value;
    case Op::Xor: return sum ^ lane.value;
    default: return sum;
  }
}

// The lanes of `mask` whose value is `value`.
static uint64_t matching_lanes(const Thread* warp, uint32_t mask, uint64_t value) {
  uint64_t lanes = 0;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    if (warp[__builtin_ctz(rest)].value == value) lanes |= rest & -rest;
  }
  return lanes;
}

// All lanes of the mask are here: gives each its result and lets it go on.
static void complete(Thread* warp, Op op, uint32_t mask) {
  uint64_t sum = reduce_start(op);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    Thread& lane = warp[__builtin_ctz(rest)];
    if (lane.mask != mask || lane.op != op) die("lanes of one warp meet in different collectives or masks");
    if (op == Op::Shuffle && !(mask >> lane.source & 1)) die("a shuffle reads a lane outside the mask");
    sum = reduce(op, sum, lane);
  }
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    Thread& lane = warp[__builtin_ctz(rest)];
    lane.result = op == Op::Shuffle    ? warp[lane.source].value
                  : op == Op::MatchAny ? matching_lanes(warp, mask, lane.value)
                                       : sum;
    make_ready(lane);
  }
}

uint64_t collective(Op op, uint32_t mask, uint64_t value, uint32_t source, Place place) {
  Thread& me = *running();
  const unsigned warp = me.thread / 32;
  me.op = op;
  me.mask = mask;
  me.value = value;
  me.source = source;
  me.place = place;
  me.state = State::InCollective;
  if (!(mask >> me.lane & 1)) die("the calling lane is not in the mask");
  // Of all collectives only this one orders memory.
  if (op == Op::SyncWarp) release(block->warp_token(warp));
  block->arrived[warp] |= 1u << me.lane;
  if ((block->arrived[warp] & mask) == mask) {
    block->arrived[warp] &= ~mask;
    complete(&block->threads[warp * 32], op, mask);
  }
  reschedule();
  if (op == Op::SyncWarp) acquire(block->warp_token(warp));
  return me.result;
}

unsigned barrier(unsigned id, unsigned count, bool predicate, Place place) {
  Thread& me = *running();
  if (id >= BARRIERS) die("no such barrier");
  Barrier& b = block->barriers[id];
  const unsigned wanted = count == 0 ? block->thread_count : count;
  me.place = place;
  me.state = State::InBarrier;
  if (b.here != 0 && b.wanted != wanted) die("threads reach a barrier with different counts");
  if (wanted == block->thread_count && block->alive != block->thread_count) {
    die("a barrier for the whole block after a thread has exited");
  }
  char* const token = block->barrier_token(id, b.generation);
  release(token);
  b.wanted = wanted;
  b.predicates += predicate;
  b.waiting.push(me.thread);
  if (++b.here == wanted) {
    for (unsigned thread : b.waiting) {
      block->threads[thread].result = b.predicates;
      make_ready(block->threads[thread]);
    }
    b.waiting.len = 0;
    b.here = b.predicates = 0;
    b.generation++;
  }
  reschedule();
  acquire(token);
  return (unsigned)me.result;
}

}  // namespace shim
