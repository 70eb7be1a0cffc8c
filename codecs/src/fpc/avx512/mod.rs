//! FPC with AVX-512: a line is a vector, a pattern is one mask of 16 words, and 32 lines are sorted out at once.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

mod planes;

use std::arch::x86_64::*;

use self::planes::{put_planes, take_planes};
use super::plan::{self, Plan, plans};
use super::{PLANES_LEN, Totals};
use crate::Avx512;
use crate::chunk::{ChunkError, SectionReader};
use crate::cpu::{load512, store512};
use crate::line::avx512::{
    Fields, Packer, Unpacker, count_fields, load_masks, put_bytes, put_halves, put_words, store_masks,
    with_raw_lines,
};
use crate::line::blocks::{
    BLOCK_LEN, BLOCK_WORDS, Block, BlockKinds, Blocks, Masks, align, decode_blocks, write_kinds,
};
use crate::line::{KindReader, StreamReader, Taken, line_count};

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
    unsafe { decode_chunk(coded, raw) }
}

#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,avx512bitalg,avx512vpopcntdq,bmi2,popcnt")]
fn encode_chunk(raw: &[u8], coded: &mut [u8]) -> usize {
    let blocks = Blocks::of(raw);
    let plans = plans(&blocks, |block, plan| plan_block(block, plan));
    let kinds = plans.iter().map(|plan| plan.kinds);
    let mut at = write_kinds(line_count(raw.len()), kinds, |raw, lines| _pext_u32(raw, lines), coded);
    at = align(coded, at, 2);
    for plan in &plans {
        at = put_planes(plan.kinds.coded, &plan.planes, coded, at);
    }
    at = align(coded, at, 4);
    for (block, plan) in blocks.iter().zip(&plans).filter(|(_, plan)| plan.count.words > 0) {
        at = put_words(block, &plan.fields.words, plan.count.words, coded, at);
    }
    for (block, plan) in blocks.iter().zip(&plans).filter(|(_, plan)| plan.count.halves > 0) {
        for (i, (line, &mask)) in block.iter().zip(&plan.fields.halves.0).enumerate() {
            let [low, middle, _] = &plan.planes;
            let halves = half_data(load512(line), [low.0[i], middle.0[i]]);
            at = put_halves(halves, mask, coded, at);
        }
    }
    for (block, plan) in blocks.iter().zip(&plans).filter(|(_, plan)| plan.count.bytes > 0) {
        at = put_bytes(block, &plan.fields.bytes, coded, at);
    }
    let mut nibbles = Packer::<4>::new();
    for (block, plan) in blocks.iter().zip(&plans).filter(|(_, plan)| plan.count.nibbles > 0) {
        nibbles.push_block(&plan.fields.nibbles, |line| {
            _mm_and_si128(_mm512_cvtepi32_epi8(load512(&block[line])), _mm_set1_epi8(0xf))
        });
        at = nibbles.flush(coded, at);
    }
    nibbles.finish(coded, at)
}

#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,avx512bitalg,avx512vpopcntdq,bmi2,popcnt")]
fn add_up_chunk(raw: &[u8]) -> Totals {
    plan::totals(raw, |block, plan| plan_block(block, plan))
}

#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,avx512bitalg,avx512vpopcntdq,bmi2,popcnt")]
fn decode_chunk(coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
    let mut sections = SectionReader::new(coded);
    let kinds = KindReader::read(&mut sections, raw.len())?;
    sections.align(2)?;
    let planes = sections.take(PLANES_LEN * kinds.coded_lines())?;

    let mut plans = vec![Plan::EMPTY; raw.len().div_ceil(BLOCK_LEN)];
    let (mut total, mut at) = (Taken::NONE, 0);
    for (kinds, plan) in kinds.blocks(|raw, lines| _pdep_u32(raw, lines)).zip(&mut plans) {
        make_plan(take_planes(planes, at, kinds.coded), kinds, plan);
        at += PLANES_LEN * kinds.coded.count_ones() as usize;
        total += plan.count;
    }
    let [words, halves, bytes, nibble_section] = StreamReader::read(sections, total)?.sections();
    let (mut words, mut halves, mut bytes) = (Fields(words), Fields(halves), Fields(bytes));
    let mut nibbles = Unpacker::<4>::new();
    decode_blocks(raw, |index, block| {
        let Plan { planes: [low, middle, _], fields, count, .. } = &plans[index];
        if count.words == BLOCK_WORDS {
            block.as_flattened_mut().copy_from_slice(words.take(BLOCK_LEN));
            return;
        }
        if count.is_empty() {
            block.as_flattened_mut().fill(0);
            return;
        }
        nibbles.fill(nibble_section, count.nibbles);
        for (i, line) in block.iter_mut().enumerate() {
            let planes = [low.0[i], middle.0[i]];
            let narrow = words_of_bytes(
                bytes.bytes(fields.bytes.0[i]),
                signed(nibbles.expand(fields.nibbles.0[i])),
                planes,
            );
            let half = words_of_halves(halves.halves(fields.halves.0[i]), planes);
            let wide = words.words(fields.words.0[i]);
            store512(line, _mm512_or_si512(_mm512_or_si512(wide, half), narrow));
        }
    });
    Ok(())
}

#[inline]
#[target_feature(enable = "avx512bw,avx512bitalg,avx512vpopcntdq")]
fn plan_block(block: &Block, plan: &mut Plan) {
    let planes = prefix_planes(block);
    make_plan(planes, kinds_of(planes), plan);
}

/// The prefixes of a block's words as three planes, whatever the kinds of its lines.
#[inline]
#[target_feature(enable = "avx512bw")]
fn prefix_planes(block: &Block) -> [__m512i; 3] {
    let [mut zero, mut signed_4, mut signed_8, mut signed_16] = [Masks::NONE; 4];
    let [mut equal_bytes, mut low_zero, mut two_signed_8] = [Masks::NONE; 3];
    let constant = |value| _mm512_set1_epi32(value);
    for (i, line) in block.iter().enumerate() {
        let words = load512(line);
        // A number of n bits with its sign is below 2^(n-1) once its sign is folded away.
        let folded = _mm512_xor_si512(words, _mm512_srai_epi32::<31>(words));
        zero.0[i] = _mm512_testn_epi32_mask(words, words);
        signed_4.0[i] = _mm512_cmplt_epi32_mask(folded, constant(1 << 3));
        signed_8.0[i] = _mm512_cmplt_epi32_mask(folded, constant(1 << 7));
        signed_16.0[i] = _mm512_cmplt_epi32_mask(folded, constant(1 << 15));
        equal_bytes.0[i] = _mm512_cmpeq_epi32_mask(words, _mm512_rol_epi32::<8>(words));
        low_zero.0[i] = _mm512_testn_epi32_mask(words, constant(0xffff));
        // A halfword in -128..128 is below 256 once 128 is added.
        let shifted = _mm512_add_epi16(words, _mm512_set1_epi16(0x80));
        two_signed_8.0[i] = _mm512_testn_epi32_mask(shifted, constant(0xff00_ff00_u32 as i32));
    }
    let [zero, signed_4, signed_8, signed_16] = [zero, signed_4, signed_8, signed_16].map(|m| load_masks(&m));
    let [equal_bytes, low_zero, two_signed_8] = [equal_bytes, low_zero, two_signed_8].map(|m| load_masks(&m));
    // Every pattern without the words of those with fewer data bits. Zero is a signed number of 4 bits, and
    // so on upwards; of words of four equal bytes only 0 and -1 are signed numbers of 16 bits.
    let equal_bytes = _mm512_andnot_si512(signed_4, equal_bytes);
    let only_8 = _mm512_andnot_si512(signed_4, signed_8);
    let only_16 = _mm512_andnot_si512(signed_8, signed_16);
    let only_4 = _mm512_andnot_si512(zero, signed_4);
    let short = _mm512_or_si512(signed_16, equal_bytes);
    let low_zero = _mm512_andnot_si512(short, low_zero);
    let two_signed_8 = _mm512_andnot_si512(_mm512_or_si512(short, low_zero), two_signed_8);
    let or = |a, b, c, d| _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
    [
        or(zero, only_4, only_16, two_signed_8),
        or(equal_bytes, only_4, low_zero, two_signed_8),
        or(only_8, only_16, low_zero, two_signed_8),
    ]
}

/// Which words are of prefix 0, of one with 16 data bits, with 8, with 4.
#[inline]
#[target_feature(enable = "avx512bw")]
fn fields_of([low, middle, high]: [__m512i; 3]) -> [__m512i; 4] {
    [
        _mm512_ternarylogic_epi32::<0x01>(high, middle, low), // 0
        _mm512_ternarylogic_epi32::<0xe0>(high, middle, low), // 5, 6, 7
        _mm512_ternarylogic_epi32::<0x14>(high, middle, low), // 2, 4
        _mm512_ternarylogic_epi32::<0x08>(high, middle, low), // 3
    ]
}

/// The kinds of lines that an encoder gives lines of these prefixes.
#[inline]
#[target_feature(enable = "avx512bw,avx512bitalg")]
fn kinds_of(planes: [__m512i; 3]) -> BlockKinds {
    // A quarter of a line's data bits: 128 − 12 are left beside its prefixes.
    let [words, halves, bytes, nibbles] = fields_of(planes).map(|mask| _mm512_popcnt_epi16(mask));
    let doubled = |count| _mm512_add_epi16(count, count);
    let data = doubled(_mm512_add_epi16(doubled(words), halves));
    let data = _mm512_add_epi16(doubled(_mm512_add_epi16(data, bytes)), nibbles);
    let short = _mm512_cmplt_epi16_mask(data, _mm512_set1_epi16(128 - 12));
    let [low, middle, high] = planes;
    let all_zero = _mm512_ternarylogic_epi32::<0x02>(high, middle, low); // 1
    let zero = _mm512_cmpeq_epi16_mask(all_zero, _mm512_set1_epi16(-1));
    BlockKinds { coded: short & !zero, raw: !short }
}

/// Fills in the plan of a block whose lines have these prefixes, where they are coded, and kinds.
#[inline]
#[target_feature(enable = "avx512bw,avx512vpopcntdq")]
fn make_plan(planes: [__m512i; 3], kinds: BlockKinds, plan: &mut Plan) {
    let [words, halves, bytes, nibbles] =
        fields_of(planes).map(|mask| _mm512_maskz_mov_epi16(kinds.coded, mask));
    let words = with_raw_lines(words, kinds);
    store_masks(&mut plan.fields.words, words);
    store_masks(&mut plan.fields.halves, halves);
    store_masks(&mut plan.fields.bytes, bytes);
    store_masks(&mut plan.fields.nibbles, nibbles);
    let [low, middle, high] = planes;
    store_masks(&mut plan.planes[0], low);
    store_masks(&mut plan.planes[1], middle);
    store_masks(&mut plan.planes[2], high);
    plan.kinds = kinds;
    plan.count = count_fields([words, halves, bytes, nibbles]);
}

/// What the halfwords section stores of a word of prefix 5, 6 or 7, in its low half. `planes` are bits 0 and 1
/// of the prefixes.
#[inline]
#[target_feature(enable = "avx512bw")]
fn half_data(words: __m512i, [low, middle]: [u16; 2]) -> __m512i {
    let data = _mm512_mask_srli_epi32::<16>(words, middle & !low, words);
    let low_bytes = _mm512_shuffle_epi8(words, word_control(0x8080_0200));
    _mm512_mask_mov_epi32(data, middle & low, low_bytes)
}

/// The words of prefix 5, 6 and 7; zero where `data` is.
#[inline]
#[target_feature(enable = "avx512bw")]
fn words_of_halves(data: __m256i, [low, middle]: [u16; 2]) -> __m512i {
    let signed = _mm512_cvtepi16_epi32(data);
    let words = _mm512_mask_slli_epi32::<16>(signed, middle & !low, signed);
    // Each byte into the upper half of a halfword, then down again with its sign.
    let bytes = _mm512_shuffle_epi8(signed, word_control(0x0180_0080));
    _mm512_mask_mov_epi32(words, middle & low, _mm512_srai_epi16::<8>(bytes))
}

/// The words of prefix 2, 3 and 4; zero where the data is.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
fn words_of_bytes(bytes: __m128i, nibbles: __m128i, [low, middle]: [u16; 2]) -> __m512i {
    let signed = _mm512_cvtepi8_epi32(_mm_or_si128(bytes, nibbles));
    let repeated = _mm512_shuffle_epi8(signed, word_control(0));
    _mm512_mask_mov_epi32(signed, middle & !low, repeated)
}

/// Signed numbers of 4 bits as bytes; zero stays zero.
#[inline]
#[target_feature(enable = "sse2")]
fn signed(nibbles: __m128i) -> __m128i {
    let eight = _mm_set1_epi8(8);
    _mm_sub_epi8(_mm_xor_si128(nibbles, eight), eight)
}

/// The control of a byte shuffle inside each word; `control` is that of word 0.
#[inline]
#[target_feature(enable = "avx512f")]
fn word_control(control: u32) -> __m512i {
    let [a, b, c, d] = [0, 1, 2, 3].map(|word| (control + word * 0x0404_0404) as i32);
    _mm512_set4_epi32(d, c, b, a)
}
