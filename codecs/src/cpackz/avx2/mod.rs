//! C-Pack+Z with AVX2: every word of a line is compared with every other, of which the first one with the same
//! upper halfword is the one that may be in the dictionary.

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
use crate::Avx2;
use crate::chunk::ChunkError;
use crate::line::avx2::{
    Packer, bytes_of, keep_bits, load_words, load128, low_bytes, put_bytes, put_halves, put_words,
};
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
    match unsafe { decode_chunk(coded, raw) } {
        Ok(true) => Ok(()),
        // The definition knows which tag or index it is.
        Ok(false) => portable::decode(coded, raw),
        Err(error) => Err(error),
    }
}

#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn encode_chunk(raw: &[u8], coded: &mut [u8]) -> usize {
    let blocks = Blocks::of(raw);
    let plans = plans(&blocks, |block, plan, indices| plan_block::<true>(block, plan, indices));
    let kinds = plans.iter().map(|(plan, _)| plan.kinds);
    let mut at = write_kinds(line_count(raw.len()), kinds, keep_bits, coded);
    at = align(coded, at, 2);
    for (plan, _) in &plans {
        at = put_codes(plan, coded, at);
    }
    let mut subcodes = Packer::<2>::new();
    for (plan, _) in plans.iter().filter(|(plan, _)| plan.extended_count > 0) {
        let [low, high] = &plan.subcodes;
        subcodes.push_block(&plan.extended, |line| {
            let high = _mm_and_si128(bytes_of(high.0[line]), _mm_set1_epi8(2));
            _mm_sub_epi8(high, bytes_of(low.0[line]))
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
            at = put_halves([load_words(line, 0), load_words(line, 1)], mask, coded, at);
        }
    }
    for (block, (plan, _)) in blocks.iter().zip(&plans).filter(|(_, (plan, _))| plan.count.bytes > 0) {
        for (line, &mask) in block.iter().zip(&plan.fields.bytes.0) {
            at = put_bytes(low_bytes(line), mask, coded, at);
        }
    }
    let mut nibbles = Packer::<4>::new();
    for (plan, indices) in plans.iter().filter(|(plan, _)| plan.count.nibbles > 0) {
        nibbles.push_block(&plan.fields.nibbles, |line| load128(&indices[line]));
        at = nibbles.flush(coded, at);
    }
    nibbles.finish(coded, at)
}

#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn add_up_chunk(raw: &[u8]) -> Totals {
    super::plan::totals(raw, |block, plan, indices| plan_block::<false>(block, plan, indices))
}

/// Writes the code planes of the coded lines; returns where they end.
#[inline(always)]
fn put_codes(plan: &Plan, out: &mut [u8], mut at: usize) -> usize {
    let [low, high] = &plan.codes;
    let mut coded = plan.kinds.coded;
    while coded != 0 {
        let line = coded.trailing_zeros() as usize;
        let codes = [low.0[line], high.0[line]].map(u16::to_le_bytes);
        room_at::<PLANES_LEN>(out, at).copy_from_slice(codes.as_flattened());
        at += PLANES_LEN;
        coded &= coded - 1;
    }
    at
}
