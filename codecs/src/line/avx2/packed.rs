//! Fields of 2 and 4 bits.

use std::arch::x86_64::*;

use super::{Section, load64, load128, put_bytes, store128};
use crate::cpu::lanes::EXPAND;
use crate::cpu::{array, load256, store256};
use crate::line::blocks::{BLOCK_WORDS, Masks};

/// Packs fields of 2 or 4 bits that come as bytes, a block at a time.
pub(crate) struct Packer<const BITS: usize> {
    /// Fields that are not packed yet.
    fields: [u8; FIELDS_LEN],
    len: usize,
}

/// Fields of a block, those left over from the one before, and what whole vectors take beyond them.
const FIELDS_LEN: usize = BLOCK_WORDS + 64;

impl<const BITS: usize> Packer<BITS> {
    const FIELDS_PER_BYTE: usize = 8 / BITS;

    pub(crate) const fn new() -> Self {
        Self { fields: [0; FIELDS_LEN], len: 0 }
    }

    /// Takes the bytes of each mask from `fields`, which is called with the line's place in the block; they
    /// must be less than 2 to the power of `BITS`.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    pub(crate) fn push_block(&mut self, masks: &Masks, fields: impl Fn(usize) -> __m128i) {
        let mut len = self.len;
        for (line, &mask) in masks.0.iter().enumerate() {
            len = put_bytes(fields(line), mask, &mut self.fields, len);
        }
        self.len = len;
    }

    /// Writes what fills whole bytes; returns where it ends. Called after each block.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn flush(&mut self, out: &mut [u8], at: usize) -> usize {
        let whole = self.len / Self::FIELDS_PER_BYTE;
        let (groups, _) = self.fields.as_chunks();
        for (index, group) in groups.iter().enumerate().take(self.len.div_ceil(32)) {
            store128(out, at + index * 4 * BITS, pack::<BITS>(load256(group)));
        }
        let left = whole * Self::FIELDS_PER_BYTE..self.len;
        self.len = left.len();
        self.fields.copy_within(left, 0);
        at + whole
    }

    /// Writes the byte that is not full, if there is one; returns where it ends.
    pub(crate) fn finish(self, out: &mut [u8], at: usize) -> usize {
        if self.len == 0 {
            return at;
        }
        out[at] = (0..self.len).fold(0, |byte, i| byte | self.fields[i] << (i * BITS));
        at + 1
    }
}

/// 32 fields of `BITS` bits, one per byte, as 4 · `BITS` bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn pack<const BITS: usize>(fields: __m256i) -> __m128i {
    let zero = _mm256_setzero_si256();
    let numbers = if BITS == 4 {
        // Two fields make a halfword below 256.
        _mm256_maddubs_epi16(fields, _mm256_set1_epi16(0x1001))
    } else {
        let pairs = _mm256_maddubs_epi16(fields, _mm256_set1_epi16(0x0401));
        let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x0010_0001));
        _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(fours, zero))
    };
    let bytes = _mm256_packus_epi16(numbers, zero);
    _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(bytes))
}

/// Unpacks fields of 2 or 4 bits into bytes, a block at a time.
pub(crate) struct Unpacker<'a, const BITS: usize> {
    section: Section<'a>,
    fields: [u8; FIELDS_LEN],
    /// Fields before the next block, counted from the start of the section.
    taken: usize,
}

impl<'a, const BITS: usize> Unpacker<'a, BITS> {
    pub(crate) fn of(section: &'a [u8]) -> Self {
        Self { section: Section::new(section), fields: [0; FIELDS_LEN], taken: 0 }
    }

    /// The next `count` fields, at most as many as a block has words.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn fields(&mut self, count: usize) -> Unpacked<'_> {
        let at = self.taken % (8 / BITS);
        let first = self.taken * BITS / 8;
        self.taken += count;
        let packed = self.section.span(first, ((at + count) * BITS).div_ceil(8));
        let groups = self.fields.as_chunks_mut().0.iter_mut().take((at + count).div_ceil(32));
        for (index, group) in groups.enumerate() {
            store256(group, unpack::<BITS>(load128(array(&packed[index * 4 * BITS..]))));
        }
        Unpacked { fields: &self.fields, at }
    }
}

/// Unpacked fields of one block.
pub(crate) struct Unpacked<'a> {
    fields: &'a [u8; FIELDS_LEN],
    at: usize,
}

impl Unpacked<'_> {
    /// The next fields in the bytes of `mask`, zero elsewhere.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    pub(crate) fn expand(&mut self, mask: u8) -> __m128i {
        let fields = load64(array(&self.fields[self.at..]));
        self.at += mask.count_ones() as usize;
        _mm_shuffle_epi8(fields, load64(&EXPAND[usize::from(mask)]))
    }
}

/// The inverse of [`pack`].
#[inline]
#[target_feature(enable = "avx2")]
fn unpack<const BITS: usize>(packed: __m128i) -> __m256i {
    if BITS == 4 {
        let wide = _mm256_cvtepu8_epi16(packed);
        return _mm256_and_si256(_mm256_or_si256(wide, _mm256_slli_epi16::<4>(wide)), _mm256_set1_epi8(0xf));
    }
    let wide = _mm256_cvtepu8_epi32(packed);
    let pairs = _mm256_or_si256(wide, _mm256_slli_epi32::<12>(wide));
    _mm256_and_si256(_mm256_or_si256(pairs, _mm256_slli_epi32::<6>(pairs)), _mm256_set1_epi8(3))
}
