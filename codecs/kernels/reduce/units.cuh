// Units of 16 bytes of the numbers, wherever these lie.
#pragma once
#include "reduce/task.cuh"

struct ReduceUnit {
  u32 words[4];
};

// How the result is cut into units: so that they lie on multiples of 16, if the numbers lie on multiples of their width.
// Places count from the start of the first unit; what lies before and behind the numbers is of no unit's concern.
struct ReduceCut {
  u32 start;  // of the numbers, in the first unit
  u64 end;
  u64 units;
  bool is_odd;  // numbers lie across multiples of 16
};

MGC_DEV ReduceCut reduce_cut(const MgcReduction& task) {
  ReduceCut cut;
  cut.is_odd = ((u64)task.result & (task.width - 1)) != 0;
  cut.start = cut.is_odd ? 0 : (u32)((u64)task.result % MGC_UNIT);
  cut.end = cut.start + task.len;
  cut.units = (cut.end + MGC_UNIT - 1) / MGC_UNIT;
  return cut;
}

// Words of two neighbouring units, from byte `shift` on.
MGC_DEV ReduceUnit shifted(const uint4& low, const uint4& high, u32 shift) {
  u32 words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (u32 i = 0; i < 6; i++) {
    if ((shift & 8) != 0) words[i] = words[i + 2];
  }
#pragma unroll
  for (u32 i = 0; i < 5; i++) {
    if ((shift & 4) != 0) words[i] = words[i + 1];
  }
  ReduceUnit unit;
#pragma unroll
  for (u32 i = 0; i < 4; i++) unit.words[i] = __funnelshift_r(words[i], words[i + 1], shift % 4 * 8);
  return unit;
}

// The unit at place `at` of numbers whose first unit would start at `from`; zeros where there are none. Where all around
// is theirs, aligned units are read, also those that the neighbours read: each comes from memory once, then from a cache.
MGC_DEV ReduceUnit load_unit(const u8* from, const ReduceCut& cut, u64 at) {
  ReduceUnit unit = {{0, 0, 0, 0}};
  const u8* const bytes = from + at;
  const u32 shift = (u32)((u64)bytes % MGC_UNIT);
  const bool is_whole = at >= cut.start && at + MGC_UNIT <= cut.end;
  if (is_whole && shift == 0) {
    const uint4 words = *(const uint4*)bytes;
    unit = {{words.x, words.y, words.z, words.w}};
  } else if (!cut.is_odd && at >= cut.start + shift && at + 2 * MGC_UNIT - shift <= cut.end) {
    const uint4* const units = (const uint4*)(bytes - shift);
    unit = shifted(units[0], units[1], shift);
  } else {
    u64 low = 0, high = 0;
    // From the last one down, each pushed in at the bottom.
#pragma unroll 4
    for (u32 i = MGC_UNIT; i-- > 0;) {
      const u32 byte = at + i >= cut.start && at + i < cut.end ? bytes[i] : 0;
      high = high << 8 | low >> 56;
      low = low << 8 | byte;
    }
    unit = {{(u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32)}};
  }
  return unit;
}

// Writes what of a unit is of the result, whose first unit starts at `to`.
MGC_DEV void store_unit(u8* to, const ReduceCut& cut, u64 at, const ReduceUnit& unit) {
  u8* const bytes = to + at;
  if (!cut.is_odd && at >= cut.start && at + MGC_UNIT <= cut.end) {
    *(uint4*)bytes = make_uint4(unit.words[0], unit.words[1], unit.words[2], unit.words[3]);
    return;
  }
  u64 low = (u64)unit.words[1] << 32 | unit.words[0], high = (u64)unit.words[3] << 32 | unit.words[2];
#pragma unroll 4
  for (u32 i = 0; i < MGC_UNIT; i++) {
    if (at + i >= cut.start && at + i < cut.end) bytes[i] = (u8)low;
    low = low >> 8 | high << 56;
    high >>= 8;
  }
}
