//! Finding prefixes, and what follows from them.

use std::arch::x86_64::*;

use super::super::plan::Plan;
use crate::line::avx2::{
    bits_of_lanes, count_bits, count_fields, lanes_of_kinds, load_masks, load_words, store_masks,
};
use crate::line::blocks::{Block, BlockKinds, Masks};
use crate::line::{Line, Taken};

/// Plans the block of an encoder.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn plan_block(block: &Block, plan: &mut Plan) {
    prefix_planes(block, &mut plan.planes);
    plan.kinds = kinds_of(&plan.planes);
    plan_fields(plan);
}

/// Finds the prefixes of a block's words, whatever the kinds of its lines.
#[inline]
#[target_feature(enable = "avx2")]
fn prefix_planes(block: &Block, planes: &mut [Masks; 3]) {
    let [mut zero, mut signed_4, mut signed_8, mut signed_16] = [Masks::NONE; 4];
    let [mut equal_bytes, mut low_zero, mut two_signed_8] = [Masks::NONE; 3];
    let nothing = _mm256_setzero_si256();
    let first_byte =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
    let is_below = |numbers, limit| _mm256_cmpgt_epi32(_mm256_set1_epi32(limit), numbers);
    let is_zero = |words| _mm256_cmpeq_epi32(words, nothing);
    for (i, pair) in block.as_chunks().0.iter().enumerate() {
        let words = words_of_pair(pair);
        // A number of n bits with its sign is below 2^(n-1) once its sign is folded away.
        let folded = words.map(|words| _mm256_xor_si256(words, _mm256_srai_epi32::<31>(words)));
        set_pair(&mut zero, i, words.map(is_zero));
        set_pair(&mut signed_4, i, folded.map(|folded| is_below(folded, 1 << 3)));
        set_pair(&mut signed_8, i, folded.map(|folded| is_below(folded, 1 << 7)));
        set_pair(&mut signed_16, i, folded.map(|folded| is_below(folded, 1 << 15)));
        let repeated = words.map(|words| _mm256_cmpeq_epi32(words, _mm256_shuffle_epi8(words, first_byte)));
        set_pair(&mut equal_bytes, i, repeated);
        set_pair(&mut low_zero, i, words.map(|words| is_zero(_mm256_slli_epi32::<16>(words))));
        // A halfword in -128..128 is below 256 once 128 is added.
        let shifted = words.map(|words| _mm256_add_epi16(words, _mm256_set1_epi16(0x80)));
        let upper_bytes = _mm256_set1_epi16(0xff00_u16 as i16);
        set_pair(
            &mut two_signed_8,
            i,
            shifted.map(|shifted| is_zero(_mm256_and_si256(shifted, upper_bytes))),
        );
    }
    for half in 0..2 {
        let [zero, signed_4, signed_8] = [&zero, &signed_4, &signed_8].map(|masks| load_masks(masks, half));
        let [signed_16, equal_bytes] = [&signed_16, &equal_bytes].map(|masks| load_masks(masks, half));
        let [low_zero, two_signed_8] = [&low_zero, &two_signed_8].map(|masks| load_masks(masks, half));
        // Every pattern without the words of those with fewer data bits. Zero is a signed number of 4 bits,
        // and so on upwards; of words of four equal bytes only 0 and -1 are signed numbers of 16 bits.
        let equal_bytes = _mm256_andnot_si256(signed_4, equal_bytes);
        let only_8 = _mm256_andnot_si256(signed_4, signed_8);
        let only_16 = _mm256_andnot_si256(signed_8, signed_16);
        let only_4 = _mm256_andnot_si256(zero, signed_4);
        let short = _mm256_or_si256(signed_16, equal_bytes);
        let low_zero = _mm256_andnot_si256(short, low_zero);
        let two_signed_8 = _mm256_andnot_si256(_mm256_or_si256(short, low_zero), two_signed_8);
        let or = |a, b, c, d| _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
        store_masks(&mut planes[0], half, or(zero, only_4, only_16, two_signed_8));
        store_masks(&mut planes[1], half, or(equal_bytes, only_4, low_zero, two_signed_8));
        store_masks(&mut planes[2], half, or(only_8, only_16, low_zero, two_signed_8));
    }
}

/// Words 0–3, 4–7, 8–11 and 12–15 of two lines, so that two packs bring each line's words together in order.
#[inline]
#[target_feature(enable = "avx2")]
fn words_of_pair(pair: &[Line; 2]) -> [__m256i; 4] {
    let [first, second] = pair.each_ref().map(|line| [load_words(line, 0), load_words(line, 1)]);
    [
        _mm256_permute2x128_si256::<0x20>(first[0], second[0]),
        _mm256_permute2x128_si256::<0x31>(first[0], second[0]),
        _mm256_permute2x128_si256::<0x20>(first[1], second[1]),
        _mm256_permute2x128_si256::<0x31>(first[1], second[1]),
    ]
}

/// Sets the masks of pair `index` of lines from lanes that are all ones or all zeros, in the order of
/// [`words_of_pair`].
#[inline]
#[target_feature(enable = "avx2")]
fn set_pair(masks: &mut Masks, index: usize, [a, b, c, d]: [__m256i; 4]) {
    let bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    let both = _mm256_movemask_epi8(bytes) as u32;
    masks.0[2 * index] = both as u16;
    masks.0[2 * index + 1] = (both >> 16) as u16;
}

/// Which words are of prefix 0, of one with 16 data bits, with 8, with 4; of half a block.
#[inline]
#[target_feature(enable = "avx2")]
fn fields_of(planes: &[Masks; 3], half: usize) -> [__m256i; 4] {
    let [low, middle, high] = planes.each_ref().map(|plane| load_masks(plane, half));
    let [both, either] = [_mm256_and_si256(low, middle), _mm256_or_si256(low, middle)];
    [
        _mm256_andnot_si256(_mm256_or_si256(either, high), _mm256_set1_epi16(-1)), // 0
        _mm256_and_si256(either, high),                                            // 5, 6, 7
        _mm256_andnot_si256(low, _mm256_xor_si256(middle, high)),                  // 2, 4
        _mm256_andnot_si256(high, both),                                           // 3
    ]
}

/// The kinds of lines that an encoder gives lines of these prefixes.
#[inline]
#[target_feature(enable = "avx2")]
fn kinds_of(planes: &[Masks; 3]) -> BlockKinds {
    let mut kinds = BlockKinds::default();
    for half in 0..2 {
        // A quarter of a line's data bits: 128 − 12 are left beside its prefixes.
        let [words, halves, bytes, nibbles] = fields_of(planes, half).map(|masks| count_bits(masks));
        let doubled = |count| _mm256_add_epi16(count, count);
        let data = doubled(_mm256_add_epi16(doubled(words), halves));
        let data = _mm256_add_epi16(doubled(_mm256_add_epi16(data, bytes)), nibbles);
        let short = bits_of_lanes(_mm256_cmpgt_epi16(_mm256_set1_epi16(128 - 12), data));
        let [low, middle, high] = planes.each_ref().map(|plane| load_masks(plane, half));
        let all_zero = _mm256_andnot_si256(_mm256_or_si256(middle, high), low); // 1
        let zero = bits_of_lanes(_mm256_cmpeq_epi16(all_zero, _mm256_set1_epi16(-1)));
        kinds.coded |= u32::from(short & !zero) << (16 * half);
        kinds.raw |= u32::from(!short) << (16 * half);
    }
    kinds
}

/// Fills in what follows from planes and kinds.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn plan_fields(plan: &mut Plan) {
    plan.count = Taken::NONE;
    for half in 0..2 {
        let [coded, raw] = lanes_of_kinds(plan.kinds, half);
        let [words, halves, bytes, nibbles] =
            fields_of(&plan.planes, half).map(|masks| _mm256_and_si256(masks, coded));
        let words = _mm256_or_si256(words, raw);
        store_masks(&mut plan.fields.words, half, words);
        store_masks(&mut plan.fields.halves, half, halves);
        store_masks(&mut plan.fields.bytes, half, bytes);
        store_masks(&mut plan.fields.nibbles, half, nibbles);
        plan.count += count_fields([words, halves, bytes, nibbles]);
    }
}
