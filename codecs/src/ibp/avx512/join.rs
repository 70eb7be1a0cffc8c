//! Bits of several lengths, one behind the other.

use std::arch::x86_64::*;

/// Sixteen pieces of up to 32 bits of the given lengths, one behind the other. All other bits are zero.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2")]
pub(super) fn join32(pieces: __m512i, lens: __m256i) -> __m512i {
    let low = _mm512_set1_epi64(0xffff_ffff);
    let low_lens = _mm256_and_si256(lens, _mm256_set1_epi32(0xffff));
    let high = _mm512_sllv_epi64(_mm512_srli_epi64::<32>(pieces), _mm512_cvtepu32_epi64(low_lens));
    let pieces = _mm512_ternarylogic_epi64::<0xea>(pieces, low, high); // (pieces & low) | high
    let lens = _mm256_add_epi32(low_lens, _mm256_srli_epi32::<16>(lens));
    join64(pieces, _mm256_cvtepi32_epi16(lens))
}

/// Eight pieces of up to 64 bits of the given lengths, one behind the other. All other bits are zero.
///
/// Pieces become pairs, pairs become halves, halves become one: the upper part moves down to where the lower
/// one ends, by words and by bits. Lengths have 16 bits, for narrow vectors are cheap to shuffle.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2")]
pub(super) fn join64(pieces: __m512i, lens: __m128i) -> __m512i {
    // Of each pair, the lower length and the upper piece.
    let evens = _mm_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13);
    let len = _mm512_cvtepu16_epi64(_mm_shuffle_epi8(lens, evens));
    let upper = _mm512_unpackhi_epi64(pieces, pieces);
    let low = _mm512_or_si512(pieces, _mm512_sllv_epi64(upper, len));
    let pairs = _mm512_mask_srlv_epi64(low, 0xaa, upper, _mm512_sub_epi64(_mm512_set1_epi64(64), len));

    // Of each half, the length of the lower pair.
    let swapped = _mm_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    let lens = _mm_add_epi16(lens, _mm_shuffle_epi8(lens, swapped));
    let fourths = _mm_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 8, 9, 8, 9, 8, 9, 8, 9);
    let len = _mm512_cvtepu16_epi64(_mm_shuffle_epi8(lens, fourths));
    let halves = drop_down::<0xcc>(pairs, len, _mm512_setr_epi64(2, 3, 4, 5, 6, 7, 8, 9));

    let lens = _mm_add_epi16(lens, _mm_shuffle_epi32::<0xb1>(lens));
    let len = _mm512_cvtepu16_epi64(_mm_broadcastw_epi16(lens));
    drop_down::<0xf0>(halves, len, _mm512_setr_epi64(4, 5, 6, 7, 8, 9, 10, 11))
}

/// The lower lanes of `parts`, whose lengths are `len`, and behind them the `UPPER` ones. From `places` on, modulo
/// 8, lanes are taken that lie as far above: upper ones or, instead of lower ones, zeros.
///
/// Where a length is a multiple of 64, the lanes before do not matter, and they may be another part's.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi2")]
fn drop_down<const UPPER: u8>(parts: __m512i, len: __m512i, places: __m512i) -> __m512i {
    let upper = _mm512_maskz_mov_epi64(UPPER, parts);
    let places = _mm512_sub_epi64(places, _mm512_srli_epi64::<6>(len));
    let before = _mm512_sub_epi64(places, _mm512_set1_epi64(1));
    let low = _mm512_permutexvar_epi64(places, upper);
    let high = _mm512_permutexvar_epi64(before, upper);
    let moved = _mm512_shldv_epi64(low, high, len);
    _mm512_mask_or_epi64(moved, !UPPER, moved, parts)
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
