//! Decoding: every section is sized before the first line is written.

use std::arch::x86_64::*;

use super::super::PLANES_LEN;
use super::super::plan::Plan;
use super::prefixes::plan_fields;
use super::word_control;
use crate::chunk::{ChunkError, SectionReader};
use crate::cpu::store256;
use crate::line::avx2::{Section, Unpacker, halves_of, lanes_of, spread_bits};
use crate::line::blocks::{BLOCK_LEN, BLOCK_WORDS, Block, Masks, decode_blocks};
use crate::line::{KindReader, StreamReader, Taken};

#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
pub(super) fn decode_chunk(coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
    let mut sections = SectionReader::new(coded);
    let kinds = KindReader::read(&mut sections, raw.len())?;
    sections.align(2)?;
    let mut planes = sections.take(PLANES_LEN * kinds.coded_lines())?;

    let mut plans = vec![Plan::EMPTY; raw.len().div_ceil(BLOCK_LEN)];
    let mut total = Taken::NONE;
    for (kinds, plan) in kinds.blocks(spread_bits).zip(&mut plans) {
        take_planes(&mut planes, kinds.coded, &mut plan.planes);
        plan.kinds = kinds;
        plan_fields(plan);
        total += plan.count;
    }
    let [words, halves, bytes, nibbles] = StreamReader::read(sections, total)?.sections();
    let mut decoder = Decoder {
        words: Section::new(words),
        halves: Section::new(halves),
        bytes: Section::new(bytes),
        nibbles: Unpacker::of(nibbles),
    };
    decode_blocks(raw, |index, block| decoder.block(&plans[index], block));
    Ok(())
}

/// Reads the planes of the coded lines of a block off the front of `stored`; the other lines are all zero words.
#[inline(always)]
fn take_planes(stored: &mut &[u8], coded: u32, planes: &mut [Masks; 3]) {
    planes[0] = Masks([u16::MAX; 32]);
    planes[1] = Masks::NONE;
    planes[2] = Masks::NONE;
    let (lines, _) = stored.as_chunks::<PLANES_LEN>();
    let mut left = coded;
    for [a, b, c, d, e, f] in &lines[..coded.count_ones() as usize] {
        let line = left.trailing_zeros() as usize % 32;
        planes[0].0[line] = u16::from_le_bytes([*a, *b]);
        planes[1].0[line] = u16::from_le_bytes([*c, *d]);
        planes[2].0[line] = u16::from_le_bytes([*e, *f]);
        left &= left.wrapping_sub(1);
    }
    *stored = &stored[PLANES_LEN * coded.count_ones() as usize..];
}

/// What is left of the data sections.
struct Decoder<'a> {
    words: Section<'a>,
    halves: Section<'a>,
    bytes: Section<'a>,
    nibbles: Unpacker<'a, 4>,
}

impl Decoder<'_> {
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    fn block(&mut self, plan: &Plan, block: &mut Block) {
        let count = plan.count;
        if count.words == BLOCK_WORDS {
            block.as_flattened_mut().copy_from_slice(self.words.take(BLOCK_LEN));
            return;
        }
        if count.is_empty() {
            block.as_flattened_mut().fill(0);
            return;
        }
        let mut words = self.words.fields(4 * count.words);
        let mut halves = self.halves.fields(2 * count.halves);
        let mut bytes = self.bytes.fields(count.bytes);
        let mut nibbles = self.nibbles.fields(count.nibbles);
        let fields = &plan.fields;
        for (i, line) in block.iter_mut().enumerate() {
            let [low, middle] = [plan.planes[0].0[i], plan.planes[1].0[i]].map(halves_of);
            let with_word = halves_of(fields.words.0[i]);
            let with_half = halves_of(fields.halves.0[i]);
            let with_byte = halves_of(fields.bytes.0[i]);
            let with_nibble = halves_of(fields.nibbles.0[i]);
            for (half, out) in line.as_chunks_mut().0.iter_mut().enumerate() {
                let middle_only = lanes_of(middle[half] & !low[half]);
                let both = lanes_of(middle[half] & low[half]);
                let signed_4 = signed(nibbles.expand(with_nibble[half]));
                let narrow = _mm_or_si128(bytes.bytes(with_byte[half]), signed_4);
                let narrow = words_of_bytes(narrow, middle_only);
                let wide = words_of_halves(halves.halves(with_half[half]), middle_only, both);
                let words = words.words(with_word[half]);
                store256(out, _mm256_or_si256(_mm256_or_si256(words, wide), narrow));
            }
        }
    }
}

/// Signed numbers of 4 bits as bytes; zero stays zero.
#[inline]
#[target_feature(enable = "sse2")]
fn signed(nibbles: __m128i) -> __m128i {
    let eight = _mm_set1_epi8(8);
    _mm_sub_epi8(_mm_xor_si128(nibbles, eight), eight)
}

/// The words of prefix 5, 6 (`middle_only`) and 7 (`both`); zero where `data` is.
#[inline]
#[target_feature(enable = "avx2")]
fn words_of_halves(data: __m128i, middle_only: __m256i, both: __m256i) -> __m256i {
    let signed = _mm256_cvtepi16_epi32(data);
    let words = _mm256_blendv_epi8(signed, _mm256_slli_epi32::<16>(signed), middle_only);
    // Each byte into the upper half of a halfword, then down again with its sign.
    let bytes = _mm256_shuffle_epi8(signed, word_control([-1, 0, -1, 1]));
    _mm256_blendv_epi8(words, _mm256_srai_epi16::<8>(bytes), both)
}

/// The words of prefix 2 (`middle_only`), 3 and 4; zero where `data` is.
#[inline]
#[target_feature(enable = "avx2")]
fn words_of_bytes(data: __m128i, middle_only: __m256i) -> __m256i {
    let signed = _mm256_cvtepi8_epi32(data);
    let repeated = _mm256_shuffle_epi8(signed, word_control([0; 4]));
    _mm256_blendv_epi8(signed, repeated, middle_only)
}
