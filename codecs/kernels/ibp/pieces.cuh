// Bytes that a warp reads piece by piece, in order: MGC_PIECE_LEN at a time, on multiples of that, the next piece under
// way while the one before it is worked on. Over a link to the host that is what the device asks for in one go.
//
// Places in a row count from the start of its first piece.
#pragma once
#include "ibp/table.cuh"

#define MGC_PIECE_WORDS (MGC_PIECE_LEN / 4)

struct Pieces {
  const u8* memory;  // the first piece
  u64 readable;      // bytes from there on that may be read; of the last word, all
  u32* ring;         // the two pieces that came last
  u32* head;         // the first pieces, so many
  u32 heads;
  u32 wanted;   // pieces that are sure to be needed; no others are read
  u32 arrived;  // pieces
  u32 next;     // this lane's word of the one behind them
};

// This lane's word of a piece; zero where nothing may be read.
MGC_DEV u32 fetch_piece(const Pieces& pieces, u32 piece) {
  const u64 at = (u64)piece * MGC_PIECE_LEN + 4 * (threadIdx.x % 32);
  return piece < pieces.wanted && at < pieces.readable ? *(const u32*)(pieces.memory + at) : 0;
}

// Bytes up to place `end` are sure to be needed.
MGC_DEV void want_pieces(Pieces& pieces, u32 end) {
  const u32 before = pieces.wanted;
  pieces.wanted = (end + MGC_PIECE_LEN - 1) / MGC_PIECE_LEN;
  // It was not asked for.
  if (pieces.arrived >= before) pieces.next = fetch_piece(pieces, pieces.arrived);
}

// Puts a word of piece `pieces.arrived` where all lanes find it.
MGC_DEV void keep_piece(Pieces& pieces, u32 word) {
  const u32 lane = threadIdx.x % 32;
  pieces.ring[pieces.arrived % 2 * MGC_PIECE_WORDS + lane] = word;
  if (pieces.arrived < pieces.heads) pieces.head[pieces.arrived * MGC_PIECE_WORDS + lane] = word;
  pieces.arrived++;
}

// Begins to read: the first piece arrives, the second is under way. Of bytes up to place `end` all are needed.
MGC_DEV void begin_pieces(Pieces& pieces, u32 end) {
  pieces.wanted = (end + MGC_PIECE_LEN - 1) / MGC_PIECE_LEN;
  pieces.arrived = 0;
  const u32 first = fetch_piece(pieces, 0);
  pieces.next = fetch_piece(pieces, 1);
  __syncwarp();  // Nobody reads the row before.
  keep_piece(pieces, first);
  __syncwarp();  // The piece is there.
}

// Waits for the pieces up to place `end`. Of those that came before, the last one is still there.
MGC_DEV void await_pieces(Pieces& pieces, u32 end) {
  while (pieces.arrived * MGC_PIECE_LEN < end) {
    const u32 word = pieces.next;
    pieces.next = fetch_piece(pieces, pieces.arrived + 1);
    __syncwarp();  // Nobody reads the piece that it takes the place of.
    keep_piece(pieces, word);
    __syncwarp();  // As above.
  }
}

// 32 bits from bit `at` on; those that have not arrived are anything.
MGC_DEV u32 piece_bits(const Pieces& pieces, u32 at) {
  const u32 low = at / 32 % MGC_ROW_RING_WORDS, high = (at / 32 + 1) % MGC_ROW_RING_WORDS;
  return __funnelshift_r(pieces.ring[low], pieces.ring[high], at % 32);
}
