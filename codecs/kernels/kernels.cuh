// What a codec's file includes: the skeletons, the table of codecs, and the entry points.
#pragma once
#include "codecs.cuh"
#include "frame/read.cuh"
#include "frame/write.cuh"

// A codec as the skeletons see it: the author's functions and the line of the table.
template <class Functions, class Launch>
struct Kernels : Functions, Launch {};

// How many blocks of a kernel there shall be registers for on a multiprocessor, at least.
#define MGC_BOUNDS(blocks) __launch_bounds__(MGC_BLOCK_THREADS, blocks)

// The three kernels of a codec. They take MGC_BLOCK_THREADS threads a block and any number of blocks.
#define MGC_KERNELS(name, Codec)                                                            \
  MGC_KERNEL void MGC_BOUNDS(Codec::ENCODE_BLOCKS) name##_encode(MGC_PARAM(MgcBatch) batch) {   \
    encode_frames<Kernels<Codec, name##_launch>>(batch);                                    \
  }                                                                                         \
  MGC_KERNEL void MGC_BOUNDS(Codec::DECODE_BLOCKS) name##_decode(MGC_PARAM(MgcBatch) batch) {   \
    decode_frames<Kernels<Codec, name##_launch>>(batch);                                    \
  }                                                                                         \
  MGC_KERNEL void MGC_BOUNDS(Codec::ENCODE_BLOCKS) name##_estimate(MGC_PARAM(MgcBatch) batch) { \
    estimate_frames<Kernels<Codec, name##_launch>>(batch);                                  \
  }
