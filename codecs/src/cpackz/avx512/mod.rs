//! C-Pack+Z with AVX-512: the earlier words of a line that a word may refer to are found at once, since only the
//! first word with an upper halfword can be in the dictionary.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

mod decode;
mod plan;
mod tokens;

use std::arch::x86_64::*;

use self::decode::decode_chunk;
use self::plan::plan_block;
use super::plan::{Plan, plans};
use super::{PLANES_LEN, Totals, portable};
use crate::Avx512;
use crate::chunk::ChunkError;
use crate::cpu::load512;
use crate::line::avx512::{Packer, load_masks, load_xmm, put_bytes, put_halves, put_words, store_at};
use crate::line::blocks::{Blocks, Masks, align, write_kinds};
use crate::line::line_count;

pub(super) fn encode(_: Avx512, raw: &[u8], coded: &mut [u8]) -> usize {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode_chunk(raw, coded) }
}

pub(super) fn totals(_: Avx512, raw: &[u8]) -> Totals {
    // SAFETY: as above.
    unsafe { add_up_chunk(raw) }
}

pub(super) fn decode(_: Avx512, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
    // SAFETY: as above.
    match unsafe { decode_chunk(coded, raw) } {
        Ok(true) => Ok(()),
        // The definition knows which tag or index it is.
        Ok(false) => portable::decode(coded, raw),
        Err(error) => Err(error),
    }
}

#[target_feature(enable = "avx512bw,avx512cd,avx512vl,avx512vbmi2,avx512bitalg,avx512vpopcntdq,bmi2,popcnt")]
fn encode_chunk(raw: &[u8], coded: &mut [u8]) -> usize {
    let blocks = Blocks::of(raw);
    let plans = plans(&blocks, |block, plan, indices| plan_block(block, plan, indices));
    let kinds = plans.iter().map(|(plan, _)| plan.kinds);
    let mut at = write_kinds(line_count(raw.len()), kinds, |raw, lines| _pext_u32(raw, lines), coded);
    at = align(coded, at, 2);
    for (plan, _) in &plans {
        at = put_codes(plan, coded, at);
    }
    let mut subcodes = Packer::<2>::new();
    for (plan, _) in plans.iter().filter(|(plan, _)| plan.extended_count > 0) {
        let [low, high] = &plan.subcodes;
        subcodes.push_block(&plan.extended, |line| {
            let low = _mm_maskz_set1_epi8(low.0[line], 1);
            _mm_mask_add_epi8(low, high.0[line], low, _mm_set1_epi8(2))
        });
        at = subcodes.flush(coded, at);
    }
    at = subcodes.finish(coded, at);
    at = align(coded, at, 4);
    for (block, (plan, _)) in blocks.iter().zip(&plans).filter(|(_, (plan, _))| plan.count.words > 0) {
        at = put_words(block, &plan.fields.words, plan.count.words, coded, at);
    }
    for (block, (plan, _)) in blocks.iter().zip(&plans).filter(|(_, (plan, _))| plan.count.halves > 0) {
        for (line, &mask) in block.iter().zip(&plan.fields.halves.0) {
            at = put_halves(load512(line), mask, coded, at);
        }
    }
    for (block, (plan, _)) in blocks.iter().zip(&plans).filter(|(_, (plan, _))| plan.count.bytes > 0) {
        at = put_bytes(block, &plan.fields.bytes, coded, at);
    }
    let mut nibbles = Packer::<4>::new();
    for (plan, indices) in plans.iter().filter(|(plan, _)| plan.count.nibbles > 0) {
        nibbles.push_block(&plan.fields.nibbles, |line| load_xmm(&indices[line]));
        at = nibbles.flush(coded, at);
    }
    nibbles.finish(coded, at)
}

#[target_feature(enable = "avx512bw,avx512cd,avx512vl,avx512bitalg,avx512vpopcntdq,popcnt")]
fn add_up_chunk(raw: &[u8]) -> Totals {
    super::plan::totals(raw, |block, plan, indices| plan_block(block, plan, indices))
}

/// The lanes of two planes, line by line; from 32 on they are those of the second plane.
static INTERLEAVE: [Masks; 2] = interleave();

const fn interleave() -> [Masks; 2] {
    let mut lanes = [Masks::NONE; 2];
    let mut at = 0;
    while at < 64 {
        lanes[at / 32].0[at % 32] = (at / 2 + at % 2 * 32) as u16;
        at += 1;
    }
    lanes
}

/// Writes the code planes of the coded lines; returns where they end.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
fn put_codes(plan: &Plan, out: &mut [u8], at: usize) -> usize {
    let coded = plan.kinds.coded;
    let low = _mm512_maskz_compress_epi16(coded, load_masks(&plan.codes[0]));
    let high = _mm512_maskz_compress_epi16(coded, load_masks(&plan.codes[1]));
    store_at(out, at, _mm512_permutex2var_epi16(low, load_masks(&INTERLEAVE[0]), high));
    store_at(out, at + 64, _mm512_permutex2var_epi16(low, load_masks(&INTERLEAVE[1]), high));
    at + PLANES_LEN * coded.count_ones() as usize
}
