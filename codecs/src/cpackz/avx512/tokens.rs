//! What each word of a line is.

use std::arch::x86_64::*;

/// One mask per kind of word; a word in none of them equals a dictionary word.
pub(super) struct Tokens {
    pub(super) zero: u16,
    pub(super) new: u16,
    /// Bits 0 and 1 of the sub-code.
    pub(super) subcodes: [u16; 2],
    /// Where in the dictionary, one byte per word; anything for words without.
    pub(super) indices: __m128i,
}

/// The tokens of 16 words.
#[inline]
#[target_feature(enable = "avx512bw,avx512cd,avx512vl,avx512vpopcntdq")]
pub(super) fn line_tokens(words: __m512i) -> Tokens {
    let one_byte = _mm512_set1_epi32(0xff);
    let zero = _mm512_testn_epi32_mask(words, words);
    let short = _mm512_cmple_epu32_mask(words, one_byte);
    // Short words neither join the dictionary nor look there: each gets a number no halfword has.
    let own = _mm512_set_epi32(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16);
    let own = _mm512_slli_epi32::<16>(own);
    let upper = _mm512_mask_mov_epi32(_mm512_srli_epi32::<16>(words), short, own);
    // The earlier words with the same upper halfword. Only the first of them is in the dictionary.
    let earlier = _mm512_conflict_epi32(upper);
    let found = _mm512_test_epi32_mask(earlier, earlier);
    let new = !(found | short);

    // The bits below the lowest one set: as many as there are words before the first.
    let before_first = _mm512_andnot_si512(earlier, _mm512_add_epi32(earlier, _mm512_set1_epi32(-1)));
    let first = _mm512_popcnt_epi32(before_first);
    let difference = _mm512_xor_si512(words, _mm512_permutexvar_epi32(first, words));
    let index = _mm512_popcnt_epi32(_mm512_and_si512(before_first, _mm512_set1_epi32(i32::from(new))));

    let unequal = _mm512_mask_test_epi32_mask(found, difference, difference);
    let upper_bytes = _mm512_mask_cmple_epu32_mask(unequal, difference, one_byte);
    Tokens {
        zero,
        new,
        subcodes: [unequal, upper_bytes | short & !zero],
        indices: _mm512_cvtepi32_epi8(index),
    }
}
