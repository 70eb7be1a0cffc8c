// The arithmetic of reductions: that of `codecs/src/reduction/portable.rs`, bit for bit.
//
// Where devices and CPUs differ it is done in integers: a device's sums have a NaN of their own, and so have its smallest
// and largest. Sums and quotients of floats are rounded to nearest, ties to even, with denormals, and nothing is
// contracted.
#pragma once
#include "reduce/task.cuh"

// The sign of numbers with these bits.
template <class T>
MGC_DEV T top_bit() {
  return (T)((T)1 << (8 * sizeof(T) - 1));
}

// Integers, of the type without sign that has their bits.
template <class T>
struct IntegerForm {
  typedef T Bits;

  MGC_DEV T sum(T left, T right) { return (T)(left + right); }

  MGC_DEV bool is_nan(T) { return false; }

  // In the order of the numbers.
  MGC_DEV T key(T bits, bool is_signed) { return is_signed ? (T)(bits ^ top_bit<T>()) : bits; }

  // Towards zero.
  MGC_DEV T divide(T bits, u32 ranks, bool is_signed) {
    const bool is_negative = is_signed && (bits & top_bit<T>()) != 0;
    const T magnitude = is_negative ? (T)(0 - bits) : bits;
    const T quotient = sizeof(T) == 8 ? (T)((u64)magnitude / ranks) : (T)((u32)magnitude / ranks);
    return is_negative ? (T)(0 - quotient) : quotient;
  }
};

// What the bits of all floats have in common; above infinity there are only NaNs.
template <class T, T INFINITE>
struct FloatForm {
  typedef T Bits;

  MGC_DEV bool is_nan(T bits) { return (T)(bits & (T)~top_bit<T>()) > INFINITE; }

  // In the order of the numbers, −0 before +0.
  MGC_DEV T key(T bits, bool) { return (bits & top_bit<T>()) != 0 ? (T)~bits : (T)(bits | top_bit<T>()); }
};

// The bits of a sum or a quotient; of one that is not a number those of the quiet NaN without sign and payload.
MGC_DEV u32 f32_bits(float value) { return value == value ? __float_as_uint(value) : 0x7fc00000u; }

struct F32Form : FloatForm<u32, 0x7f800000u> {
  MGC_DEV u32 sum(u32 left, u32 right) {
    return f32_bits(__fadd_rn(__uint_as_float(left), __uint_as_float(right)));
  }

  MGC_DEV u32 divide(u32 bits, u32 ranks, bool) {
    return f32_bits(__fdiv_rn(__uint_as_float(bits), __uint2float_rn(ranks)));
  }
};

struct F64Form : FloatForm<u64, 0x7ff0000000000000u> {
  MGC_DEV u64 bits_of(double value) {
    return value == value ? (u64)__double_as_longlong(value) : 0x7ff8000000000000u;
  }

  MGC_DEV u64 sum(u64 left, u64 right) {
    return bits_of(__dadd_rn(__longlong_as_double((long long)left), __longlong_as_double((long long)right)));
  }

  MGC_DEV u64 divide(u64 bits, u32 ranks, bool) {
    return bits_of(__ddiv_rn(__longlong_as_double((long long)bits), __uint2double_rn(ranks)));
  }
};

struct Bf16Form : FloatForm<u16, 0x7f80> {
  MGC_DEV float widen(u16 bits) { return __uint_as_float((u32)bits << 16); }

  // All NaNs become the one whose upper half is bfloat16's.
  MGC_DEV u16 narrow(float value) {
    const u32 bits = f32_bits(value);
    return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }

  MGC_DEV u16 sum(u16 left, u16 right) { return narrow(__fadd_rn(widen(left), widen(right))); }

  MGC_DEV u16 divide(u16 bits, u32 ranks, bool) {
    return narrow(__fdiv_rn(widen(bits), __uint2float_rn(ranks)));
  }
};

struct F16Form : FloatForm<u16, 0x7c00> {
  // Both formats have sign, exponent, fraction; exponents are 112 apart. The product is exact, of denormals too.
  MGC_DEV float widen(u16 bits) {
    const u32 sign = (u32)(bits & 0x8000) << 16, magnitude = (u32)(bits & 0x7fff) << 13;
    const u32 finite = __float_as_uint(__fmul_rn(__uint_as_float(magnitude), __uint_as_float((127u + 112) << 23)));
    return __uint_as_float(sign | ((bits & 0x7c00) == 0x7c00 ? magnitude | 0x7f800000u : finite));
  }

  MGC_DEV u16 narrow(float value) {
    const u32 bits = f32_bits(value), magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000;
    if (magnitude > 0x7f800000u) return 0x7e00;
    // From 2^16 on there is nothing but infinity.
    if (magnitude >= (127u + 16) << 23) return (u16)(sign | 0x7c00);
    // Below 2^-14 are the denormals, multiples of 2^-24: those of a float between one half and one.
    const u32 half = 126u << 23;
    if (magnitude < (127u - 14) << 23) {
      const float sum = __fadd_rn(__uint_as_float(magnitude), __uint_as_float(half));
      return (u16)(sign | (__float_as_uint(sum) - half));
    }
    return (u16)(sign | (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13);
  }

  MGC_DEV u16 sum(u16 left, u16 right) { return narrow(__fadd_rn(widen(left), widen(right))); }

  MGC_DEV u16 divide(u16 bits, u32 ranks, bool) {
    return narrow(__fdiv_rn(widen(bits), __uint2float_rn(ranks)));
  }
};

// What is not a number is the result, the left one if both are.
template <class Form>
MGC_DEV typename Form::Bits smaller_or_larger(typename Form::Bits left, typename Form::Bits right, bool is_signed,
                                              bool is_larger) {
  if (Form::is_nan(left)) return left;
  if (Form::is_nan(right)) return right;
  // Equal keys are equal bits.
  const bool is_less = Form::key(right, is_signed) < Form::key(left, is_signed);
  return is_less != is_larger ? right : left;
}
