// Intrinsics of integers, with the device's answers where the CPU has none: 0 has 32 leading zeros. And those of
// floats, with the device's NaN.
#pragma once
#include <cstdint>
#include <cstring>

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
// Position of the lowest set bit, counted from 1.
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

// The bits in reverse order.
inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}

// Picks four of the eight bytes of y:x; the low three bits of each nibble of `selector` name one. The fourth bit,
// which asks the instruction for signs, means nothing here: compilers clear it.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = (uint64_t)y << 32 | x;
  unsigned picked = 0;
  for (int i = 0; i < 4; i++) picked |= (unsigned)(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return picked;
}

// 32 bits of high:low, shifted by up to 31.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}

// The products of the four bytes of `a` and `b`, added to `sum`.
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
  for (int i = 0; i < 4; i++) sum += (a >> 8 * i & 255) * (b >> 8 * i & 255);
  return sum;
}

inline float __uint_as_float(unsigned bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline double __longlong_as_double(long long bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
inline long long __double_as_longlong(double value) {
  long long bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// What a device makes of no number, whatever the operands: other bits than a CPU's, so that kernels which let them through
// differ from portable code here too.
inline float shim_canonical(float value) { return value == value ? value : __uint_as_float(0x7fffffffu); }
inline double shim_canonical(double value) {
  return value == value ? value : __longlong_as_double((long long)0xfff8000000000000ull);
}

// Rounded to nearest, ties to even, which is how CPUs round.
inline float __fadd_rn(float a, float b) { return shim_canonical(a + b); }
inline float __fmul_rn(float a, float b) { return shim_canonical(a * b); }
inline float __fdiv_rn(float a, float b) { return shim_canonical(a / b); }
inline double __dadd_rn(double a, double b) { return shim_canonical(a + b); }
inline double __ddiv_rn(double a, double b) { return shim_canonical(a / b); }
inline float __uint2float_rn(unsigned x) { return (float)x; }
inline double __uint2double_rn(unsigned x) { return (double)x; }
