//! Reading data sections in whole vectors without reading behind their end.

use std::arch::x86_64::*;

use super::{load64, load128};
use crate::cpu::groups::byte_pairs;
use crate::cpu::lanes::EXPAND;
use crate::cpu::{array, load256};
use crate::line::blocks::BLOCK_LEN;

/// The most that is read at once, in bytes.
const MARGIN: usize = 64;

/// A section, read block by block.
pub(crate) struct Section<'a> {
    bytes: &'a [u8],
    /// Where the next block's fields start.
    at: usize,
    /// A copy of what a block has at the end of the section, and anything behind it.
    end: [u8; BLOCK_LEN + MARGIN],
}

impl<'a> Section<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, end: [0; BLOCK_LEN + MARGIN] }
    }

    /// The next `len` bytes, at most as many as a block has.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        self.at += len;
        &self.bytes[self.at - len..self.at]
    }

    /// The fields in the next `len` bytes, at most as many as a block has.
    #[inline(always)]
    pub(crate) fn fields(&mut self, len: usize) -> Fields<'_> {
        let at = self.at;
        self.at += len;
        Fields { bytes: self.span(at, len), at: 0 }
    }

    /// `len` bytes from byte `at` on and 64 more bytes of anything.
    #[inline(always)]
    pub(super) fn span(&mut self, at: usize, len: usize) -> &[u8] {
        match self.bytes.get(at..at + len + MARGIN) {
            Some(span) => span,
            None => {
                self.end[..len].copy_from_slice(&self.bytes[at..at + len]);
                &self.end[..len + MARGIN]
            }
        }
    }
}

/// Fields of one block in one section.
pub(crate) struct Fields<'a> {
    /// The fields and, so that the last ones can be read in whole vectors, 64 bytes more.
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    /// The next words in the lanes of `mask`, zero elsewhere.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    pub(crate) fn words(&mut self, mask: u8) -> __m256i {
        let words = load256(array(&self.bytes[self.at..]));
        self.at += 4 * mask.count_ones() as usize;
        let from = _mm256_cvtepi8_epi32(load64(&EXPAND[usize::from(mask)]));
        // Lanes without a word have negative indices.
        _mm256_andnot_si256(_mm256_srai_epi32::<31>(from), _mm256_permutevar8x32_epi32(words, from))
    }

    /// The next 16 words, which stay where they are.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn front_words(&self) -> [__m256i; 2] {
        let front: &[u8; 64] = array(&self.bytes[self.at..]);
        let [low, high] = [0, 32].map(|at| array(&front[at..]));
        [load256(low), load256(high)]
    }

    /// The next halfwords, one for each set bit of `mask`; zero elsewhere.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    pub(crate) fn halves(&mut self, mask: u8) -> __m128i {
        let halves = load128(array(&self.bytes[self.at..]));
        self.at += 2 * mask.count_ones() as usize;
        _mm_shuffle_epi8(halves, byte_pairs(load64(&EXPAND[usize::from(mask)])))
    }

    /// The next bytes, one for each set bit of `mask`; zero elsewhere.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    pub(crate) fn bytes(&mut self, mask: u8) -> __m128i {
        let bytes = load64(array(&self.bytes[self.at..]));
        self.at += mask.count_ones() as usize;
        _mm_shuffle_epi8(bytes, load64(&EXPAND[usize::from(mask)]))
    }
}
