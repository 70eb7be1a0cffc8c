//! From granules to bits.

// A vector becomes numbers, and these go to places that are known to be there.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::tables::Walk;
use super::{LINE, each, load, marks_of, valid};
use crate::cpu::prefetch_line;
use crate::ibp::bits::Sink;
use crate::ibp::plan::Plan;

/// Room for the bits of a line and a number behind them.
const ROOM: usize = LINE + 8;

/// Encodes with `P` runs to move, or 0 for the stages.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) fn granules<const G: usize, const P: usize>(
    plan: &Plan,
    phase: usize,
    raw: &[u8],
    sink: &mut Sink<'_>,
) {
    let mut walk = Walk::<P>::new(plan, phase);
    let mut marker = sink.marker();
    let mut end = End { pending: sink.pending, fill: u64::from(sink.fill) };
    let mut at = sink.at;
    // Where the room for the kept bits ends sooner than that of a line.
    let mut spare = [0; ROOM];
    for line in raw.chunks(LINE) {
        // Chunks mostly follow each other, and what a line's length follows from waits for memory.
        prefetch_line(line.as_ptr().wrapping_add(raw.len()));
        let (raw, valid) = (load(line), valid(line.len()));
        let mut marks = 0;
        let mut pieces = [Pieces::default(); 2];
        for (i, place) in walk.places().into_iter().enumerate() {
            let participants = _mm256_and_si256(place.participants::<G>(raw[i]), valid[i]);
            marks |= marks_of::<G>(participants) << (32 / G * i);
            let saved = _mm256_and_si256(place.savings(), participants);
            let lens = _mm256_sub_epi32(_mm256_and_si256(each::<G>(8 * G), valid[i]), saved);
            let bits = _mm256_blendv_epi8(raw[i], place.gather::<G>(raw[i]), participants);
            pieces[i] = Pieces::new::<G>(bits, lens);
        }
        walk.advance();
        marker.mark(sink.participation, marks as u16, line.len() / G);
        let room = &mut sink.kept[at..];
        let len = end.append(&pieces, room.first_chunk_mut().unwrap_or(&mut spare));
        if room.len() < ROOM {
            room[..len].copy_from_slice(&spare[..len]);
        }
        at += len;
    }
    sink.granules += raw.len() / G;
    (sink.at, sink.pending, sink.fill) = (at, end.pending, end.fill as u32);
}

/// Four numbers and how many bits they have; the others are zero.
#[derive(Clone, Copy, Default)]
struct Pieces {
    values: [u64; 4],
    lens: [u64; 4],
}

impl Pieces {
    /// The granules of a vector; two of four bytes make one piece.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new<const G: usize>(mut bits: __m256i, mut lens: __m256i) -> Self {
        if G == 4 {
            let low = _mm256_set1_epi64x(0xffff_ffff);
            let low_lens = _mm256_and_si256(lens, low);
            let high = _mm256_sllv_epi64(_mm256_srli_epi64::<32>(bits), low_lens);
            bits = _mm256_or_si256(_mm256_and_si256(bits, low), high);
            lens = _mm256_add_epi64(low_lens, _mm256_srli_epi64::<32>(lens));
        }
        let mut pieces = Self::default();
        // SAFETY: each array has the 32 bytes that are written.
        unsafe {
            _mm256_storeu_si256(pieces.values.as_mut_ptr().cast(), bits);
            _mm256_storeu_si256(pieces.lens.as_mut_ptr().cast(), lens);
        }
        pieces
    }
}

/// Where the bits end: those that do not fill a number yet, and how many.
#[derive(Clone, Copy)]
struct End {
    pending: u64,
    fill: u64,
}

impl End {
    /// Writes the pieces behind what is pending; returns how many bytes are full.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn append(&mut self, pieces: &[Pieces; 2], room: &mut [u8; ROOM]) -> usize {
        let mut at = 0;
        for i in 0..8 {
            let (value, len) = (pieces[i / 4].values[i % 4], pieces[i / 4].lens[i % 4]);
            let joined = self.pending | value << (self.fill & 63);
            // SAFETY: each piece before moved on by at most 8 bytes, so that at most 64 lie before these 8.
            unsafe { room.as_mut_ptr().add(at).cast::<u64>().write_unaligned(joined.to_le()) };
            let above = value >> 1 >> (!self.fill & 63);
            let fill = self.fill + len;
            at += (fill >> 3 & 8) as usize;
            self.pending = if fill & 64 != 0 { above } else { joined };
            self.fill = fill & 63;
        }
        at
    }
}
