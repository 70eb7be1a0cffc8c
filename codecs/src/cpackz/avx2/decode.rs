//! Decoding: every section is sized before the first line is written.

use std::arch::x86_64::*;

use super::super::PLANES_LEN;
use super::super::plan::Plan;
use super::plan::{plan_codes, plan_subcodes};
use crate::chunk::{ChunkError, SectionReader};
use crate::cpu::lanes::EXPAND;
use crate::cpu::store256;
use crate::line::avx2::{Fields, Section, Unpacked, Unpacker, halves_of, lanes_of, spread_bits};
use crate::line::blocks::{BLOCK_LEN, BLOCK_WORDS, Block, BlockKinds, decode_blocks};
use crate::line::{KindReader, Line, StreamReader, Taken};
use crate::packed::{packed_len, packed_tail_is_zero};

/// `false` if a code or an index is wrong.
#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
pub(super) fn decode_chunk(coded: &[u8], raw: &mut [u8]) -> Result<bool, ChunkError> {
    let mut sections = SectionReader::new(coded);
    let kinds = KindReader::read(&mut sections, raw.len())?;
    sections.align(2)?;
    let mut planes = sections.take(PLANES_LEN * kinds.coded_lines())?;

    let mut plans = vec![Plan::EMPTY; raw.len().div_ceil(BLOCK_LEN)];
    let (mut extended, mut right) = (0, true);
    for (kinds, plan) in kinds.blocks(spread_bits).zip(&mut plans) {
        right &= take_codes(&mut planes, kinds, plan);
        plan_codes(plan);
        extended += plan.extended_count;
    }
    let subcodes = sections.take(packed_len::<2>(extended))?;
    if !packed_tail_is_zero::<2>(subcodes, extended) {
        return Err(ChunkError::Padding { offset: sections.offset() });
    }
    let (mut subcodes, mut total) = (Unpacker::<2>::of(subcodes), Taken::NONE);
    for plan in &mut plans {
        take_subcodes(&mut subcodes, plan);
        plan_subcodes(plan);
        total += plan.count;
    }
    let [words, halves, bytes, indices] = StreamReader::read(sections, total)?.sections();
    let mut decoder = Decoder {
        words: Section::new(words),
        halves: Section::new(halves),
        bytes: Section::new(bytes),
        indices: Unpacker::of(indices),
    };
    decode_blocks(raw, |index, block| right &= decoder.block(&plans[index], block));
    Ok(right)
}

/// Reads the codes of a block's lines off the front of `stored`; `true` if every one has a meaning.
#[inline(always)]
fn take_codes(stored: &mut &[u8], kinds: BlockKinds, plan: &mut Plan) -> bool {
    plan.kinds = kinds;
    let (lines, _) = stored.as_chunks::<PLANES_LEN>();
    let (mut left, mut meaningful) = (kinds.coded, u16::MAX);
    for [a, b, c, d] in &lines[..kinds.coded.count_ones() as usize] {
        let line = left.trailing_zeros() as usize % 32;
        let [low, high] = [[*a, *b], [*c, *d]].map(u16::from_le_bytes);
        [plan.codes[0].0[line], plan.codes[1].0[line]] = [low, high];
        meaningful &= low | high;
        left &= left.wrapping_sub(1);
    }
    *stored = &stored[PLANES_LEN * kinds.coded.count_ones() as usize..];
    meaningful == u16::MAX
}

/// Reads the sub-codes of a block's lines.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn take_subcodes(unpacker: &mut Unpacker<'_, 2>, plan: &mut Plan) {
    if plan.extended_count == 0 {
        return;
    }
    let mut fields = unpacker.fields(plan.extended_count);
    for (i, &extended) in plan.extended.0.iter().enumerate() {
        let [low, high] = halves_of(extended);
        let subcodes = _mm_unpacklo_epi64(fields.expand(low), fields.expand(high));
        plan.subcodes[0].0[i] = _mm_movemask_epi8(_mm_slli_epi16::<7>(subcodes)) as u16;
        plan.subcodes[1].0[i] = _mm_movemask_epi8(_mm_slli_epi16::<6>(subcodes)) as u16;
    }
}

/// What is left of the data sections.
struct Decoder<'a> {
    words: Section<'a>,
    halves: Section<'a>,
    bytes: Section<'a>,
    indices: Unpacker<'a, 4>,
}

impl Decoder<'_> {
    /// Writes the next block; `true` if its indices name words that are there.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    fn block(&mut self, plan: &Plan, block: &mut Block) -> bool {
        let count = plan.count;
        if count.words == BLOCK_WORDS {
            block.as_flattened_mut().copy_from_slice(self.words.take(BLOCK_LEN));
            return true;
        }
        if count.is_empty() {
            block.as_flattened_mut().fill(0);
            return true;
        }
        let fields = &plan.fields;
        let masks = [&fields.words, &fields.nibbles, &fields.halves, &fields.bytes];
        let mut data = BlockData {
            words: self.words.fields(4 * count.words),
            halves: self.halves.fields(2 * count.halves),
            bytes: self.bytes.fields(count.bytes),
            indices: self.indices.fields(count.nibbles),
            wrong: 0,
        };
        for (i, line) in block.iter_mut().enumerate() {
            data.line(masks.map(|masks| masks.0[i]), line);
        }
        data.wrong == 0
    }
}

/// What is left of a block's fields.
struct BlockData<'a> {
    words: Fields<'a>,
    halves: Fields<'a>,
    bytes: Fields<'a>,
    indices: Unpacked<'a>,
    /// Not zero once an index was wrong.
    wrong: u8,
}

impl BlockData<'_> {
    /// A line with these words that are new, with an index, with a halfword, with a byte.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    fn line(&mut self, masks: [u16; 4], line: &mut Line) {
        let dictionary = self.words.front_words();
        let [new, indexed, halves, bytes] = masks.map(halves_of);
        let mut earlier = 0;
        for (half, out) in line.as_chunks_mut().0.iter_mut().enumerate() {
            let entries = self.entries(dictionary, indexed[half], new[half], earlier);
            earlier += new[half].count_ones() as u8;
            let entries = without(entries, halves[half], 0xffff);
            let entries = without(entries, bytes[half], 0xff);
            let new = self.words.words(new[half]);
            let halves = _mm256_cvtepu16_epi32(self.halves.halves(halves[half]));
            let bytes = _mm256_cvtepu8_epi32(self.bytes.bytes(bytes[half]));
            let data = _mm256_or_si256(halves, bytes);
            store256(out, _mm256_or_si256(_mm256_or_si256(new, entries), data));
        }
    }

    /// The words that the next indices name, in the lanes of `indexed`; zero elsewhere. `earlier` words of the
    /// line's first half are new.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    fn entries(&mut self, dictionary: [__m256i; 2], indexed: u8, new: u8, earlier: u8) -> __m256i {
        let indices = self.indices.expand(indexed);
        // An index must be below the number of new words before its own.
        let before = _mm_add_epi8(counts_before(new), _mm_set1_epi8(earlier as i8));
        self.wrong |= !_mm_movemask_epi8(_mm_cmpgt_epi8(before, indices)) as u8 & indexed;
        let indices = _mm256_cvtepu8_epi32(indices);
        let [front, back] = dictionary.map(|words| _mm256_permutevar8x32_epi32(words, indices));
        let is_back = _mm256_cmpgt_epi32(indices, _mm256_set1_epi32(7));
        _mm256_and_si256(_mm256_blendv_epi8(front, back, is_back), lanes_of(indexed))
    }
}

/// `words`, those of `mask` without the bits `low`.
#[inline]
#[target_feature(enable = "avx2")]
fn without(words: __m256i, mask: u8, low: i32) -> __m256i {
    _mm256_andnot_si256(_mm256_and_si256(lanes_of(mask), _mm256_set1_epi32(low)), words)
}

/// For each bit of `mask` how many bits are set below it, as bytes.
#[inline]
#[target_feature(enable = "sse2")]
fn counts_before(mask: u8) -> __m128i {
    // One in each byte whose bit is set; the product adds up all lower bytes in each byte.
    let set = !u64::from_le_bytes(EXPAND[usize::from(mask)]) >> 7 & 0x0101_0101_0101_0101;
    _mm_cvtsi64_si128(set.wrapping_mul(0x0101_0101_0101_0100) as i64)
}
