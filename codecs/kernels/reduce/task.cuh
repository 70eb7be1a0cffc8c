// What one launch of reduce_numbers works on: numbers of several ranks, which are combined into one.
//
// The struct is a kernel parameter; hosts mirror it field by field. The lines `#define MGC_NAME number`, each under the
// comment that explains it, are read by hosts as text, as those of launch.h are.
#pragma once
#include "common/block.cuh"

// Added up.
#define MGC_REDUCE_SUM 0
// The smallest.
#define MGC_REDUCE_MIN 1
// The largest.
#define MGC_REDUCE_MAX 2
// Added up, and divided by the number of ranks.
#define MGC_REDUCE_AVG 3

// Forms of numbers. Integers of 8 bits.
#define MGC_FORM_INT8 0
// Integers of 16 bits.
#define MGC_FORM_INT16 1
// Integers of 32 bits.
#define MGC_FORM_INT32 2
// Integers of 64 bits.
#define MGC_FORM_INT64 3
// IEEE half precision.
#define MGC_FORM_F16 4
// bfloat16.
#define MGC_FORM_BF16 5
// IEEE single precision.
#define MGC_FORM_F32 6
// IEEE double precision.
#define MGC_FORM_F64 7

// Units of 16 bytes that a thread works on at a time.
#define MGC_REDUCE_UNITS 2

struct MgcReduction {
  const u8* numbers;  // those of rank r start at byte r * stride, at any address
  u64 stride;
  const u8* own;   // those of rank `own_rank`, which has none among `numbers`
  u8* result;      // may be `own`; else it has no byte in common with what is read
  u64 len;         // bytes of the result: whole numbers
  u32 ranks;       // at least 1
  u32 own_rank;    // from `ranks` on: all are among `numbers`
  u32 operation;   // MGC_REDUCE_…
  u32 form;        // MGC_FORM_…
  u32 is_signed;   // of integers
  u32 width;       // of a number in bytes
};
static_assert(sizeof(MgcReduction) == 64, "the hosts have the same struct");
