//! FPC with AVX2: patterns of two lines at a time are masks of their 32 words, and 16 lines are sorted out at once.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

mod decode;
mod prefixes;

use std::arch::x86_64::*;

use self::decode::decode_chunk;
use self::prefixes::plan_block;
use super::plan::{self, Plan, plans};
use super::{PLANES_LEN, Totals};
use crate::Avx2;
use crate::chunk::ChunkError;
use crate::line::avx2::{Packer, keep_bits, load_words, low_bytes, put_bytes, put_halves, put_words};
use crate::line::blocks::{Blocks, align, room_at, write_kinds};
use crate::line::line_count;

pub(super) fn encode(_: Avx2, raw: &[u8], coded: &mut [u8]) -> usize {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode_chunk(raw, coded) }
}

pub(super) fn totals(_: Avx2, raw: &[u8]) -> Totals {
    // SAFETY: as above.
    unsafe { add_up_chunk(raw) }
}

pub(super) fn decode(_: Avx2, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
    // SAFETY: as above.
    unsafe { decode_chunk(coded, raw) }
}

#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn encode_chunk(raw: &[u8], coded: &mut [u8]) -> usize {
    let blocks = Blocks::of(raw);
    let plans = plans(&blocks, |block, plan| plan_block(block, plan));
    let kinds = plans.iter().map(|plan| plan.kinds);
    let mut at = write_kinds(line_count(raw.len()), kinds, keep_bits, coded);
    at = align(coded, at, 2);
    for plan in &plans {
        at = put_planes(plan, coded, at);
    }
    at = align(coded, at, 4);
    for (block, plan) in blocks.iter().zip(&plans).filter(|(_, plan)| plan.count.words > 0) {
        at = put_words(block, &plan.fields.words, plan.count.words, coded, at);
    }
    for (block, plan) in blocks.iter().zip(&plans).filter(|(_, plan)| plan.count.halves > 0) {
        for (line, &mask) in block.iter().zip(&plan.fields.halves.0) {
            at =
                put_halves([half_data(load_words(line, 0)), half_data(load_words(line, 1))], mask, coded, at);
        }
    }
    for (block, plan) in blocks.iter().zip(&plans).filter(|(_, plan)| plan.count.bytes > 0) {
        for (line, &mask) in block.iter().zip(&plan.fields.bytes.0) {
            at = put_bytes(low_bytes(line), mask, coded, at);
        }
    }
    let mut nibbles = Packer::<4>::new();
    for (block, plan) in blocks.iter().zip(&plans).filter(|(_, plan)| plan.count.nibbles > 0) {
        nibbles.push_block(&plan.fields.nibbles, |line| {
            _mm_and_si128(low_bytes(&block[line]), _mm_set1_epi8(0xf))
        });
        at = nibbles.flush(coded, at);
    }
    nibbles.finish(coded, at)
}

#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn add_up_chunk(raw: &[u8]) -> Totals {
    plan::totals(raw, |block, plan| plan_block(block, plan))
}

/// Writes the planes of the coded lines; returns where they end.
#[inline(always)]
fn put_planes(plan: &Plan, out: &mut [u8], mut at: usize) -> usize {
    let [low, middle, high] = &plan.planes;
    let mut coded = plan.kinds.coded;
    while coded != 0 {
        let line = coded.trailing_zeros() as usize;
        let planes = [low.0[line], middle.0[line], high.0[line]].map(u16::to_le_bytes);
        room_at::<PLANES_LEN>(out, at).copy_from_slice(planes.as_flattened());
        at += PLANES_LEN;
        coded &= coded - 1;
    }
    at
}

/// What the halfwords section stores of a word of prefix 5, 6 or 7, in its low half.
#[inline]
#[target_feature(enable = "avx2")]
fn half_data(words: __m256i) -> __m256i {
    let low_half_up = _mm256_slli_epi32::<16>(words);
    let signed_16 = _mm256_cmpeq_epi32(words, _mm256_srai_epi32::<16>(low_half_up));
    let low_half_zero = _mm256_cmpeq_epi32(low_half_up, _mm256_setzero_si256());
    let low_bytes = _mm256_shuffle_epi8(words, word_control([0, 2, -1, -1]));
    let upper_half = _mm256_srli_epi32::<16>(words);
    let data = _mm256_blendv_epi8(low_bytes, words, signed_16);
    _mm256_blendv_epi8(data, upper_half, low_half_zero)
}

/// The control of a byte shuffle inside each word; `control` is that of word 0.
#[inline]
#[target_feature(enable = "avx2")]
fn word_control(control: [i8; 4]) -> __m256i {
    let first = _mm256_set1_epi32(i32::from_le_bytes(control.map(|byte| byte as u8)));
    let of_word = |word| word * 0x0404_0404;
    // Bytes of −1 stay negative.
    _mm256_or_si256(first, _mm256_broadcastsi128_si256(_mm_setr_epi32(0, of_word(1), of_word(2), of_word(3))))
}
