//! Invariant bit packing with AVX-512: 64 bytes of granules at a time.
//!
//! The bits of a granule are moved byte by byte: a multishift takes eight bits from anywhere in it for each
//! byte, as often as one byte needs bits from different places. The lengths of the granules, summed up, say
//! where each lies in the kept bits.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::bits::{self, Sink, Source, ones};
use super::plan::{Fields, Plan, Wrapped};
use crate::Avx512;
use crate::cpu::{array, load512, load512_partial, store512, store512_partial};

pub(super) fn encode(_: Avx512, plan: &Plan, phase: usize, raw: &[u8], sink: &mut Sink<'_>) {
    // SAFETY: the token says that this machine has the instructions.
    unsafe {
        match plan.granule {
            8 => encode_vectors::<8>(plan, phase, raw, sink),
            _ => encode_vectors::<4>(plan, phase, raw, sink),
        }
    }
}

pub(super) fn saved_by(_: Avx512, plan: &Plan, phase: usize, raw: &[u8]) -> usize {
    // SAFETY: as above.
    unsafe {
        match plan.granule {
            8 => saved_by_vectors::<8>(plan, phase, raw),
            _ => saved_by_vectors::<4>(plan, phase, raw),
        }
    }
}

pub(super) fn saved_in(
    _: Avx512,
    plan: &Plan,
    phase: usize,
    participation: &[u8],
    first: usize,
    count: usize,
) -> usize {
    // SAFETY: as above.
    unsafe { saved_in_vectors(plan, phase, participation, first, count) }
}

pub(super) fn decode(_: Avx512, plan: &Plan, phase: usize, source: &mut Source<'_>, raw: &mut [u8]) {
    // SAFETY: as above.
    unsafe {
        match plan.granule {
            8 => decode_vectors::<8>(plan, phase, source, raw),
            _ => decode_vectors::<4>(plan, phase, source, raw),
        }
    }
}

/// The phases of one vector after the other.
struct Phases {
    phase: usize,
    period: usize,
    step: usize,
}

impl Phases {
    fn new(plan: &Plan, phase: usize, step: usize) -> Self {
        Self { phase, period: plan.period, step: step % plan.period.max(1) }
    }

    #[inline(always)]
    fn next(&mut self) -> usize {
        let phase = self.phase;
        self.phase += self.step;
        if self.phase >= self.period {
            self.phase -= self.period;
        }
        phase
    }
}

/// Granules whose participation bits are handled together: a whole number of vectors, and few enough that
/// their bits fit a word that starts within a byte.
const GROUP: usize = 48;

#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn encode_vectors<const G: usize>(plan: &Plan, phase: usize, raw: &[u8], sink: &mut Sink<'_>) {
    let mut phases = Phases::new(plan, phase, 64);
    let (mut at, mut fill) = (sink.at, sink.fill as usize);
    let mut pending = _mm512_zextsi128_si512(_mm_cvtsi64_si128(sink.pending as i64));
    for group in raw.chunks(GROUP * G) {
        let mut group_marks = 0;
        for (index, vector) in group.chunks(64).enumerate() {
            let count = vector.len() / G;
            let (packed, marks) = encode_vector::<G>(plan, phases.next(), load(vector), count);
            group_marks |= u64::from(marks.bits) << (64 / G * index);
            let bits = fill + 8 * G * count - marks.saved;

            let (joined, next) = append(packed, fill, bits, pending);
            let room = &mut sink.kept[at..];
            match room.first_chunk_mut() {
                Some(room) => store512(room, joined),
                None => store512_partial(room, joined),
            }
            (at, fill, pending) = (at + bits / 64 * 8, bits % 64, next);
        }
        sink.mark(group_marks, group.len() / G);
    }
    (sink.at, sink.fill) = (at, fill as u32);
    sink.pending = _mm_cvtsi128_si64(_mm512_castsi512_si128(pending)) as u64;
}

/// Which granules of a vector participate, and how many bits that saves.
struct Marks {
    bits: u16,
    saved: usize,
}

/// The kept bits of the first `count` granules of `raw`, the others of which are zero.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn encode_vector<const G: usize>(plan: &Plan, phase: usize, raw: __m512i, count: usize) -> (__m512i, Marks) {
    let valid = ones(count as u32) as u16;
    let marks = participants::<G>(plan, phase, raw) & valid;
    let savings = savings::<G>(plan, phase);
    let mut gathered = _mm512_setzero_si512();
    for field in &plan.gather {
        gathered = pick::<G>(gathered, field, phase, raw);
    }
    let packed = match G {
        8 => {
            let lens = _mm512_maskz_set1_epi64(valid as u8, 64);
            let lens = _mm512_mask_sub_epi64(lens, marks as u8, lens, _mm512_cvtepu8_epi64(savings));
            join64(_mm512_mask_mov_epi64(raw, marks as u8, gathered), lens)
        }
        _ => {
            let lens = _mm512_maskz_set1_epi32(valid, 32);
            let lens = _mm512_mask_sub_epi32(lens, marks, lens, _mm512_cvtepu8_epi32(savings));
            join32(_mm512_mask_mov_epi32(raw, marks, gathered), lens)
        }
    };
    (packed, Marks { bits: marks, saved: saved::<G>(marks, savings) })
}

/// Sixteen pieces of up to 32 bits of the given lengths, one behind the other. All other bits are zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn join32(pieces: __m512i, lens: __m512i) -> __m512i {
    let low = _mm512_set1_epi64(0xffff_ffff);
    let low_lens = _mm512_and_si512(lens, low);
    let high = _mm512_sllv_epi64(_mm512_srli_epi64::<32>(pieces), low_lens);
    let pieces = _mm512_ternarylogic_epi64::<0xea>(pieces, low, high); // (pieces & low) | high
    join64(pieces, _mm512_add_epi64(low_lens, _mm512_srli_epi64::<32>(lens)))
}

/// Eight pieces of up to 64 bits of the given lengths, one behind the other. All other bits are zero.
///
/// Pieces become pairs, pairs become halves, halves become one: the upper part moves down to where the lower
/// one ends, by words and by bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn join64(pieces: __m512i, lens: __m512i) -> __m512i {
    let word = _mm512_set1_epi64(64);
    // Of each pair, the lower length and the upper piece.
    let len = _mm512_unpacklo_epi64(lens, lens);
    let upper = _mm512_unpackhi_epi64(pieces, pieces);
    let low = _mm512_or_si512(pieces, _mm512_sllv_epi64(upper, len));
    let pairs = _mm512_mask_srlv_epi64(low, 0xaa, upper, _mm512_sub_epi64(word, len));
    let pair_lens = _mm512_add_epi64(lens, _mm512_shuffle_epi32::<0x4e>(lens));

    // Of each half, the length of its lower pair: one word is skipped from 65 bits up.
    let len = _mm512_permutex_epi64::<0>(pair_lens);
    let skips = _mm512_cmpgt_epi64_mask(len, word);
    let shift = _mm512_mask_sub_epi64(len, skips, len, word);
    let places = _mm512_setr_epi64(2, 3, 4, 5, 6, 7, 8, 9);
    let places = _mm512_mask_sub_epi64(places, skips, places, _mm512_set1_epi64(1));
    let halves = drop_down(pairs, 0xcc, shift, places);
    let half_lens = _mm512_add_epi64(pair_lens, _mm512_permutex_epi64::<0x4e>(pair_lens));

    let len = _mm512_broadcastq_epi64(_mm512_castsi512_si128(half_lens));
    let shift = _mm512_and_si512(len, _mm512_set1_epi64(63));
    let places = _mm512_setr_epi64(4, 5, 6, 7, 8, 9, 10, 11);
    let places = _mm512_sub_epi64(places, _mm512_srli_epi64::<6>(len));
    drop_down(halves, 0xf0, shift, places)
}

/// The lower lanes of `parts` and, moved up by `shift` of up to 64 bits, the `upper` ones: lane i takes the low
/// part of lane `places[i]` and the high part of the one before. Places modulo 8 that are no upper lanes are
/// empty.
#[inline]
#[target_feature(enable = "avx512f")]
fn drop_down(parts: __m512i, upper: u8, shift: __m512i, places: __m512i) -> __m512i {
    let low = _mm512_maskz_sllv_epi64(upper, parts, shift);
    let high = _mm512_maskz_srlv_epi64(upper, parts, _mm512_sub_epi64(_mm512_set1_epi64(64), shift));
    let low = _mm512_permutexvar_epi64(places, low);
    let high = _mm512_permutexvar_epi64(_mm512_sub_epi64(places, _mm512_set1_epi64(1)), high);
    let lower = _mm512_maskz_mov_epi64(!upper, parts);
    _mm512_ternarylogic_epi64::<0xfe>(lower, low, high)
}

/// The `fill` bits of `pending`, in lane 0, and `packed` behind them, `bits` in all; and the last of them, which
/// do not fill a word, in lane 0.
#[inline]
#[target_feature(enable = "avx512f")]
fn append(packed: __m512i, fill: usize, bits: usize, pending: __m512i) -> (__m512i, __m512i) {
    let shift = _mm512_set1_epi64(fill as i64);
    let low = _mm512_or_si512(_mm512_sllv_epi64(packed, shift), pending);
    let high = _mm512_srlv_epi64(packed, _mm512_sub_epi64(_mm512_set1_epi64(64), shift));
    // Lane 0 has what goes behind the vector.
    let high = _mm512_alignr_epi64::<7>(high, high);
    let joined = _mm512_mask_or_epi64(low, 0xfe, low, high);
    let last = _mm512_zextsi128_si512(_mm_cvtsi64_si128((bits / 64) as i64));
    (joined, _mm512_maskz_permutex2var_epi64(1, joined, last, high))
}

#[target_feature(enable = "avx512bw,avx512vl,bmi2,popcnt")]
fn saved_by_vectors<const G: usize>(plan: &Plan, phase: usize, raw: &[u8]) -> usize {
    let mut phases = Phases::new(plan, phase, 64);
    let mut sum = 0;
    for vector in raw.chunks(64) {
        let phase = phases.next();
        let marks = participants::<G>(plan, phase, load(vector)) & ones((vector.len() / G) as u32) as u16;
        sum += saved::<G>(marks, savings::<G>(plan, phase));
    }
    sum
}

#[target_feature(enable = "avx512bw,bmi2")]
fn saved_in_vectors(plan: &Plan, phase: usize, participation: &[u8], first: usize, count: usize) -> usize {
    let mut phases = Phases::new(plan, phase, GROUP * plan.granule);
    let mut sums = _mm512_setzero_si512();
    for start in (0..count).step_by(GROUP) {
        let marks = marks_at(participation, first + start) & ones((count - start).min(GROUP) as u32);
        let savings = vector_at(&plan.savings, phases.next() / plan.granule);
        let saved = _mm512_sad_epu8(_mm512_maskz_mov_epi8(marks, savings), _mm512_setzero_si512());
        sums = _mm512_add_epi64(sums, saved);
    }
    _mm512_reduce_add_epi64(sums) as usize
}

#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn decode_vectors<const G: usize>(plan: &Plan, phase: usize, source: &mut Source<'_>, raw: &mut [u8]) {
    let mut phases = Phases::new(plan, phase, 64);
    let mut bit = source.bit;
    for group in raw.chunks_mut(GROUP * G) {
        let mut marks = marks_at(source.participation, source.granules);
        source.granules += group.len() / G;
        for vector in group.chunks_mut(64) {
            let (phase, count) = (phases.next(), vector.len() / G);
            let these = (marks & ones(count as u32)) as u16;
            marks >>= 64 / G;
            let savings = savings::<G>(plan, phase);
            let (kept, start) = (source.kept.get(bit / 8..).unwrap_or_default(), bit % 8);
            bit += 8 * G * count - saved::<G>(these, savings);
            let decoded = decode_vector::<G>(plan, phase, these, savings, kept, start);
            match vector.first_chunk_mut() {
                Some(vector) => store512(vector, decoded),
                None => store512_partial(vector, decoded),
            }
        }
    }
    source.bit = bit;
}

/// The granules of a vector of which `marks` participate. The first starts `start` bits into `kept`.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn decode_vector<const G: usize>(
    plan: &Plan,
    phase: usize,
    marks: u16,
    savings: __m128i,
    kept: &[u8],
    start: usize,
) -> __m512i {
    // Where each granule starts, and its words: whole, so that behind a shorter one others follow.
    let words = match G {
        8 => {
            let len = _mm512_set1_epi64(64);
            let lens = _mm512_mask_sub_epi64(len, marks as u8, len, _mm512_cvtepu8_epi64(savings));
            let starts = _mm512_add_epi64(sums64(lens), _mm512_set1_epi64(start as i64));
            let bytes = byte_places(_mm512_srli_epi64::<3>(starts), SPREAD_8, 0x0706_0504_0302_0100);
            let shifts = _mm512_and_si512(starts, _mm512_set1_epi64(7));
            let [low, high] = windows::<G>(kept).map(|window| _mm512_permutexvar_epi8(bytes, window));
            _mm512_shrdv_epi64(low, high, shifts)
        }
        _ => {
            let len = _mm512_set1_epi32(32);
            let lens = _mm512_mask_sub_epi32(len, marks, len, _mm512_cvtepu8_epi32(savings));
            let starts = _mm512_add_epi32(sums32(lens), _mm512_set1_epi32(start as i32));
            let bytes = byte_places(_mm512_srli_epi32::<3>(starts), SPREAD_4, 0x0302_0100_0302_0100);
            let shifts = _mm512_and_si512(starts, _mm512_set1_epi32(7));
            let [low, high] = windows::<G>(kept).map(|window| _mm512_permutexvar_epi8(bytes, window));
            _mm512_shrdv_epi32(low, high, shifts)
        }
    };
    let mut scattered = vector_at(&plan.bitvals, phase);
    for field in &plan.scatter {
        scattered = pick::<G>(scattered, field, phase, words);
    }
    match G {
        8 => _mm512_mask_mov_epi64(words, marks as u8, scattered),
        _ => _mm512_mask_mov_epi32(words, marks, scattered),
    }
}

/// The first 64 bytes, and 64 from a granule's length on; zeros behind the end. No granule starts behind the
/// first ones, so none ends behind the others.
#[inline]
#[target_feature(enable = "avx512bw,bmi2")]
fn windows<const G: usize>(kept: &[u8]) -> [__m512i; 2] {
    if kept.len() >= 64 + G {
        [load512(array(kept)), load512(array(&kept[G..]))]
    } else {
        [load512_partial(kept), load512_partial(kept.get(G..).unwrap_or_default())]
    }
}

/// The participation bits from granule `first` on, at least 57 or all that are left.
#[inline]
fn marks_at(participation: &[u8], first: usize) -> u64 {
    bits::load(participation, first / 8) >> (first % 8)
}

/// Shuffles that copy the low byte of each number to all of its bytes.
const SPREAD_8: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8];
const SPREAD_4: [u8; 16] = [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12];

/// The places of all bytes of the numbers that start at byte `starts`.
#[inline]
#[target_feature(enable = "avx512bw")]
fn byte_places(starts: __m512i, spread: [u8; 16], steps: i64) -> __m512i {
    let spread = u128::from_le_bytes(spread);
    let spread = _mm512_broadcast_i32x4(_mm_set_epi64x((spread >> 64) as i64, spread as i64));
    _mm512_add_epi8(_mm512_shuffle_epi8(starts, spread), _mm512_set1_epi64(steps))
}

/// For each lane the sum of those before it.
#[inline]
#[target_feature(enable = "avx512f")]
fn sums64(lens: __m512i) -> __m512i {
    let zero = _mm512_setzero_si512();
    let sums = _mm512_alignr_epi64::<7>(lens, zero);
    let sums = _mm512_add_epi64(sums, _mm512_alignr_epi64::<7>(sums, zero));
    let sums = _mm512_add_epi64(sums, _mm512_alignr_epi64::<6>(sums, zero));
    _mm512_add_epi64(sums, _mm512_alignr_epi64::<4>(sums, zero))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sums32(lens: __m512i) -> __m512i {
    let zero = _mm512_setzero_si512();
    let sums = _mm512_alignr_epi32::<15>(lens, zero);
    let sums = _mm512_add_epi32(sums, _mm512_alignr_epi32::<15>(sums, zero));
    let sums = _mm512_add_epi32(sums, _mm512_alignr_epi32::<14>(sums, zero));
    let sums = _mm512_add_epi32(sums, _mm512_alignr_epi32::<12>(sums, zero));
    _mm512_add_epi32(sums, _mm512_alignr_epi32::<8>(sums, zero))
}

/// Up to 64 bytes, zeros behind the end.
#[inline]
#[target_feature(enable = "avx512bw,bmi2")]
fn load(bytes: &[u8]) -> __m512i {
    match bytes.first_chunk() {
        Some(whole) => load512(whole),
        None => load512_partial(bytes),
    }
}

/// One bit per granule of `raw`, set where its invariant bits are there.
#[inline]
#[target_feature(enable = "avx512bw")]
fn participants<const G: usize>(plan: &Plan, phase: usize, raw: __m512i) -> u16 {
    let (mask, bitval) = (vector_at(&plan.masks, phase), vector_at(&plan.bitvals, phase));
    let others = _mm512_ternarylogic_epi64::<0x6a>(raw, mask, bitval); // (raw & mask) ^ bitval
    match G {
        8 => u16::from(_mm512_testn_epi64_mask(others, others)),
        _ => _mm512_testn_epi32_mask(others, others),
    }
}

/// `bits` and those that `field` takes from the granules.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi")]
fn pick<const G: usize>(bits: __m512i, field: &Fields, phase: usize, granules: __m512i) -> __m512i {
    let mut starts = vector_at(&field.starts, phase);
    if G == 4 {
        // Two granules share a word.
        starts = _mm512_add_epi8(starts, _mm512_set1_epi64(0x2020_2020_0000_0000));
    }
    let keeps = vector_at(&field.keeps, phase);
    _mm512_ternarylogic_epi64::<0xf8>(bits, _mm512_multishift_epi64_epi8(starts, granules), keeps)
}

/// What each granule of a vector saves.
#[inline]
#[target_feature(enable = "avx512bw")]
fn savings<const G: usize>(plan: &Plan, phase: usize) -> __m128i {
    let place = plan.savings.place(phase / G);
    // SAFETY: a place in a table has 64 bytes behind it.
    unsafe {
        match G {
            8 => _mm_loadl_epi64(place.cast()),
            _ => _mm_loadu_si128(place.cast()),
        }
    }
}

/// What the marked ones of them save in all.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
fn saved<const G: usize>(marks: u16, savings: __m128i) -> usize {
    let sums = _mm_sad_epu8(_mm_maskz_mov_epi8(marks, savings), _mm_setzero_si128());
    let upper = if G == 4 { _mm_extract_epi64::<1>(sums) } else { 0 };
    (_mm_cvtsi128_si64(sums) + upper) as usize
}

/// 64 bytes of a table.
#[inline]
#[target_feature(enable = "avx512bw")]
fn vector_at(table: &Wrapped, phase: usize) -> __m512i {
    // SAFETY: a place in a table has 64 bytes behind it.
    unsafe { _mm512_loadu_si512(table.place(phase).cast()) }
}
