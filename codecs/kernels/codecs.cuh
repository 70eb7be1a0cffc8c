// The lines of codecs.h as types, by the names of the codecs: zvc_launch and so on.
#pragma once
#include "launch.h"
#include "mgc_dev.cuh"

#define MGC_CODEC(name, algorithm, encode_scratch, decode_scratch)                      \
  struct name##_launch {                                                                \
    static constexpr u32 ALGORITHM = algorithm;                                         \
    static constexpr u32 ENCODE_SCRATCH = encode_scratch, DECODE_SCRATCH = decode_scratch; \
  };
#include "codecs.h"
#undef MGC_CODEC
