// Numbers of several ranks, combined from the left, in their order: the kernel of reductions. It is no codec's.
//
// Block:   MGC_REDUCE_UNITS neighbouring units of 16 bytes for each thread, then others a grid further on.
// Traffic: the numbers of each rank are read once, the result is written once, 16 bytes at a time. Where the result does
//          not lie on a multiple of the numbers' width, single bytes are written, and read where they do not lie on
//          multiples of 16.
// Tail:    the first and the last unit of the result may be parts of one, which move byte by byte.
// Scope:   each unit of the result is of one thread, which has read all before it writes; so the result may lie where
//          the numbers of a rank do.
// Input:   any bits are numbers.
#include "reduce/numbers.cuh"
#include "reduce/units.cuh"

// What a thread works on.
struct ReduceUnits {
  ReduceUnit at[MGC_REDUCE_UNITS];
};

// The place of unit `i` of the calling thread, where those of its block start at unit `first`.
MGC_DEV u64 place_of(u64 first, u32 i) { return (first + i * MGC_BLOCK_THREADS + threadIdx.x) * MGC_UNIT; }

// What `change` makes of each number of the two words `left`, and that of `right` in its place.
template <class Form, class Change>
MGC_DEV void for_numbers(u32* left, const u32* right, const Change& change) {
  typedef typename Form::Bits Bits;
  const u64 l = (u64)left[1] << 32 | left[0], r = (u64)right[1] << 32 | right[0];
  u64 changed = 0;
#pragma unroll
  for (u32 shift = 0; shift < 64; shift += 8 * (u32)sizeof(Bits)) {
    changed |= (u64)change((Bits)(l >> shift), (Bits)(r >> shift)) << shift;
  }
  left[0] = (u32)changed;
  left[1] = (u32)(changed >> 32);
}

template <class Form, class Change>
MGC_DEV void for_units(ReduceUnits& left, const ReduceUnits& right, const Change& change) {
#pragma unroll
  for (u32 i = 0; i < MGC_REDUCE_UNITS; i++) {
    for_numbers<Form>(left.at[i].words, right.at[i].words, change);
    for_numbers<Form>(left.at[i].words + 2, right.at[i].words + 2, change);
  }
}

template <class Form>
MGC_DEV void combine_form(const MgcReduction& task, ReduceUnits& left, const ReduceUnits& right) {
  typedef typename Form::Bits Bits;
  if (task.operation == MGC_REDUCE_MIN || task.operation == MGC_REDUCE_MAX) {
    const bool is_signed = task.is_signed != 0, is_larger = task.operation == MGC_REDUCE_MAX;
    for_units<Form>(left, right, [=](Bits l, Bits r) { return smaller_or_larger<Form>(l, r, is_signed, is_larger); });
  } else {
    for_units<Form>(left, right, [](Bits l, Bits r) { return Form::sum(l, r); });
  }
}

template <class Form>
MGC_DEV void divide_form(const MgcReduction& task, ReduceUnits& sums) {
  typedef typename Form::Bits Bits;
  const u32 ranks = task.ranks;
  const bool is_signed = task.is_signed != 0;
  // Two words at a time, which then make way for the next: divisions are long, and some are calls, which take registers.
#pragma unroll 1
  for (u32 turn = 0; turn < 2 * MGC_REDUCE_UNITS; turn++) {
    u32 words[2] = {sums.at[0].words[0], sums.at[0].words[1]};
    for_numbers<Form>(words, words, [=](Bits sum, Bits) { return Form::divide(sum, ranks, is_signed); });
#pragma unroll
    for (u32 i = 0; i < 4 * MGC_REDUCE_UNITS; i++) {
      const u32 next = i + 2;
      u32* const to = &sums.at[i / 4].words[i % 4];
      *to = next < 4 * MGC_REDUCE_UNITS ? sums.at[next / 4 % MGC_REDUCE_UNITS].words[next % 4] : words[next % 2];
    }
  }
}

// Calls `function<Form>(arguments)` with the form of the numbers.
#define MGC_OF_FORM(function, task, ...)                                        \
  switch ((task).form) {                                                        \
    case MGC_FORM_INT8: function<IntegerForm<u8>>(task, __VA_ARGS__); break;    \
    case MGC_FORM_INT16: function<IntegerForm<u16>>(task, __VA_ARGS__); break;  \
    case MGC_FORM_INT32: function<IntegerForm<u32>>(task, __VA_ARGS__); break;  \
    case MGC_FORM_INT64: function<IntegerForm<u64>>(task, __VA_ARGS__); break;  \
    case MGC_FORM_F16: function<F16Form>(task, __VA_ARGS__); break;             \
    case MGC_FORM_BF16: function<Bf16Form>(task, __VA_ARGS__); break;           \
    case MGC_FORM_F32: function<F32Form>(task, __VA_ARGS__); break;             \
    default: function<F64Form>(task, __VA_ARGS__); break;                       \
  }

MGC_DEV void load_units(const MgcReduction& task, const ReduceCut& cut, u32 rank, u64 first, ReduceUnits& units) {
  const u8* const from = rank == task.own_rank ? task.own : task.numbers + rank * task.stride;
#pragma unroll
  for (u32 i = 0; i < MGC_REDUCE_UNITS; i++) units.at[i] = load_unit(from - cut.start, cut, place_of(first, i));
}

// Takes MGC_BLOCK_THREADS threads a block, any number of blocks, and no dynamic shared memory.
MGC_KERNEL void __launch_bounds__(MGC_BLOCK_THREADS, 5) reduce_numbers(MGC_PARAM(MgcReduction) task) {
  const ReduceCut cut = reduce_cut(task);
  const u64 per_block = MGC_REDUCE_UNITS * MGC_BLOCK_THREADS;
  for (u64 first = blockIdx.x * per_block; first < cut.units; first += gridDim.x * per_block) {
    ReduceUnits left, right;
    load_units(task, cut, 0, first, left);
    for (u32 rank = 1; rank < task.ranks; rank++) {
      load_units(task, cut, rank, first, right);
      MGC_OF_FORM(combine_form, task, left, right)
    }
    if (task.operation == MGC_REDUCE_AVG) {
      MGC_OF_FORM(divide_form, task, left)
    }
#pragma unroll
    for (u32 i = 0; i < MGC_REDUCE_UNITS; i++) store_unit(task.result - cut.start, cut, place_of(first, i), left.at[i]);
  }
}
