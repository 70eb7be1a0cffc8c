//! Invariant bit packing with AVX-512: 64 bytes of granules at a time.
//!
//! The bits of a granule are moved byte by byte: a multishift takes eight bits from anywhere in it for each
//! byte, as often as one byte needs bits from different places. The lengths of the granules, summed up, say
//! where each lies in the kept bits.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

mod decode;
mod encode;
mod fields;
mod join;
mod row;
mod tables;
mod tally;

use std::arch::x86_64::*;

pub(super) use self::fields::add_tables;
pub(super) use self::row::Row;
use self::tables::{GATHER, Phases, Tables};
use super::bits::{self, Sink, Source, ones};
use super::counts::Counts;
use super::plan::Plan;
use super::tally::{Participants, SampleRow, Thresholds};
use crate::Avx512;
use crate::cpu::{load512, load512_partial};

pub(super) fn encode(_: Avx512, plan: &Plan, phase: usize, raw: &[u8], sink: &mut Sink<'_>) {
    let encode = match (plan.granule, plan.gather.count) {
        (8, 1) => encode::vectors::<8, 1>,
        (8, 2) => encode::vectors::<8, 2>,
        (8, 3) => encode::vectors::<8, 3>,
        (8, 4) => encode::vectors::<8, 4>,
        (8, _) => encode::vectors::<8, 8>,
        (_, 1) => encode::vectors::<4, 1>,
        (_, 2) => encode::vectors::<4, 2>,
        (_, 3) => encode::vectors::<4, 3>,
        (_, 4) => encode::vectors::<4, 4>,
        (_, _) => encode::vectors::<4, 8>,
    };
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode(plan, phase, raw, sink) }
}

pub(super) fn decode(_: Avx512, plan: &Plan, phase: usize, source: &mut Source<'_>, raw: &mut [u8]) {
    let decode = match (plan.granule, plan.scatter.count) {
        (8, 1) => decode::vectors::<8, 1>,
        (8, 2) => decode::vectors::<8, 2>,
        (8, 3) => decode::vectors::<8, 3>,
        (8, _) => decode::vectors::<8, 4>,
        (_, 1) => decode::vectors::<4, 1>,
        (_, 2) => decode::vectors::<4, 2>,
        (_, 3) => decode::vectors::<4, 3>,
        (_, _) => decode::vectors::<4, 4>,
    };
    // SAFETY: as above.
    unsafe { decode(plan, phase, source, raw) }
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

pub(super) fn set_bits(_: Avx512, rows: &[SampleRow]) -> Counts {
    // SAFETY: as above.
    unsafe { tally::set_bits(rows) }
}

pub(super) fn participants(_: Avx512, thresholds: &Thresholds, rows: &[SampleRow]) -> Participants {
    // SAFETY: as above.
    unsafe { tally::participants(thresholds, rows) }
}

#[target_feature(enable = "avx512bw,avx512vl,bmi2,popcnt")]
fn saved_by_vectors<const G: usize>(plan: &Plan, phase: usize, raw: &[u8]) -> usize {
    let mut phases = Phases::new(plan, phase, 64);
    let mut tables = Tables::<0>::none();
    let mut sum = 0;
    for vector in raw.chunks(64) {
        if let Some(phase) = phases.next() {
            tables = Tables::at::<G, GATHER>(plan, phase);
        }
        let marks = tables.participants::<G>(load(vector)) & ones((vector.len() / G) as u32) as u16;
        sum += saved::<G>(marks, tables.savings);
    }
    sum
}

#[target_feature(enable = "avx512bw,bmi2")]
fn saved_in_vectors(plan: &Plan, phase: usize, participation: &[u8], first: usize, count: usize) -> usize {
    /// Granules whose participation bits fit a word that starts within a byte.
    const GROUP: usize = 48;
    let mut phases = Phases::new(plan, phase, GROUP * plan.granule);
    let (mut sums, mut savings) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for start in (0..count).step_by(GROUP) {
        let place = first + start;
        let marks = bits::load(participation, place / 8) >> (place % 8);
        let marks = marks & ones((count - start).min(GROUP) as u32);
        if let Some(phase) = phases.next() {
            savings = tables::savings(plan, phase);
        }
        let saved = _mm512_sad_epu8(_mm512_maskz_mov_epi8(marks, savings), _mm512_setzero_si512());
        sums = _mm512_add_epi64(sums, saved);
    }
    _mm512_reduce_add_epi64(sums) as usize
}

/// What the marked ones of the granules with these savings save in all.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
fn saved<const G: usize>(marks: u16, savings: __m128i) -> usize {
    let sums = _mm_sad_epu8(_mm_maskz_mov_epi8(marks, savings), _mm_setzero_si128());
    let upper = if G == 4 { _mm_extract_epi64::<1>(sums) } else { 0 };
    (_mm_cvtsi128_si64(sums) + upper) as usize
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
