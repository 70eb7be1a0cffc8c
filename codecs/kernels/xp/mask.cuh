// XP: masks in which whole bytes of zeros are left out, up to three times over.
//
// Level 0 is the mask itself; bit i of the level above says that byte i of a level is not zero. Levels lie in
// shared memory one behind the other, each on a multiple of 8, with zeros up to the next.
#pragma once
#include "xp/layout.cuh"

#define XP_MAX_DEPTH 3

// Where the levels of a mask are behind its first byte, by the number of bits that there is room for: a power
// of two, at least 512.
MGC_DEV u32 xp_level_len(u32 room, u32 level) {
  const u32 bytes = room >> 3 * (level + 1);
  return bytes < 8 ? 8 : bytes;
}
MGC_DEV u32 xp_level_at(u32 room, u32 level) {
  u32 at = 0;
  for (u32 below = 0; below < level; below++) at += xp_level_len(room, below);
  return at;
}
MGC_DEV u32 xp_levels_len(u32 room) { return round_up(xp_level_at(room, XP_MAX_DEPTH + 1), 16); }

// Bytes of `level` of a mask of `bits` bits.
MGC_DEV u32 xp_level_bytes(u32 bits, u32 level) {
  for (u32 i = 0; i <= level; i++) bits = (bits + 7) / 8;
  return bits;
}

// One bit for each byte of eight that is not zero.
MGC_DEV u32 xp_nonzero_bytes(uint2 bytes) {
  const u32 low = (((bytes.x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | bytes.x) >> 7 & 0x01010101u;
  const u32 high = (((bytes.y & 0x7f7f7f7fu) + 0x7f7f7f7fu) | bytes.y) >> 7 & 0x01010101u;
  return (low | high << 4) * 0x01020408u >> 24;
}

struct XpMask {
  u32 depth;
  u32 len;  // in bytes, coded
};

// Makes the levels above level 0, which a barrier is behind, and finds the depth at which the mask is
// shortest, the lowest of equals. There is a barrier behind the levels.
MGC_DEV XpMask xp_best_depth(u8* levels, u32 room, u32 bits, XpSums (&sums)[4]) {
  u32 len = (bits + 7) / 8, kept = 0;
  XpMask best = {0, len};
  const u8* below = levels;
  for (u32 depth = 1; depth <= XP_MAX_DEPTH; depth++) {
    u8* const above = levels + xp_level_at(room, depth);
    len = (len + 7) / 8;
    u32 own = 0;
    for (u32 at = threadIdx.x; at < round_up(len, 8); at += MGC_BLOCK_THREADS) {
      const u32 byte = at < len ? xp_nonzero_bytes(*(const uint2*)(below + 8 * at)) : 0;
      above[at] = (u8)byte;
      own += __popc(byte);
    }
    kept += xp_sum(own, sums[depth % 2]);
    if (len + kept < best.len) best = {depth, len + kept};
    below = above;
  }
  return best;
}

// Writes a mask of `bits` bits to `to`. All threads call it.
MGC_DEV void xp_put_mask(const u8* levels, u32 room, u32 bits, u32 depth, XpSums (&sums)[4], u8* to) {
  const u32 top = xp_level_bytes(bits, depth);
  const u8* const plain = levels + xp_level_at(room, depth);
  for (u32 at = threadIdx.x; at < top; at += MGC_BLOCK_THREADS) to[at] = plain[at];
  to += top;
  for (u32 level = depth; level-- > 0;) {
    const u8* const kept = levels + xp_level_at(room, level + 1);
    const u8* const bytes = levels + xp_level_at(room, level);
    const u32 octets = xp_level_bytes(bits, level + 1);
    for (u32 first = 0; first < octets; first += MGC_BLOCK_THREADS) {
      const u32 octet = first + threadIdx.x;
      const u32 mask = octet < octets ? kept[octet] : 0;
      u32 total;
      u32 next = xp_scan((u32)__popc(mask), sums[first / MGC_BLOCK_THREADS % 2], &total);
      if (mask != 0) {
        for (u32 i = 0; i < 8; i++) {
          if (mask >> i & 1) to[next++] = bytes[8 * octet + i];
        }
      }
      to += total;
    }
    __syncthreads();  // The next level's sums.
  }
}

// Reads a mask of `bits` bits that stands at `*at` of the chunk, and moves `*at` behind it. Level 0 is there
// for all threads afterwards. Each thread returns what it found wrong; a mask that is cut off is found by all,
// and `*at` is then behind the end of the chunk.
MGC_DEV u32 xp_take_mask(const CodedChunk& chunk, u32* at, u32 bits, u32 depth, u8* levels, u32 room,
                         XpSums (&sums)[4]) {
  u32 code = MGC_GOOD;
  for (u32 level = depth + 1; level-- > 0;) {
    u8* const bytes = levels + xp_level_at(room, level);
    const u8* const kept = levels + xp_level_at(room, level + 1);
    const u32 numbers = level == 0 ? bits : xp_level_bytes(bits, level - 1);
    const u32 len = (numbers + 7) / 8, octets = (len + 7) / 8;
    for (u32 first = 0; first < octets; first += MGC_BLOCK_THREADS) {
      const u32 octet = first + threadIdx.x;
      u32 mask = octet < octets ? xp_live(len, octet) : 0;
      if (level < depth) mask &= octet < octets ? kept[octet] : 0;
      u32 total;
      u32 next = *at + xp_scan((u32)__popc(mask), sums[first / MGC_BLOCK_THREADS % 2], &total);
      if (octet < octets) {
        for (u32 i = 0; i < 8; i++) {
          u32 byte = 0;
          if ((mask >> i & 1) != 0) {
            byte = next < chunk.stored_len ? chunk.stored[next] : 0;
            next++;
          }
          if (8 * octet + i + 1 == len && (byte & ~xp_live(numbers, len - 1)) != 0) {
            code = MGC_BAD_CHUNK_PADDING;
            byte = 0;
          }
          bytes[8 * octet + i] = (u8)byte;
        }
      }
      *at += total;
    }
    __syncthreads();  // The next level reads this one.
  }
  return *at > chunk.stored_len ? MGC_BAD_CHUNK_TRUNCATED : code;
}
