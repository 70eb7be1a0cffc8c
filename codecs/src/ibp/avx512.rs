//! Invariant bit packing with AVX-512: 64 bytes of granules at a time.
//!
//! The bits of a granule are moved byte by byte: a multishift takes eight bits from anywhere in it for each
//! byte, as often as one byte needs bits from different places. The lengths of the granules, summed up, say
//! where each lies in the kept bits.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::bits::{Sink, Source, load, ones};
use super::plan::{Fields, Plan};
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

#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn encode_vectors<const G: usize>(plan: &Plan, phase: usize, raw: &[u8], sink: &mut Sink<'_>) {
    let mut phases = Phases::new(plan, phase, 64);
    let mut pending = _mm512_zextsi128_si512(_mm_cvtsi64_si128(sink.pending as i64));
    let (vectors, rest) = raw.as_chunks();
    for vector in vectors {
        encode_vector::<G>(plan, phases.next(), load512(vector), 64 / G, sink, &mut pending);
    }
    if !rest.is_empty() {
        encode_vector::<G>(plan, phases.next(), load512_partial(rest), rest.len() / G, sink, &mut pending);
    }
    sink.pending = _mm_cvtsi128_si64(_mm512_castsi512_si128(pending)) as u64;
}

/// Encodes the first `count` granules of `raw`, the others of which are zero.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn encode_vector<const G: usize>(
    plan: &Plan,
    phase: usize,
    raw: __m512i,
    count: usize,
    sink: &mut Sink<'_>,
    pending: &mut __m512i,
) {
    let valid = ones(count as u32) as u16;
    let marks = participants::<G>(plan, phase, raw) & valid;
    sink.mark(u64::from(marks), count);
    let savings = savings(plan, phase / G);
    let mut gathered = _mm512_setzero_si512();
    for field in &plan.gather {
        gathered = pick::<G>(gathered, field, phase, raw);
    }
    let bits = 8 * G * count - saved(marks, savings);
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
    append(packed, bits, sink, pending);
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

/// Appends the first `bits` of `packed` to the kept bits; `pending`, in lane 0, is what is not written yet.
#[inline]
#[target_feature(enable = "avx512bw,bmi2")]
fn append(packed: __m512i, bits: usize, sink: &mut Sink<'_>, pending: &mut __m512i) {
    let fill = i64::from(sink.fill);
    let low = _mm512_sllv_epi64(packed, _mm512_set1_epi64(fill));
    let high = _mm512_srlv_epi64(packed, _mm512_set1_epi64(64 - fill));
    // Lane 0 has what goes behind the vector.
    let high = _mm512_alignr_epi64::<7>(high, high);
    let low = _mm512_or_si512(low, *pending);
    let joined = _mm512_mask_or_epi64(low, 0xfe, low, high);
    let room = &mut sink.kept[sink.at..];
    match room.first_chunk_mut() {
        Some(room) => store512(room, joined),
        None => store512_partial(room, joined),
    }
    let end = sink.fill as usize + bits;
    sink.at += end / 64 * 8;
    sink.fill = (end % 64) as u32;
    let next = _mm512_permutex2var_epi64(joined, _mm512_set1_epi64((end / 64) as i64), high);
    *pending = _mm512_maskz_mov_epi64(1, next);
}

#[target_feature(enable = "avx512bw,avx512vl,bmi2,popcnt")]
fn saved_by_vectors<const G: usize>(plan: &Plan, phase: usize, raw: &[u8]) -> usize {
    let mut phases = Phases::new(plan, phase, 64);
    let (vectors, rest) = raw.as_chunks();
    let mut sum = 0;
    for vector in vectors {
        let phase = phases.next();
        let marks = participants::<G>(plan, phase, load512(vector));
        sum += saved(marks, savings(plan, phase / G));
    }
    if !rest.is_empty() {
        let phase = phases.next();
        let valid = ones((rest.len() / G) as u32) as u16;
        let marks = participants::<G>(plan, phase, load512_partial(rest)) & valid;
        sum += saved(marks, savings(plan, phase / G));
    }
    sum
}

/// Granules whose participation bits fit a word that starts within a byte.
const MARKS: usize = 56;

#[target_feature(enable = "avx512bw,bmi2")]
fn saved_in_vectors(plan: &Plan, phase: usize, participation: &[u8], first: usize, count: usize) -> usize {
    let mut phases = Phases::new(plan, phase, MARKS * plan.granule);
    let mut sums = _mm512_setzero_si512();
    for start in (0..count).step_by(MARKS) {
        let place = first + start;
        let marks = load(participation, place / 8) >> (place % 8) & ones((count - start).min(MARKS) as u32);
        let savings = load512(array(&plan.savings[phases.next() / plan.granule..]));
        let saved = _mm512_sad_epu8(_mm512_maskz_mov_epi8(marks, savings), _mm512_setzero_si512());
        sums = _mm512_add_epi64(sums, saved);
    }
    _mm512_reduce_add_epi64(sums) as usize
}

#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn decode_vectors<const G: usize>(plan: &Plan, phase: usize, source: &mut Source<'_>, raw: &mut [u8]) {
    let mut phases = Phases::new(plan, phase, 64);
    let (vectors, rest) = raw.as_chunks_mut();
    for vector in vectors {
        store512(vector, decode_vector::<G>(plan, phases.next(), 64 / G, source));
    }
    if !rest.is_empty() {
        let count = rest.len() / G;
        store512_partial(rest, decode_vector::<G>(plan, phases.next(), count, source));
    }
}

/// The next `count` granules of `source`.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn decode_vector<const G: usize>(
    plan: &Plan,
    phase: usize,
    count: usize,
    source: &mut Source<'_>,
) -> __m512i {
    let marks = (source.marks() & ones(count as u32)) as u16;
    let savings = savings(plan, phase / G);
    let place = source.bit;
    source.granules += count;
    source.bit += 8 * G * count - saved(marks, savings);

    // Where each granule starts, from the byte of the first one on.
    let start = (place % 8) as i32;
    let starts = match G {
        8 => {
            let len = _mm512_set1_epi64(64);
            let lens = _mm512_mask_sub_epi64(len, marks as u8, len, _mm512_cvtepu8_epi64(savings));
            _mm512_add_epi64(sums64(lens), _mm512_set1_epi64(i64::from(start)))
        }
        _ => {
            let len = _mm512_set1_epi32(32);
            let lens = _mm512_mask_sub_epi32(len, marks, len, _mm512_cvtepu8_epi32(savings));
            _mm512_add_epi32(sums32(lens), _mm512_set1_epi32(start))
        }
    };
    let words = words::<G>(source.kept.get(place / 8..).unwrap_or_default(), starts);
    let mut scattered = load512(array(&plan.bitvals[phase..]));
    for field in &plan.scatter {
        scattered = pick::<G>(scattered, field, phase, words);
    }
    match G {
        8 => _mm512_mask_mov_epi64(words, marks as u8, scattered),
        _ => _mm512_mask_mov_epi32(words, marks, scattered),
    }
}

/// The granules that start at these bits of `kept`, whole: behind a shorter one, others follow.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,bmi2")]
fn words<const G: usize>(kept: &[u8], starts: __m512i) -> __m512i {
    let (low, high) = if kept.len() >= 64 + G {
        (load512(array(kept)), load512(array(&kept[G..])))
    } else {
        (load512_partial(kept), load512_partial(kept.get(G..).unwrap_or_default()))
    };
    match G {
        8 => {
            let bytes = byte_places(_mm512_srli_epi64::<3>(starts), SPREAD_8, 0x0706_0504_0302_0100);
            let shifts = _mm512_and_si512(starts, _mm512_set1_epi64(7));
            let [low, high] = [low, high].map(|half| _mm512_permutexvar_epi8(bytes, half));
            _mm512_shrdv_epi64(low, high, shifts)
        }
        _ => {
            let bytes = byte_places(_mm512_srli_epi32::<3>(starts), SPREAD_4, 0x0302_0100_0302_0100);
            let shifts = _mm512_and_si512(starts, _mm512_set1_epi32(7));
            let [low, high] = [low, high].map(|half| _mm512_permutexvar_epi8(bytes, half));
            _mm512_shrdv_epi32(low, high, shifts)
        }
    }
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

/// One bit per granule of `raw`, set where its invariant bits are there.
#[inline]
#[target_feature(enable = "avx512bw")]
fn participants<const G: usize>(plan: &Plan, phase: usize, raw: __m512i) -> u16 {
    let mask = load512(array(&plan.masks[phase..]));
    let bitval = load512(array(&plan.bitvals[phase..]));
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
    let mut starts = load512(array(&field.starts[phase..]));
    if G == 4 {
        // Two granules share a word.
        starts = _mm512_add_epi8(starts, _mm512_set1_epi64(0x2020_2020_0000_0000));
    }
    let keeps = load512(array(&field.keeps[phase..]));
    _mm512_ternarylogic_epi64::<0xf8>(bits, _mm512_multishift_epi64_epi8(starts, granules), keeps)
}

/// What granule `first` and the 15 behind it save.
#[inline]
#[target_feature(enable = "avx512bw")]
fn savings(plan: &Plan, first: usize) -> __m128i {
    let savings: &[u8; 16] = array(&plan.savings[first..]);
    let savings = u128::from_le_bytes(*savings);
    _mm_set_epi64x((savings >> 64) as i64, savings as i64)
}

/// What the marked ones of them save in all.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
fn saved(marks: u16, savings: __m128i) -> usize {
    let sums = _mm_sad_epu8(_mm_maskz_mov_epi8(marks, savings), _mm_setzero_si128());
    (_mm_cvtsi128_si64(sums) + _mm_extract_epi64::<1>(sums)) as usize
}
