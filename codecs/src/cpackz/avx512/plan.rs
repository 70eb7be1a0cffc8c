//! Filling in plans: what follows from the masks of a block is worked out for 32 lines at once.

use std::arch::x86_64::*;

use super::super::plan::{Indices, Plan};
use super::tokens::line_tokens;
use crate::cpu::load512;
use crate::line::avx512::{count_fields, load_masks, store_masks, store_xmm, with_raw_lines};
use crate::line::blocks::{Block, BlockKinds, Masks};

/// Plans the block of an encoder.
#[inline]
#[target_feature(enable = "avx512bw,avx512cd,avx512vl,avx512bitalg,avx512vpopcntdq")]
pub(super) fn plan_block(block: &Block, plan: &mut Plan, indices: &mut Indices) {
    let [mut zero, mut new, mut low, mut high] = [Masks::NONE; 4];
    for (i, (line, indices)) in block.iter().zip(indices).enumerate() {
        let tokens = line_tokens(load512(line));
        zero.0[i] = tokens.zero;
        new.0[i] = tokens.new;
        [low.0[i], high.0[i]] = tokens.subcodes;
        store_xmm(indices, 0, tokens.indices);
    }
    let [zero, new] = [load_masks(&zero), load_masks(&new)];
    let all = _mm512_set1_epi16(-1);
    let codes = [_mm512_xor_si512(new, all), _mm512_xor_si512(zero, all)];
    let subcodes = [load_masks(&low), load_masks(&high)];
    let kinds = kinds_of(codes, subcodes);
    plan_codes(codes, kinds, plan);
    plan_subcodes(subcodes, plan);
}

/// Which words of coded lines have a code 1, a code 2, a code 3, or the meaningless 0.
#[inline]
#[target_feature(enable = "avx512bw")]
fn codes_of([low, high]: [__m512i; 2]) -> [__m512i; 4] {
    [
        _mm512_andnot_si512(high, low),
        _mm512_andnot_si512(low, high),
        _mm512_and_si512(low, high),
        _mm512_ternarylogic_epi32::<0x01>(low, low, high),
    ]
}

/// Which words with sub-codes have a field among the halfwords, the bytes and the 4-bit fields.
#[inline]
#[target_feature(enable = "avx512bw")]
fn fields_of(extended: __m512i, [low, high]: [__m512i; 2]) -> [__m512i; 3] {
    [
        _mm512_andnot_si512(high, low),                         // 1
        high,                                                   // 2, 3
        _mm512_ternarylogic_epi32::<0xb0>(extended, high, low), // 0, 1, 3
    ]
}

/// The kinds of lines that an encoder gives lines of these codes.
#[inline]
#[target_feature(enable = "avx512bw,avx512bitalg")]
fn kinds_of(codes: [__m512i; 2], subcodes: [__m512i; 2]) -> BlockKinds {
    let [zero, new, extended, _] = codes_of(codes);
    let [halves, bytes, nibbles] = fields_of(extended, subcodes).map(|mask| _mm512_popcnt_epi16(mask));
    let [new, extended] = [_mm512_popcnt_epi16(new), _mm512_popcnt_epi16(extended)];
    let doubled = |count| _mm512_add_epi16(count, count);
    // Half of what a line takes beyond two bits per word: 256 − 16 are left.
    let half = doubled(_mm512_add_epi16(doubled(new), halves)); // 4 new, 2 halves
    let half = doubled(_mm512_add_epi16(half, bytes)); // 8 new, 4 halves, 2 bytes
    let half = _mm512_add_epi16(doubled(_mm512_add_epi16(half, nibbles)), extended);
    let short = _mm512_cmplt_epi16_mask(half, _mm512_set1_epi16(256 - 16));
    let zero = _mm512_cmpeq_epi16_mask(zero, _mm512_set1_epi16(-1));
    BlockKinds { coded: short & !zero, raw: !short }
}

/// Fills in what follows from codes and kinds of lines; `true` if every code has a meaning.
#[inline]
#[target_feature(enable = "avx512bw,avx512vpopcntdq")]
pub(super) fn plan_codes(codes: [__m512i; 2], kinds: BlockKinds, plan: &mut Plan) -> bool {
    let [_, new, extended, meaningless] = codes_of(codes);
    let extended = _mm512_maskz_mov_epi16(kinds.coded, extended);
    plan.kinds = kinds;
    store_masks(&mut plan.codes[0], codes[0]);
    store_masks(&mut plan.codes[1], codes[1]);
    store_masks(&mut plan.extended, extended);
    store_masks(&mut plan.fields.words, with_raw_lines(new, kinds));
    plan.extended_count = _mm512_reduce_add_epi64(_mm512_popcnt_epi64(extended)) as usize;
    _mm512_mask_test_epi16_mask(kinds.coded, meaningless, meaningless) == 0
}

/// Fills in what follows from the sub-codes, where there are some.
#[inline]
#[target_feature(enable = "avx512bw,avx512vpopcntdq")]
pub(super) fn plan_subcodes(subcodes: [__m512i; 2], plan: &mut Plan) {
    let extended = load_masks(&plan.extended);
    let [low, high] = subcodes.map(|mask| _mm512_and_si512(mask, extended));
    let [halves, bytes, nibbles] = fields_of(extended, [low, high]);
    store_masks(&mut plan.subcodes[0], low);
    store_masks(&mut plan.subcodes[1], high);
    store_masks(&mut plan.fields.halves, halves);
    store_masks(&mut plan.fields.bytes, bytes);
    store_masks(&mut plan.fields.nibbles, nibbles);
    plan.count = count_fields([load_masks(&plan.fields.words), halves, bytes, nibbles]);
}
