//! What FPC and C-Pack+Z share with AVX-512: moving the fields of 16 words to and from the data sections.

// Expanding loads take pointers; each one is given the slice it may read.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::Taken;
use super::blocks::{BLOCK_WORDS, Block, BlockKinds, Masks, room_at};
use crate::cpu::{array, load512, load512_partial, store512};

#[inline]
#[target_feature(enable = "avx512bw")]
pub(crate) fn load_masks(masks: &Masks) -> __m512i {
    // SAFETY: the masks are 64 bytes, on a multiple of 64.
    unsafe { _mm512_load_si512(masks.0.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512bw")]
pub(crate) fn store_masks(masks: &mut Masks, vector: __m512i) {
    // SAFETY: as above.
    unsafe { _mm512_store_si512(masks.0.as_mut_ptr().cast(), vector) };
}

/// 64 bytes of `from`, from byte `at` on, zeros behind its end.
#[inline]
#[target_feature(enable = "avx512bw,bmi2")]
pub(crate) fn load_at(from: &[u8], at: usize) -> __m512i {
    let rest = from.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(front) => load512(front),
        None => load512_partial(rest),
    }
}

/// Writes 64 bytes from byte `at` on.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(crate) fn store_at(to: &mut [u8], at: usize, value: __m512i) {
    store512(room_at(to, at), value);
}

#[inline]
#[target_feature(enable = "sse2")]
pub(crate) fn store_xmm(to: &mut [u8], at: usize, value: __m128i) {
    let to: &mut [u8; 16] = room_at(to, at);
    // SAFETY: the array has the 16 bytes that are written.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "sse2")]
pub(crate) fn load_xmm(from: &[u8; 16]) -> __m128i {
    // SAFETY: the array has the 16 bytes that are read.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx")]
fn store_ymm(to: &mut [u8], at: usize, value: __m256i) {
    let to: &mut [u8; 32] = room_at(to, at);
    // SAFETY: the array has the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

/// `words` for the lines that are coded, all 16 words for those that are raw, none for the others.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(crate) fn with_raw_lines(words: __m512i, kinds: BlockKinds) -> __m512i {
    _mm512_mask_set1_epi16(_mm512_maskz_mov_epi16(kinds.coded, words), kinds.raw, -1)
}

/// How many bits are set in the masks of a block: words, halfwords, bytes, 4-bit fields.
#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
pub(crate) fn count_fields(fields: [__m512i; 4]) -> Taken {
    // A count is 512 at most, so four fit into one sum.
    let [words, halves, bytes, nibbles] = fields.map(|masks| _mm512_popcnt_epi64(masks));
    let low = _mm512_or_si512(words, _mm512_slli_epi64::<16>(halves));
    let high = _mm512_or_si512(bytes, _mm512_slli_epi64::<16>(nibbles));
    let sums = _mm512_reduce_add_epi64(_mm512_or_si512(low, _mm512_slli_epi64::<32>(high)));
    let [words, halves, bytes, nibbles] = [0, 16, 32, 48].map(|at| usize::from((sums >> at) as u16));
    Taken { words, halves, bytes, nibbles }
}

/// Writes the fields of the words section; returns where they end. `count` is how many there are.
#[inline]
#[target_feature(enable = "avx512bw,popcnt")]
pub(crate) fn put_words(block: &Block, masks: &Masks, count: usize, out: &mut [u8], mut at: usize) -> usize {
    if count == BLOCK_WORDS {
        let bytes = block.as_flattened();
        out[at..at + bytes.len()].copy_from_slice(bytes);
        return at + bytes.len();
    }
    for (line, &mask) in block.iter().zip(&masks.0) {
        store_at(out, at, _mm512_maskz_compress_epi32(mask, load512(line)));
        at += 4 * mask.count_ones() as usize;
    }
    at
}

/// Writes the low halfwords of the 32-bit lanes of `mask`; returns where they end.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,popcnt")]
pub(crate) fn put_halves(lanes: __m512i, mask: u16, out: &mut [u8], at: usize) -> usize {
    store_ymm(out, at, _mm256_maskz_compress_epi16(mask, _mm512_cvtepi32_epi16(lanes)));
    at + 2 * mask.count_ones() as usize
}

/// Writes the low bytes of the words that have a field in the bytes section; returns where they end.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,popcnt")]
pub(crate) fn put_bytes(block: &Block, masks: &Masks, out: &mut [u8], mut at: usize) -> usize {
    for (line, &mask) in block.iter().zip(&masks.0) {
        let bytes = _mm512_cvtepi32_epi8(load512(line));
        store_xmm(out, at, _mm_maskz_compress_epi8(mask, bytes));
        at += mask.count_ones() as usize;
    }
    at
}

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
    #[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,popcnt")]
    pub(crate) fn push_block(&mut self, masks: &Masks, fields: impl Fn(usize) -> __m128i) {
        let mut len = self.len;
        for (line, &mask) in masks.0.iter().enumerate() {
            store_xmm(&mut self.fields, len, _mm_maskz_compress_epi8(mask, fields(line)));
            len += mask.count_ones() as usize;
        }
        self.len = len;
    }

    /// Writes what fills whole bytes; returns where it ends. Called after each block.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl")]
    pub(crate) fn flush(&mut self, out: &mut [u8], at: usize) -> usize {
        let whole = self.len / Self::FIELDS_PER_BYTE;
        let (groups, _) = self.fields.as_chunks();
        for (index, group) in groups.iter().enumerate().take(self.len.div_ceil(64)) {
            let packed = pack::<BITS>(load512(group));
            store_ymm(out, at + index * 8 * BITS, packed);
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

/// 64 fields of `BITS` bits, one per byte, as 8 · `BITS` bytes.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
fn pack<const BITS: usize>(fields: __m512i) -> __m256i {
    if BITS == 4 {
        // Two fields make a halfword below 256.
        let pairs = _mm512_maddubs_epi16(fields, _mm512_set1_epi16(0x1001));
        return _mm512_cvtepi16_epi8(pairs);
    }
    let pairs = _mm512_maddubs_epi16(fields, _mm512_set1_epi16(0x0401));
    let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0010_0001));
    _mm256_castsi128_si256(_mm512_cvtepi32_epi8(fours))
}

/// Unpacks fields of 2 or 4 bits into bytes, a block at a time.
pub(crate) struct Unpacker<const BITS: usize> {
    fields: [u8; FIELDS_LEN],
    /// Fields before the next one, counted from the start of the section.
    taken: usize,
    /// Where in `fields` the next one stands.
    at: usize,
}

impl<const BITS: usize> Unpacker<BITS> {
    pub(crate) const fn new() -> Self {
        Self { fields: [0; FIELDS_LEN], taken: 0, at: 0 }
    }

    /// Unpacks the next `count` fields of `section`, at most as many as a block has words.
    #[inline]
    #[target_feature(enable = "avx512bw,bmi2")]
    pub(crate) fn fill(&mut self, section: &[u8], count: usize) {
        let first = self.taken * BITS / 8;
        self.at = self.taken % (8 / BITS);
        self.taken += count;
        let fields = self.at + count;
        for (index, group) in self.fields.as_chunks_mut().0.iter_mut().enumerate().take(fields.div_ceil(64)) {
            store512(group, unpack::<BITS>(load_at(section, first + index * 8 * BITS)));
        }
    }

    /// The next fields in the bytes of `mask`, zero elsewhere.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,popcnt")]
    pub(crate) fn expand(&mut self, mask: u16) -> __m128i {
        let fields = load_xmm(array(&self.fields[self.at..]));
        self.at += mask.count_ones() as usize;
        _mm_maskz_expand_epi8(mask, fields)
    }
}

/// The inverse of [`pack`].
#[inline]
#[target_feature(enable = "avx512bw")]
fn unpack<const BITS: usize>(packed: __m512i) -> __m512i {
    if BITS == 4 {
        let wide = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(packed));
        return _mm512_and_si512(_mm512_or_si512(wide, _mm512_slli_epi16::<4>(wide)), _mm512_set1_epi8(0xf));
    }
    let wide = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(packed));
    let pairs = _mm512_or_si512(wide, _mm512_slli_epi32::<12>(wide));
    _mm512_and_si512(_mm512_or_si512(pairs, _mm512_slli_epi32::<6>(pairs)), _mm512_set1_epi8(3))
}

/// Takes fields off the front of a section.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    /// The next words in the lanes of `mask`, zero elsewhere.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    pub(crate) fn words(&mut self, mask: u16) -> __m512i {
        let front = self.take(4 * mask.count_ones() as usize);
        // SAFETY: reads a word for each set bit, which is what `front` has.
        unsafe { _mm512_maskz_expandloadu_epi32(mask, front.as_ptr().cast()) }
    }

    /// The next `count` words, at most 16, in the lowest lanes; zeros behind them.
    #[inline]
    #[target_feature(enable = "avx512f,bmi2")]
    pub(crate) fn front_words(&mut self, count: u32) -> __m512i {
        let front = self.take(4 * count as usize);
        let lanes = _bzhi_u32(0xffff, count) as u16;
        // SAFETY: reads `count` words, which is what `front` has.
        unsafe { _mm512_maskz_loadu_epi32(lanes, front.as_ptr().cast()) }
    }

    /// The next halfwords, one for each set bit of `mask`.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,popcnt")]
    pub(crate) fn halves(&mut self, mask: u16) -> __m256i {
        let front = self.take(2 * mask.count_ones() as usize);
        // SAFETY: reads a halfword for each set bit, which is what `front` has.
        unsafe { _mm256_maskz_expandloadu_epi16(mask, front.as_ptr().cast()) }
    }

    /// The next bytes, one for each set bit of `mask`.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,popcnt")]
    pub(crate) fn bytes(&mut self, mask: u16) -> __m128i {
        let front = self.take(mask.count_ones() as usize);
        // SAFETY: reads a byte for each set bit, which is what `front` has.
        unsafe { _mm_maskz_expandloadu_epi8(mask, front.as_ptr().cast()) }
    }

    #[inline(always)]
    pub(crate) fn take(&mut self, len: usize) -> &[u8] {
        let (front, rest) = self.0.split_at(len);
        self.0 = rest;
        front
    }
}
