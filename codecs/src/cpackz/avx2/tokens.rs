//! What each word of a line is.

use std::arch::x86_64::*;

use crate::cpu::lanes::EXPAND;
use crate::line::Line;
use crate::line::avx2::{bits_of_lanes, count_bits, halves_of, lane_bits, load_words, load64};

/// One mask per kind of word; a word in none of them equals a dictionary word.
pub(super) struct Tokens {
    pub(super) zero: u16,
    pub(super) new: u16,
    /// Bits 0 and 1 of the sub-code.
    pub(super) subcodes: [u16; 2],
    /// Where in the dictionary, one byte per word; anything for words without.
    pub(super) indices: __m128i,
}

/// The tokens of 16 words, with indices or without.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn line_tokens<const INDICES: bool>(line: &Line) -> Tokens {
    let [b0, b1, b2, b3] = byte_planes(line);
    let nothing = _mm_setzero_si128();
    let upper = _mm_or_si128(_mm_or_si128(b1, b2), b3);
    let short = _mm_cmpeq_epi8(upper, nothing);
    let zero = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_or_si128(upper, b0), nothing)) as u16;
    let upper_halves = _mm256_set_m128i(_mm_unpackhi_epi8(b2, b3), _mm_unpacklo_epi8(b2, b3));

    let short = _mm_movemask_epi8(short) as u16;

    // Of the words with the same upper halfword only the first that is not short is in the dictionary.
    let equal = equal_halves(upper_halves, line);
    let equal = _mm256_and_si256(equal, _mm256_set1_epi16(!short as i16));
    let first = _mm256_and_si256(equal, _mm256_sub_epi16(_mm256_setzero_si256(), equal));
    let new = bits_of_lanes(_mm256_cmpeq_epi16(first, lane_bits())) & !short;
    let found = !(new | short);

    // Its place: as many words are before it as there are bits below its own.
    let before = count_bits(_mm256_sub_epi16(first, _mm256_set1_epi16(1)));
    let first = _mm_packs_epi16(_mm256_castsi256_si128(before), _mm256_extracti128_si256::<1>(before));
    let is_equal = |plane| _mm_movemask_epi8(_mm_cmpeq_epi8(plane, _mm_shuffle_epi8(plane, first))) as u16;
    let upper_bytes = found & is_equal(b1);
    let equal = upper_bytes & is_equal(b0);
    Tokens {
        zero,
        new,
        subcodes: [found & !equal, upper_bytes & !equal | short & !zero],
        indices: if INDICES { _mm_shuffle_epi8(dictionary_places(new), first) } else { nothing },
    }
}

/// Byte 0 of all 16 words, byte 1, byte 2, byte 3.
#[inline]
#[target_feature(enable = "avx2")]
fn byte_planes(line: &Line) -> [__m128i; 4] {
    let transpose =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    // Byte p of words 0–3 and so on are the dwords p of four vectors.
    let front = _mm256_shuffle_epi8(load_words(line, 0), transpose);
    let back = _mm256_shuffle_epi8(load_words(line, 1), transpose);
    let [a, b] = [_mm256_castsi256_si128(front), _mm256_extracti128_si256::<1>(front)];
    let [c, d] = [_mm256_castsi256_si128(back), _mm256_extracti128_si256::<1>(back)];
    let [ab01, ab23] = [_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)];
    let [cd01, cd23] = [_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d)];
    [
        _mm_unpacklo_epi64(ab01, cd01),
        _mm_unpackhi_epi64(ab01, cd01),
        _mm_unpacklo_epi64(ab23, cd23),
        _mm_unpackhi_epi64(ab23, cd23),
    ]
}

/// For each of the upper halfwords of a line which words have the same, one bit each.
#[inline]
#[target_feature(enable = "avx2")]
fn equal_halves(upper_halves: __m256i, line: &Line) -> __m256i {
    let mut equal = _mm256_setzero_si256();
    for (place, word) in line.as_chunks::<4>().0.iter().enumerate() {
        // From memory: a broadcast of a lane takes two or three shuffles.
        let same =
            _mm256_cmpeq_epi16(upper_halves, _mm256_set1_epi16(i16::from_le_bytes([word[2], word[3]])));
        equal = _mm256_or_si256(equal, _mm256_and_si256(same, _mm256_set1_epi16((1 << place) as i16)));
    }
    equal
}

/// For each new word how many are new before it, as bytes; anything for other words.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn dictionary_places(new: u16) -> __m128i {
    let [low, high] = halves_of(new);
    let back = _mm_add_epi8(load64(&EXPAND[usize::from(high)]), _mm_set1_epi8(low.count_ones() as i8));
    _mm_unpacklo_epi64(load64(&EXPAND[usize::from(low)]), back)
}
