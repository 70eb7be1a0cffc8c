//! Bits of several lengths, one behind the other.

use std::arch::x86_64::*;

/// Sixteen pieces of up to 32 bits of the given lengths, one behind the other. All other bits are zero.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn join32(pieces: __m512i, lens: __m512i) -> __m512i {
    let low = _mm512_set1_epi64(0xffff_ffff);
    let low_lens = _mm512_and_si512(lens, low);
    let high = _mm512_sllv_epi64(_mm512_srli_epi64::<32>(pieces), low_lens);
    let pieces = _mm512_ternarylogic_epi64::<0xea>(pieces, low, high); // (pieces & low) | high
    join64(pieces, _mm512_add_epi64(low_lens, _mm512_srli_epi64::<32>(lens)))
}

/// Eight pieces of up to 64 bits of the given lengths, one behind the other. All other bits are zero.
///
/// Pieces become pairs, pairs become halves, halves become one: the upper part moves down to where the lower
/// one ends, by words and by bits.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn join64(pieces: __m512i, lens: __m512i) -> __m512i {
    let word = _mm512_set1_epi64(64);
    // Of each pair, the lower length and the upper piece.
    let len = _mm512_unpacklo_epi64(lens, lens);
    let upper = _mm512_unpackhi_epi64(pieces, pieces);
    let low = _mm512_or_si512(pieces, _mm512_sllv_epi64(upper, len));
    let pairs = _mm512_mask_srlv_epi64(low, 0xaa, upper, _mm512_sub_epi64(word, len));
    let pair_lens = _mm512_add_epi64(lens, _mm512_shuffle_epi32::<0x4e>(lens));

    // Of each half, the length of its lower pair: one word is skipped from 65 bits up.
    let len = _mm512_permutex_epi64::<0>(pair_lens);
    let skips = _mm512_cmpgt_epi64_mask(len, word);
    let shift = _mm512_mask_sub_epi64(len, skips, len, word);
    let places = _mm512_setr_epi64(2, 3, 4, 5, 6, 7, 8, 9);
    let places = _mm512_mask_sub_epi64(places, skips, places, _mm512_set1_epi64(1));
    let halves = drop_down(pairs, 0xcc, shift, places);
    let half_lens = _mm512_add_epi64(pair_lens, _mm512_permutex_epi64::<0x4e>(pair_lens));

    let len = _mm512_broadcastq_epi64(_mm512_castsi512_si128(half_lens));
    let shift = _mm512_and_si512(len, _mm512_set1_epi64(63));
    let places = _mm512_setr_epi64(4, 5, 6, 7, 8, 9, 10, 11);
    let places = _mm512_sub_epi64(places, _mm512_srli_epi64::<6>(len));
    drop_down(halves, 0xf0, shift, places)
}

/// The lower lanes of `parts` and, moved up by `shift` of up to 64 bits, the `upper` ones: lane i takes the low
/// part of lane `places[i]` and the high part of the one before. Places modulo 8 that are no upper lanes are
/// empty.
#[inline]
#[target_feature(enable = "avx512f")]
fn drop_down(parts: __m512i, upper: u8, shift: __m512i, places: __m512i) -> __m512i {
    let low = _mm512_maskz_sllv_epi64(upper, parts, shift);
    let high = _mm512_maskz_srlv_epi64(upper, parts, _mm512_sub_epi64(_mm512_set1_epi64(64), shift));
    let low = _mm512_permutexvar_epi64(places, low);
    let high = _mm512_permutexvar_epi64(_mm512_sub_epi64(places, _mm512_set1_epi64(1)), high);
    let lower = _mm512_maskz_mov_epi64(!upper, parts);
    _mm512_ternarylogic_epi64::<0xfe>(lower, low, high)
}

/// The `fill` bits of `pending`, in lane 0, and `packed` behind them, `bits` in all; and the last of them, which
/// do not fill a word, in lane 0.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn append(packed: __m512i, fill: usize, bits: usize, pending: __m512i) -> (__m512i, __m512i) {
    let shift = _mm512_set1_epi64(fill as i64);
    let low = _mm512_or_si512(_mm512_sllv_epi64(packed, shift), pending);
    let high = _mm512_srlv_epi64(packed, _mm512_sub_epi64(_mm512_set1_epi64(64), shift));
    // Lane 0 has what goes behind the vector.
    let high = _mm512_alignr_epi64::<7>(high, high);
    let joined = _mm512_mask_or_epi64(low, 0xfe, low, high);
    let last = _mm512_zextsi128_si512(_mm_cvtsi64_si128((bits / 64) as i64));
    (joined, _mm512_maskz_permutex2var_epi64(1, joined, last, high))
}
