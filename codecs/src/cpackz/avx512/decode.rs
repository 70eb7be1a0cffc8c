//! Decoding: every section is sized before the first line is written.

use std::arch::x86_64::*;

use super::super::PLANES_LEN;
use super::super::plan::Plan;
use super::plan::{plan_codes, plan_subcodes};
use crate::chunk::{ChunkError, SectionReader};
use crate::cpu::store512;
use crate::line::avx512::{Fields, Unpacker, load_at, load_masks};
use crate::line::blocks::{BLOCK_LEN, BLOCK_WORDS, Block, BlockKinds, Masks, decode_blocks};
use crate::line::{KindReader, StreamReader, Taken};
use crate::packed::{packed_len, packed_tail_is_zero};

/// `false` if a code or an index is wrong.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,avx512bitalg,avx512vpopcntdq,bmi2,popcnt")]
pub(super) fn decode_chunk(coded: &[u8], raw: &mut [u8]) -> Result<bool, ChunkError> {
    let mut sections = SectionReader::new(coded);
    let kinds = KindReader::read(&mut sections, raw.len())?;
    sections.align(2)?;
    let planes = sections.take(PLANES_LEN * kinds.coded_lines())?;

    let mut plans = vec![Plan::EMPTY; raw.len().div_ceil(BLOCK_LEN)];
    let (mut extended, mut at, mut right) = (0, 0, true);
    for (kinds, plan) in kinds.blocks(|raw, lines| _pdep_u32(raw, lines)).zip(&mut plans) {
        right &= take_codes(planes, at, kinds, plan);
        at += PLANES_LEN * kinds.coded.count_ones() as usize;
        extended += plan.extended_count;
    }
    let subcodes = sections.take(packed_len::<2>(extended))?;
    if !packed_tail_is_zero::<2>(subcodes, extended) {
        return Err(ChunkError::Padding { offset: sections.offset() });
    }
    let (mut total, mut unpacker) = (Taken::NONE, Unpacker::<2>::new());
    for plan in &mut plans {
        take_subcodes(subcodes, &mut unpacker, plan);
        total += plan.count;
    }
    let [words, halves, bytes, nibbles] = StreamReader::read(sections, total)?.sections();
    let mut decoder = Decoder {
        words: Fields(words),
        halves: Fields(halves),
        bytes: Fields(bytes),
        nibbles: Unpacker::new(),
        wrong: 0,
    };
    decode_blocks(raw, |index, block| decoder.block(&plans[index], nibbles, block));
    Ok(right && decoder.wrong == 0)
}

/// Reads the codes of a block's lines; `true` if every one has a meaning.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi2,avx512vpopcntdq,bmi2")]
fn take_codes(planes: &[u8], at: usize, kinds: BlockKinds, plan: &mut Plan) -> bool {
    let none = _mm512_setzero_si512();
    if kinds.coded == 0 {
        return plan_codes([none, none], kinds, plan);
    }
    let [first, second] = [load_at(planes, at), load_at(planes, at + 64)];
    let low = _mm512_permutex2var_epi16(first, load_masks(&DEINTERLEAVE[0]), second);
    let high = _mm512_permutex2var_epi16(first, load_masks(&DEINTERLEAVE[1]), second);
    let low = _mm512_maskz_expand_epi16(kinds.coded, low);
    let high = _mm512_maskz_expand_epi16(kinds.coded, high);
    plan_codes([low, high], kinds, plan)
}

/// Where the first and the second plane of each line stand among the lanes of two vectors.
static DEINTERLEAVE: [Masks; 2] = deinterleave();

const fn deinterleave() -> [Masks; 2] {
    let mut lanes = [Masks::NONE; 2];
    let mut at = 0;
    while at < 64 {
        lanes[at % 2].0[at / 2] = at as u16;
        at += 1;
    }
    lanes
}

/// Reads the sub-codes of a block's lines.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
fn take_subcodes(section: &[u8], unpacker: &mut Unpacker<2>, plan: &mut Plan) {
    let [mut low, mut high] = [Masks::NONE; 2];
    if plan.extended_count > 0 {
        unpacker.fill(section, plan.extended_count);
        for (i, &extended) in plan.extended.0.iter().enumerate() {
            let subcodes = unpacker.expand(extended);
            low.0[i] = _mm_test_epi8_mask(subcodes, _mm_set1_epi8(1));
            high.0[i] = _mm_test_epi8_mask(subcodes, _mm_set1_epi8(2));
        }
    }
    plan_subcodes([load_masks(&low), load_masks(&high)], plan);
}

/// What is left of the data sections.
struct Decoder<'a> {
    words: Fields<'a>,
    halves: Fields<'a>,
    bytes: Fields<'a>,
    nibbles: Unpacker<4>,
    /// Not zero once an index was wrong.
    wrong: u16,
}

impl Decoder<'_> {
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
    fn block(&mut self, plan: &Plan, nibbles: &[u8], block: &mut Block) {
        if plan.count.words == BLOCK_WORDS {
            block.as_flattened_mut().copy_from_slice(self.words.take(BLOCK_LEN));
            return;
        }
        if plan.count.is_empty() {
            block.as_flattened_mut().fill(0);
            return;
        }
        self.nibbles.fill(nibbles, plan.count.nibbles);
        let fields = &plan.fields;
        for (i, line) in block.iter_mut().enumerate() {
            let [halves, bytes] = [fields.halves.0[i], fields.bytes.0[i]];
            let (new, entries) = self.dictionary_words(fields.words.0[i], fields.nibbles.0[i]);
            let entries = _mm512_mask_and_epi32(entries, halves, entries, _mm512_set1_epi32(!0xffff));
            let entries = _mm512_mask_and_epi32(entries, bytes, entries, _mm512_set1_epi32(!0xff));
            let halves = _mm512_cvtepu16_epi32(self.halves.halves(halves));
            let bytes = _mm512_cvtepu8_epi32(self.bytes.bytes(bytes));
            let words = _mm512_or_si512(_mm512_or_si512(new, entries), _mm512_or_si512(halves, bytes));
            store512(line, words);
        }
    }

    /// The next words in the lanes of `new`, and in those of `indexed` the words that the next indices name.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
    fn dictionary_words(&mut self, new: u16, indexed: u16) -> (__m512i, __m512i) {
        let dictionary = self.words.front_words(new.count_ones());
        let indices = _mm512_cvtepu8_epi32(self.nibbles.expand(indexed));
        // An index must be below the number of new words before its own.
        let before = _mm512_and_si512(_mm512_set1_epi32(i32::from(new)), lanes_before());
        self.wrong |= _mm512_mask_cmpge_epu32_mask(indexed, indices, _mm512_popcnt_epi32(before));
        let entries = _mm512_maskz_permutexvar_epi32(indexed, indices, dictionary);
        (_mm512_maskz_expand_epi32(new, dictionary), entries)
    }
}

/// In each lane the bits of the lanes below it.
#[inline]
#[target_feature(enable = "avx512f")]
fn lanes_before() -> __m512i {
    _mm512_set_epi32(
        0x7fff, 0x3fff, 0x1fff, 0xfff, 0x7ff, 0x3ff, 0x1ff, 0xff, 0x7f, 0x3f, 0x1f, 0xf, 7, 3, 1, 0,
    )
}
