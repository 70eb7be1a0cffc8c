// Decoupled look-back: each chunk learns how many units the chunks before it take, while they are worked on.
//
// A chunk has one word that is zero at first. It then says how long the chunk is, and once the chunk knows
// where it starts, where it ends. A chunk that looks back adds up lengths until it meets an end. Chunks are
// handed out in order, so it only ever waits for chunks that some block has begun.
#pragma once
#include "mgc_dev.cuh"

// Units of the chunk itself, in the low half.
#define MGC_STATE_LEN (1ull << 32)
// Units up to the end of the chunk, in the low half.
#define MGC_STATE_END (2ull << 32)

// States that a thread asks for at a time, so that one wait covers 128 chunks.
#define MGC_LOOKBACK_WINDOWS 4

// Units before chunk `index`, whose own word is `states[index]`. A whole warp must call it. The first chunk
// must have told its end, not its length. Sums stay below 2^32, as a frame does.
MGC_DEV u32 look_back(const u64* states, u32 index) {
  const u32 all_lanes = 0xffffffffu, lane = threadIdx.x % 32;
  u32 end = index, units = 0;  // those of chunks `end` to `index` - 1 are in `units`
  for (;;) {
    u64 seen[MGC_LOOKBACK_WINDOWS];
#pragma unroll
    for (u32 w = 0; w < MGC_LOOKBACK_WINDOWS; w++) {
      const u32 back = 32 * w + lane + 1;
      seen[w] = back <= end ? ld_relaxed_gpu(states + (end - back)) : MGC_STATE_END;
    }
    bool waits = false;
#pragma unroll
    for (u32 w = 0; w < MGC_LOOKBACK_WINDOWS; w++) {
      const u32 ends = __ballot_sync(all_lanes, seen[w] >= MGC_STATE_END);
      const u32 known = __ballot_sync(all_lanes, seen[w] != 0);
      const u32 nearest = ends & (0u - ends);
      const u32 wanted = nearest | (nearest - 1);  // down to the nearest end; all lanes if there is none
      waits = waits || (known & wanted) != wanted;
      if (waits) continue;
      units += __reduce_add_sync(all_lanes, wanted >> lane & 1 ? (u32)seen[w] : 0);
      if (ends != 0) return units;
      end -= 32;
    }
    if (waits) backoff();
  }
}
