// A word of 32 bits, some of which are invariant: moving the others together, and back.
#pragma once
#include "mgc_dev.cuh"

// Runs of kept bits that are known by their places; masks with more of them take a loop.
#define IBP_RUNS 3

// The invariant bits of a word, and the runs of all others.
struct IbpWord {
  u32 mask, value;
  u32 runs[IBP_RUNS];
  u32 shifts;  // of each run, a byte each: how far its bits are from their place among the kept ones
};

MGC_DEV IbpWord ibp_word(u32 mask, u32 value) {
  IbpWord word;
  word.mask = mask;
  word.value = value;
  word.shifts = 0;
  u32 keep = ~mask;
#pragma unroll
  for (u32 i = 0; i < IBP_RUNS; i++) {
    const u32 lowest = keep & (0u - keep);
    word.runs[i] = keep & ~(keep + lowest);
    word.shifts |= ((u32)__popc(mask & (lowest - 1)) & 31) << 8 * i;
    keep &= ~word.runs[i];
  }
  return word;
}

// The kept bits that are in no run.
MGC_DEV u32 ibp_other_bits(const IbpWord& word) {
  u32 keep = ~word.mask;
#pragma unroll
  for (u32 i = 0; i < IBP_RUNS; i++) keep &= ~word.runs[i];
  return keep;
}

// Moves the kept bits of `from` together.
MGC_DEV u32 ibp_gather(const IbpWord& word, u32 from) {
  u32 bits = 0;
#pragma unroll
  for (u32 i = 0; i < IBP_RUNS; i++) bits |= __funnelshift_r(from & word.runs[i], 0, word.shifts >> 8 * i);
  for (u32 keep = ibp_other_bits(word); keep != 0;) {
    const u32 lowest = keep & (0u - keep), run = keep & ~(keep + lowest);
    bits |= (from & run) >> __popc(word.mask & (lowest - 1));
    keep &= ~run;
  }
  return bits;
}

// The inverse; invariant bits are clear.
MGC_DEV u32 ibp_scatter(const IbpWord& word, u32 from) {
  u32 bits = 0;
#pragma unroll
  for (u32 i = 0; i < IBP_RUNS; i++) bits |= __funnelshift_l(0, from, word.shifts >> 8 * i) & word.runs[i];
  for (u32 keep = ibp_other_bits(word); keep != 0;) {
    const u32 lowest = keep & (0u - keep), run = keep & ~(keep + lowest);
    bits |= from << __popc(word.mask & (lowest - 1)) & run;
    keep &= ~run;
  }
  return bits;
}
