//! Filling in plans: what follows from the masks of a block is worked out for 16 lines at once.

use std::arch::x86_64::*;

use super::super::plan::{Indices, Plan};
use super::tokens::line_tokens;
use crate::line::Taken;
use crate::line::avx2::{
    bits_of_lanes, count_bits, count_fields, lanes_of_kinds, load_masks, store_masks, store128, sum_bits,
};
use crate::line::blocks::{Block, BlockKinds, Masks};

/// Plans the block of an encoder; who only wants its size needs no indices.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn plan_block<const INDICES: bool>(block: &Block, plan: &mut Plan, indices: &mut Indices) {
    for (i, (line, indices)) in block.iter().zip(indices).enumerate() {
        let tokens = line_tokens::<INDICES>(line);
        [plan.codes[0].0[i], plan.codes[1].0[i]] = [!tokens.new, !tokens.zero];
        [plan.subcodes[0].0[i], plan.subcodes[1].0[i]] = tokens.subcodes;
        if INDICES {
            store128(indices, 0, tokens.indices);
        }
    }
    plan.kinds = kinds_of(plan);
    plan_codes(plan);
    plan_subcodes(plan);
}

/// Which words of coded lines have a code 1, a code 2, a code 3; of half a block.
#[inline]
#[target_feature(enable = "avx2")]
fn codes_of(codes: &[Masks; 2], half: usize) -> [__m256i; 3] {
    let [low, high] = codes.each_ref().map(|plane| load_masks(plane, half));
    [_mm256_andnot_si256(high, low), _mm256_andnot_si256(low, high), _mm256_and_si256(low, high)]
}

/// Which words with sub-codes have a field among the halfwords, the bytes and the 4-bit fields.
#[inline]
#[target_feature(enable = "avx2")]
fn fields_of(extended: __m256i, [low, high]: [__m256i; 2]) -> [__m256i; 3] {
    [
        _mm256_andnot_si256(high, low),                                // 1
        high,                                                          // 2, 3
        _mm256_andnot_si256(_mm256_andnot_si256(low, high), extended), // 0, 1, 3
    ]
}

/// The kinds of lines that an encoder gives lines of these codes.
#[inline]
#[target_feature(enable = "avx2")]
fn kinds_of(plan: &Plan) -> BlockKinds {
    let mut kinds = BlockKinds::default();
    for half in 0..2 {
        let [zero, new, extended] = codes_of(&plan.codes, half);
        let subcodes = plan.subcodes.each_ref().map(|plane| load_masks(plane, half));
        let [halves, bytes, nibbles] = fields_of(extended, subcodes).map(|masks| count_bits(masks));
        let [new, extended] = [count_bits(new), count_bits(extended)];
        let doubled = |count| _mm256_add_epi16(count, count);
        // Half of what a line takes beyond two bits per word: 256 − 16 are left.
        let beyond = doubled(_mm256_add_epi16(doubled(new), halves)); // 4 new, 2 halves
        let beyond = doubled(_mm256_add_epi16(beyond, bytes)); // 8 new, 4 halves, 2 bytes
        let beyond = _mm256_add_epi16(doubled(_mm256_add_epi16(beyond, nibbles)), extended);
        let short = bits_of_lanes(_mm256_cmpgt_epi16(_mm256_set1_epi16(256 - 16), beyond));
        let zero = bits_of_lanes(_mm256_cmpeq_epi16(zero, _mm256_set1_epi16(-1)));
        kinds.coded |= u32::from(short & !zero) << (16 * half);
        kinds.raw |= u32::from(!short) << (16 * half);
    }
    kinds
}

/// Fills in what follows from codes and kinds of lines.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn plan_codes(plan: &mut Plan) {
    plan.extended_count = 0;
    for half in 0..2 {
        let [coded, raw] = lanes_of_kinds(plan.kinds, half);
        let [_, new, extended] = codes_of(&plan.codes, half).map(|masks| _mm256_and_si256(masks, coded));
        store_masks(&mut plan.extended, half, extended);
        store_masks(&mut plan.fields.words, half, _mm256_or_si256(new, raw));
        plan.extended_count += sum_bits(extended);
    }
}

/// Fills in what follows from the sub-codes, where there are some.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn plan_subcodes(plan: &mut Plan) {
    plan.count = Taken::NONE;
    for half in 0..2 {
        let extended = load_masks(&plan.extended, half);
        let [low, high] =
            plan.subcodes.each_ref().map(|plane| _mm256_and_si256(load_masks(plane, half), extended));
        let [halves, bytes, nibbles] = fields_of(extended, [low, high]);
        store_masks(&mut plan.subcodes[0], half, low);
        store_masks(&mut plan.subcodes[1], half, high);
        store_masks(&mut plan.fields.halves, half, halves);
        store_masks(&mut plan.fields.bytes, half, bytes);
        store_masks(&mut plan.fields.nibbles, half, nibbles);
        plan.count += count_fields([load_masks(&plan.fields.words, half), halves, bytes, nibbles]);
    }
}
