//! From granules to bits.

use std::arch::x86_64::*;

use super::join::{append, join32, join64};
use super::tables::{GATHER, Phases, Tables};
use super::{load, saved};
use crate::cpu::{prefetch_line, store512, store512_partial};
use crate::ibp::bits::{Sink, ones};
use crate::ibp::plan::Plan;

/// Encodes with tables of `P` fields.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) fn vectors<const G: usize, const P: usize>(
    plan: &Plan,
    phase: usize,
    raw: &[u8],
    sink: &mut Sink<'_>,
) {
    let mut phases = Phases::new(plan, phase, 64);
    let mut tables = Tables::<P>::none();
    let mut marker = sink.marker();
    let (mut at, mut fill) = (sink.at, sink.fill as usize);
    let mut pending = _mm512_zextsi128_si512(_mm_cvtsi64_si128(sink.pending as i64));
    for vector in raw.chunks(64) {
        if let Some(phase) = phases.next() {
            tables = Tables::at::<G, GATHER>(plan, phase);
        }
        let count = vector.len() / G;
        let valid = ones(count as u32) as u16;
        // Chunks mostly follow each other, and what a vector's length follows from waits for memory.
        prefetch_line(vector.as_ptr().wrapping_add(raw.len()));
        let vector = load(vector);
        let marks = tables.participants::<G>(vector) & valid;
        marker.mark(sink.participation, marks, count);
        let packed = pack::<G, P>(&tables, vector, marks, valid);

        let bits = fill + 8 * G * count - saved::<G>(marks, tables.savings);
        let (joined, next) = append(packed, fill, bits, pending);
        let room = &mut sink.kept[at..];
        match room.first_chunk_mut() {
            Some(room) => store512(room, joined),
            None => store512_partial(room, joined),
        }
        (at, fill, pending) = (at + bits / 64 * 8, bits % 64, next);
    }
    sink.granules += raw.len() / G;
    (sink.at, sink.fill) = (at, fill as u32);
    sink.pending = _mm_cvtsi128_si64(_mm512_castsi512_si128(pending)) as u64;
}

/// The kept bits of the `valid` granules of `raw`, of which `marks` participate. The others are zero.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
fn pack<const G: usize, const P: usize>(tables: &Tables<P>, raw: __m512i, marks: u16, valid: u16) -> __m512i {
    let gathered = tables.pick(_mm512_setzero_si512(), raw);
    let saved = _mm256_cvtepu8_epi16(_mm_maskz_mov_epi8(marks, tables.savings));
    let lens = _mm256_maskz_sub_epi16(valid, _mm256_set1_epi16(8 * G as i16), saved);
    if G == 8 {
        join64(_mm512_mask_mov_epi64(raw, marks as u8, gathered), _mm256_castsi256_si128(lens))
    } else {
        join32(_mm512_mask_mov_epi32(raw, marks, gathered), lens)
    }
}
