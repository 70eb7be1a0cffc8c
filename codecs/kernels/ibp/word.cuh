// A word of 32 bits, some of which are invariant: moving the others together, and back.
#pragma once
#include "mgc_dev.cuh"

// Runs of kept bits that are known by their places; masks with more of them take a loop.
#define IBP_RUNS 3

// The invariant bits of a word, and the runs of all others.
struct IbpWord {
  u32 mask, value;
  u32 kept;  // how many bits are not invariant
  u32 runs[IBP_RUNS];
  u32 shifts;  // of each run, a byte each: how far its bits are from their place among the kept ones
};

// A word whose runs are not known yet.
MGC_DEV IbpWord ibp_word(u32 mask, u32 value) { return {mask, value, 32 - (u32)__popc(mask), {0, 0, 0}, 0}; }

// Finds run `i` of a word, the lowest of those in `keep`, and takes it away from them.
MGC_DEV void ibp_find_run(IbpWord& word, u32 i, u32& keep) {
  const u32 lowest = keep & (0u - keep), above = keep + lowest;
  word.runs[i] = keep & ~above;
  word.shifts |= ((u32)__popc(word.mask & (lowest - 1)) & 31) << 8 * i;
  keep &= above;
}

// Finds the runs of a lane's words, as many of each as any word of the warp has; the whole warp calls it. Returns that
// number, or IBP_RUNS + 1 if some have more.
template <u32 N>
MGC_DEV u32 ibp_find_runs(IbpWord (&words)[N]) {
  u32 keep[N];
#pragma unroll
  for (u32 e = 0; e < N; e++) keep[e] = ~words[e].mask;
#pragma unroll
  for (u32 i = 0; i < IBP_RUNS; i++) {
    u32 left = 0;
#pragma unroll
    for (u32 e = 0; e < N; e++) {
      ibp_find_run(words[e], i, keep[e]);
      left |= keep[e];
    }
    if (!__any_sync(0xffffffffu, left != 0)) return i + 1;
  }
  return IBP_RUNS + 1;
}

// Has the compiler keep what is known of a word, instead of finding it again in each round of a loop.
MGC_DEV void ibp_hold(IbpWord& word) {
  word.kept = in_register(word.kept);
  word.runs[0] = in_register(word.runs[0]);
  word.shifts = in_register(word.shifts);
}

// The kept bits that are in no run.
MGC_DEV u32 ibp_other_bits(const IbpWord& word) {
  u32 keep = ~word.mask;
#pragma unroll
  for (u32 i = 0; i < IBP_RUNS; i++) keep &= ~word.runs[i];
  return keep;
}

// Moves the kept bits of each of `from` together. `runs` is what ibp_find_runs says.
template <u32 N>
MGC_DEV void ibp_gather(const IbpWord (&words)[N], u32 runs, const u32 (&from)[N], u32 (&bits)[N]) {
#pragma unroll
  for (u32 e = 0; e < N; e++) bits[e] = __funnelshift_r(from[e] & words[e].runs[0], 0, words[e].shifts);
#pragma unroll
  for (u32 i = 1; i < IBP_RUNS; i++) {
    if (runs <= i) return;
#pragma unroll
    for (u32 e = 0; e < N; e++) {
      bits[e] |= __funnelshift_r(from[e] & words[e].runs[i], 0, words[e].shifts >> 8 * i);
    }
  }
  if (runs <= IBP_RUNS) return;
#pragma unroll
  for (u32 e = 0; e < N; e++) {
    for (u32 keep = ibp_other_bits(words[e]); keep != 0;) {
      const u32 lowest = keep & (0u - keep), run = keep & ~(keep + lowest);
      bits[e] |= (from[e] & run) >> __popc(words[e].mask & (lowest - 1));
      keep &= ~run;
    }
  }
}

// The inverse; invariant bits are as they have to be.
template <u32 N>
MGC_DEV void ibp_scatter(const IbpWord (&words)[N], u32 runs, const u32 (&from)[N], u32 (&bits)[N]) {
#pragma unroll
  for (u32 e = 0; e < N; e++) {
    bits[e] = (__funnelshift_l(0, from[e], words[e].shifts) & words[e].runs[0]) | words[e].value;
  }
#pragma unroll
  for (u32 i = 1; i < IBP_RUNS; i++) {
    if (runs <= i) return;
#pragma unroll
    for (u32 e = 0; e < N; e++) {
      bits[e] |= __funnelshift_l(0, from[e], words[e].shifts >> 8 * i) & words[e].runs[i];
    }
  }
  if (runs <= IBP_RUNS) return;
#pragma unroll
  for (u32 e = 0; e < N; e++) {
    for (u32 keep = ibp_other_bits(words[e]); keep != 0;) {
      const u32 lowest = keep & (0u - keep), run = keep & ~(keep + lowest);
      bits[e] |= from[e] << __popc(words[e].mask & (lowest - 1)) & run;
      keep &= ~run;
    }
  }
}
